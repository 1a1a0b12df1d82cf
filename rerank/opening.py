"""Opens the reranker: model, device, warm-up, the costs of before, and the thread that owns it all."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rerank.anytime import AnytimeOptions
from rerank.cost import CostModel
from rerank.cost_file import CostFile, Machine, processor_name
from rerank.cross_encoder import CrossEncoderReranker
from rerank.model import CrossEncoder, CrossEncoderOptions
from rerank.scheduler import PairScheduler
from rerank.scorer import KnownScores


@dataclass(frozen=True, slots=True)
class RerankerOptions:
    """`costs` is the folder in which costs are kept (None: nowhere), `line` how many requests at most are in line.

    `anytime` is by the device's measurements unless it is given. Costs are written every `keep_every` seconds when
    nobody is in line, and at the end.
    """

    model: CrossEncoderOptions
    costs: Path | None = None
    line: int = 64
    anytime: AnytimeOptions | None = None
    keep_every: float = 60.0


@contextmanager
def open_reranker(
    options: RerankerOptions,
    *,
    permits: AbstractContextManager[object] | None = None,
    known: Callable[[str], KnownScores] | None = None,
    now: Callable[[], float] = time.perf_counter,
) -> Generator[CrossEncoderReranker]:
    """A reranker that is warm. `known` is given the model's fingerprint, which belongs into every key.

    Raises Misconfigured for a model or a device that cannot be used.
    """
    model = CrossEncoder.open(options.model)
    fingerprint = model.fingerprint
    anytime = options.anytime or AnytimeOptions.on(options.model.device)
    keeping = _Keeping(model, fingerprint, options)
    model.warm_up(anytime.run_tokens)
    with PairScheduler(model, anytime, line=options.line, permits=permits, idle=keeping.now_and_then, now=now) as lane:
        yield CrossEncoderReranker(lane, known(fingerprint) if known else None)
    keeping.write()


class _Keeping:
    """Reads the costs of before, and writes those of now from the thread that learns them."""

    def __init__(self, model: CrossEncoder, fingerprint: str, options: RerankerOptions) -> None:
        machine = Machine(fingerprint, options.model.device, options.model.threads, processor_name())
        self._file = CostFile(options.costs, machine) if options.costs else None
        self._model = model
        self._every = options.keep_every
        self._written = time.monotonic()
        before = self._file.read() if self._file else None
        if before:
            model.cost = CostModel(before)
        self._runs = model.cost.learned.runs

    def now_and_then(self) -> None:
        if time.monotonic() - self._written >= self._every:
            self.write()

    def write(self) -> None:
        learned = self._model.cost.learned
        self._written = time.monotonic()
        if self._file and learned.runs > self._runs:
            self._file.write(learned)
            self._runs = learned.runs
