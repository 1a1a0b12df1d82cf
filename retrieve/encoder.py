"""Texts to vectors with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from pipeline.errors import InvalidInput, Misconfigured
from pipeline.passages import Vectors
from retrieve.bound_runs import BoundRuns
from retrieve.model_folder import ModelFolder, ModelKind, Pooling
from retrieve.sessions import Device, Session, open_session

FLOOR = 1e-12


@dataclass(frozen=True, slots=True)
class EncoderOptions:
    """`threads` work inside one run of the graph; texts are cut after `max_tokens`, special tokens included.

    With `fast_queries` the graph made for queries is run where the model has one and the device is a CPU; for documents
    leave it off (`retrieve.query_graph`).
    """

    device: Device = Device.CPU
    threads: int = 1
    max_tokens: int = 256
    fast_queries: bool = False


class OnnxEncoder:
    """A sentence encoder: tokenises, runs the graph, pools and normalises. Safe to use from several threads.

    A generation must agree with its `fingerprint`, a cache of its vectors with `made_by`; `query_graph` names the graph
    for queries where it is that one which is run.

    A graph with dynamic int8 quantisation takes its scales from the whole batch, so a text's vector depends a little
    on the texts beside it (cosine above .998 measured in the tests). Where equal texts must get equal bits, encode
    them one by one. The graph for queries has fixed scales.
    """

    def __init__(
        self, model: ModelFolder, session: Session, tokenizer: Tokenizer, dimensions: int, options: EncoderOptions
    ) -> None:
        self.model = model
        self.dimensions = dimensions
        self.options = options
        self._session = session
        self._tokenizer = tokenizer
        self._inputs = tuple(port.name for port in session.get_inputs())
        self._output = _vector_output(session)
        self._mean = model.pooling is Pooling.MEAN
        self.query_graph = ""
        self._bound: BoundRuns | None = None
        if options.device is Device.CUDA:
            self._bound = BoundRuns(session, self._inputs, self._output, options.device)

    @classmethod
    def open(cls, model: ModelFolder, options: EncoderOptions | None = None) -> OnnxEncoder:
        """Loads the graph and runs it once. Raises Misconfigured when it is no embedder or the device is not there."""
        options = options or EncoderOptions()
        if model.declared_kind is ModelKind.CROSS_ENCODER:
            raise Misconfigured(f"'{model.folder}' is a cross-encoder; name it as the reranker, not as the embedder.")
        fast = options.fast_queries and options.device is Device.CPU and model.query_weights.is_file()
        session = open_session(model.query_weights if fast else model.weights, options.device, options.threads)
        tokenizer = open_tokenizer(model)
        cast("Any", tokenizer).enable_truncation(options.max_tokens)
        encoder = cls(model, session, tokenizer, 0, options)
        if fast:
            encoder.query_graph = model.query_weights.stem
        encoder.dimensions = int(encoder.encode_ids([encoder.tokenize("ready")]).shape[1])
        if encoder._bound is not None:
            encoder._bound.warm_up(options.max_tokens)
        return encoder

    @property
    def fingerprint(self) -> str:
        """The model folder's fingerprint."""
        return self.model.fingerprint

    @property
    def made_by(self) -> str:
        """Names the graph too: vectors with equal names are equal."""
        return f"{self.fingerprint}+{self.query_graph}" if self.query_graph else self.fingerprint

    @property
    def max_tokens(self) -> int:
        """Where a text is cut."""
        return self.options.max_tokens

    def tokenize(self, text: str) -> list[int]:
        """Token ids with special tokens, `max_tokens` at most."""
        return self._tokenizer.encode(text).ids

    def encode_ids(self, rows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """`[rows, dimensions] float32`, L2-normalised; rows are padded to the longest.

        Raises RuntimeError when the graph fails.
        """
        longest = max(map(len, rows))
        ids = np.zeros((len(rows), longest), np.int64)
        mask = np.zeros((len(rows), longest), np.int64)
        for row, tokens in enumerate(rows):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        try:
            states = self._states({name: given[name] for name in self._inputs})
        except Exception as error:  # onnxruntime's exceptions share no base but Exception
            raise RuntimeError(f"The model '{self.model.name}' failed on {ids.shape} tokens: {error}") from error
        return _normalised(self._pooled(states, mask))

    def _states(self, given: dict[str, NDArray[np.int64]]) -> NDArray[Any]:
        return self._session.run([self._output], given)[0] if self._bound is None else self._bound.run(given)

    def _pooled(self, states: NDArray[Any], mask: NDArray[np.int64]) -> NDArray[np.float32]:
        if states.ndim == 2:
            return states.astype(np.float32)
        if not self._mean:
            return states[:, 0].astype(np.float32)
        if len(states) == 1:
            mean: NDArray[np.float32] = states.mean(axis=1, dtype=np.float32)
            return mean
        weights = mask.astype(np.float32)
        weights /= weights.sum(axis=1, keepdims=True)
        pooled: NDArray[np.float32] = np.matmul(weights[:, None, :], states.astype(np.float32, copy=False))[:, 0]
        return pooled


class OnnxPassageEncoder:
    """Implements PassageEncoder over an encoder, with `threads` runs at the same time.

    `batch_tokens` bounds the padded tokens of one run. The default, 0, encodes every text alone: then a vector depends
    on its text and model only, and from 64 tokens on a CPU is no slower for it (.5 to .6 ms a token at 1 x 128, 4 x
    128 and 8 x 128 alike). A GPU wants 16,384 or so.
    """

    def __init__(self, encoder: OnnxEncoder, *, threads: int = 1, batch_tokens: int = 0) -> None:
        self._encoder = encoder
        self._threads = threads
        self._batch_tokens = batch_tokens

    @property
    def fingerprint(self) -> str:
        """Names the model's files."""
        return self._encoder.fingerprint

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        return self._encoder.dimensions

    def encode(self, texts: Sequence[str]) -> Vectors:
        """`[texts, dimensions] float32`, L2-normalised, in the order of `texts`."""
        rows = np.empty((len(texts), self.dimensions), np.float32)
        tokens = [self._encoder.tokenize(text) for text in texts]

        def compute(batch: list[int]) -> None:
            rows[batch] = self._encoder.encode_ids([tokens[text] for text in batch])

        with ThreadPoolExecutor(self._threads, thread_name_prefix="encode") as pool:
            for _ in pool.map(compute, batches([len(ids) for ids in tokens], self._batch_tokens)):
                pass
        return as_vectors(rows)


def as_vectors(rows: NDArray[np.float32]) -> Vectors:
    """A matrix ready to cross a folder, without a copy."""
    data = rows.data.cast("B") if rows.size else memoryview(b"")
    return Vectors((rows.shape[0], rows.shape[1]), "float32", data)


def as_rows(vectors: Vectors) -> NDArray[np.float32]:
    """The matrix that crossed a folder, without a copy. Raises InvalidInput where data, kind and shape disagree."""
    rows, dimensions = vectors.shape
    if vectors.dtype != "float32" or vectors.data.nbytes != 4 * rows * dimensions:
        raise InvalidInput(
            f"Vectors should be {rows} x {dimensions} float32, which is {4 * rows * dimensions} bytes, and are "
            f"{vectors.dtype} of {vectors.data.nbytes} bytes."
        )
    return np.frombuffer(vectors.data, np.float32).reshape(vectors.shape)


def batches(lengths: Sequence[int], bound: int) -> list[list[int]]:
    """Indices sorted by length, longest first, cut so that rows x longest stays within `bound`, one row at least."""
    order = sorted(range(len(lengths)), key=lambda index: (-lengths[index], index))
    cut: list[list[int]] = []
    for index in order:
        if cut and (len(cut[-1]) + 1) * lengths[cut[-1][0]] <= bound:
            cut[-1].append(index)
        else:
            cut.append([index])
    return cut


def open_tokenizer(model: ModelFolder) -> Tokenizer:
    """The model's tokenizer without the truncation and padding of its file. Raises Misconfigured."""
    try:
        tokenizer = Tokenizer.from_file(str(model.tokenizer))
    except Exception as error:
        raise Misconfigured(f"'{model.tokenizer}' is no tokenizer: {error}. Fetch the model anew.") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _normalised(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), FLOOR)
    return vectors


def _vector_output(session: Session) -> str:
    """The output with a vector in it: `sentence_embedding` where the graph pools by itself, else the token states."""
    outputs = {port.name: port for port in session.get_outputs()}
    for name in ("sentence_embedding", "last_hidden_state", "token_embeddings"):
        if name in outputs:
            return name
    first = next(iter(outputs.values()))
    if len(first.shape) == 3:
        return first.name
    raise Misconfigured(
        f"The model's outputs are {', '.join(outputs)}, none of them token states or a sentence embedding: it is no "
        "embedder. A model with one score per pair is a reranker."
    )
