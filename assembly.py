"""Opens the stages from options and closes them in reverse: once for all doors, so evaluators measure what serves.

`open_request_stages` is what a request passes through; `open_reading` and `open_encoding` are the two halves of ingest,
each in a process of its own. Openers import what they open, so that a process loads only the native code it uses. (The
file is longer than a module should be: what is wired together stands together.)
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from math import inf, isnan, nan
from pathlib import Path
from typing import TYPE_CHECKING

from ingest.catalog import Catalog, CatalogOptions
from ingest.keeping import Keeping
from ingest.readers import Readers
from pipeline.answering import Answering
from pipeline.caching import CacheCounts, Counted
from pipeline.chunking import Chunking
from pipeline.clock import Lap, Stage
from pipeline.errors import FleetfootError, Misconfigured
from pipeline.health import Check, Figure, Tally
from pipeline.lane import Lane, LaneOptions
from pipeline.load import Foresees
from pipeline.outages import Outage
from pipeline.ports import (
    Chunkers,
    Explainer,
    GenerationRef,
    GenerationRemover,
    GenerationWriter,
    Parser,
    PassageEncoder,
    Reranker,
    Retriever,
    SecondLevel,
)
from pipeline.ports import Generator as AnswerGenerator
from pipeline.previews import Previewer
from pipeline.profile import Profile

if TYPE_CHECKING:
    from ingest.nudging import JobNotices, RedisNudge
    from rerank.scheduler import PairScheduler
    from rerank.score_cache import ScoreCache
    from retrieve.cached import CachedRetriever
    from retrieve.generation import Generation
    from retrieve.model_folder import ModelFolder
    from retrieve.query_encoder import QueryEncoder, TextEncoder
    from retrieve.scrubbing import Scrubber
    from retrieve.serving import Generations

log = logging.getLogger("fleetfoot.assembly")

REFRESH_SECONDS = 0.5  # a published generation serves within a second; each look is one row of the catalog
BACKLOG_SECONDS = 5.0  # between two counts, each of which reads an index entry for every document in the backlog


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """Where things are kept: `data` holds models, generations and, without `catalog_url`, the SQLite catalog."""

    data: Path
    catalog_url: str | None = None

    @property
    def models(self) -> Path:
        """Model folders, by name."""
        return self.data / "models"

    def catalog(self) -> CatalogOptions:
        """Options of the catalog; the data folder is made where it is missing."""
        self.data.mkdir(parents=True, exist_ok=True)
        data = self.data.resolve()
        return CatalogOptions(self.catalog_url or f"sqlite:///{data / 'catalog.sqlite'}", data / "generations")

    def model(self, name: str) -> Path:
        """The folder of a model that was added under `name`, or the folder that `name` itself is."""
        added = self.models / name
        return added if added.is_dir() or not Path(name).is_dir() else Path(name)

    def added_model(self, name: str) -> Path:
        """As `model`. Raises Misconfigured, saying how to add it, when there is none."""
        folder = self.model(name)
        if not folder.is_dir():
            raise Misconfigured(f"There is no model '{name}'. Add it once with `fleetfoot models add {name}`.")
        return folder


@dataclass(frozen=True, slots=True)
class UpstreamOptions:
    """The model server that generates; see `generate.vllm.VllmOptions`."""

    url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    connections: int = 128
    priorities: bool = False


@dataclass(frozen=True, slots=True)
class CachingOptions:
    """What is kept of what was computed: so many `queries` (vectors), `retrievals` and rerank `scores`; 0 for none.

    With `redis_url` instances share it there, for `seconds`. `single_flight` computes equal requests at the same time
    once. A comparison with what has no cache turns all of it off: `CachingOptions.off()`.
    """

    queries: int = 10_000
    retrievals: int = 2_000
    scores: int = 100_000
    single_flight: bool = True
    redis_url: str | None = None
    seconds: int = 86_400

    @classmethod
    def off(cls) -> CachingOptions:
        """Everything is computed, for everybody."""
        return cls(0, 0, 0, single_flight=False)


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """What a request passes through.

    `threads` bounds native calls that run at once (None: the cores that this process may use), `line` the callers in
    line at each lane; without `foresight`, which only a benchmark turns off, whoever would be late is let in all the
    same. Without `reranker` that stage is off, without `upstream` answers are extracts. With `fast_queries` queries are
    encoded by the graph made for them, where the model has one.
    """

    storage: StorageOptions
    redis_url: str
    embedder: str = "default"
    reranker: str | None = None
    upstream: UpstreamOptions | None = None
    device: str = "cpu"
    fast_queries: bool = True
    threads: int | None = None
    line: int = 64
    foresight: bool = True
    caching: CachingOptions = CachingOptions()
    profiles: Mapping[str, Profile] = field(default_factory=lambda: {"default": Profile()})


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """How documents are read, cut (where their collection has not chosen otherwise) and encoded."""

    storage: StorageOptions
    embedder: str = "default"
    chunking: Chunking = field(default_factory=Chunking)
    device: str = "cpu"
    threads: int = 1
    exact_up_to: int = 20_000
    bulk: bool = False


@dataclass(frozen=True, slots=True)
class Stages:
    """Everything a door to requests needs.

    `lines` are those that a request stands in, `reranks` tells whether there is a reranker. `samples` reads queries
    that each open collection, (tenant, name), can answer; `layout` tells of cores, lanes and threads.
    `look_again` brings a collection (tenant, name) to what the catalog says of it now, before anybody is told. `verify`
    reads a generation through, whatever was read before, and raises Damaged.
    """

    answering: Answering
    explainer: Explainer
    generator: AnswerGenerator
    generator_name: str
    catalog: Catalog
    catalog_lane: Lane
    lines: Mapping[Stage, Foresees]
    reranks: bool
    nudge: RedisNudge
    notices: JobNotices
    look_again: Callable[[str, str], Awaitable[None]]
    profiles: Mapping[str, Profile]
    checks: Mapping[str, Check]
    facts: Mapping[str, str]
    figures: tuple[Figure, ...]
    tallies: tuple[Tally, ...]
    samples: Callable[[], Mapping[tuple[str, str], tuple[str, ...]]]
    layout: Mapping[str, object]
    keeping: Keeping
    verify: Callable[[GenerationRef, Lap], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Reading:
    """The half of ingest that reads and cuts."""

    parser: Parser
    chunkers: Chunkers


@dataclass(frozen=True, slots=True)
class Encoding:
    """The half of ingest that owns the model."""

    encoder: PassageEncoder
    writer: GenerationWriter


@asynccontextmanager
async def open_request_stages(
    options: RequestOptions, *, around_encoder: Callable[[TextEncoder], TextEncoder] | None = None
) -> AsyncGenerator[Stages]:
    """Opens, warms up, and keeps generations fresh until the block ends. Raises Misconfigured for a model or a device
    that is not there.

    `around_encoder` is given the query encoder's model and returns what stands in its place, as a benchmark that slows
    it on purpose; the fingerprint must stay.
    """
    from context.duplicates import DuplicateGrouper
    from context.packing import BudgetPacker
    from context.prompting import CitingPrompter
    from context.sizes import TokenSizer
    from ingest.nudging import JobNotices, RedisNudge
    from retrieve.encoder import EncoderOptions, OnnxEncoder
    from retrieve.explaining import ExactExplainer
    from retrieve.hybrid import HybridRetriever
    from retrieve.lexical_kernel import kernel
    from retrieve.native import native_threads
    from retrieve.query_encoder import QueryEncoder, QueryEncoderOptions
    from retrieve.remote_cache import RedisCacheOptions, open_second_level
    from retrieve.sessions import Device
    from retrieve.vector_cache import VectorCache

    cores = options.threads or usable_cores()
    permits = threading.Semaphore(cores)
    lanes: dict[str, Mapping[str, int]] = {"encode": {"threads": 1, "line": options.line}}
    async with AsyncExitStack() as opened:

        def lane(name: str, threads: int, *, native: bool) -> Lane:
            # Searches are alike; of the catalog and of opening files one tells nothing about the next.
            of = LaneOptions(name, threads, options.line, foresight=native and options.foresight)
            lanes[name] = {"threads": threads, "line": options.line}
            return opened.enter_context(Lane(of, permits=permits if native else None))

        catalog = opened.enter_context(Catalog.open(options.storage.catalog()))
        model = embedder(options.storage, options.embedder)
        encoder = OnnxEncoder.open(model, EncoderOptions(Device(options.device), fast_queries=options.fast_queries))
        caching = options.caching
        second = await opened.enter_async_context(
            open_second_level(caching.redis_url, RedisCacheOptions(caching.seconds))
        )
        vectors = VectorCache.open(encoder.made_by, encoder.dimensions, entries=caching.queries, second=second)
        queries = opened.enter_context(
            QueryEncoder(
                around_encoder(encoder) if around_encoder else encoder,
                QueryEncoderOptions(options.line, foresight=options.foresight, single_flight=caching.single_flight),
                known=vectors if caching.queries else None,
                permits=permits,
            )
        )
        kernel()
        catalog_lane = lane("catalog", 2, native=False)
        # One thread owns a GPU's resources.
        dense = lane("dense", 1 if Device(options.device) is Device.CUDA else cores, native=True)
        generations, scrubber = _generations(
            options,
            catalog,
            encoder.fingerprint,
            opening=lane("open", 1, native=False),
            searching=dense,
            verifying=lane("verify", 1, native=False),
        )
        await generations.open_all(catalog.published())
        context = lane("context", 1, native=True)
        lexical = lane("lexical", cores, native=True)
        lines: dict[Stage, Foresees] = {
            Stage.ENCODE: queries,
            Stage.LEXICAL: lexical,
            Stage.DENSE: dense,
            Stage.DUPLICATES: context,
        }

        reranker, reranker_name, reranking, scores = _reranker(options, opened, permits, second)
        if reranking is not None:
            lines[Stage.RERANK] = reranking
            lanes["rerank"] = {"threads": 1, "line": options.line}
        generator, generator_name, upstream = await _generator(
            options, opened, lines, lambda: lane("extract", 1, native=False)
        )
        searching = HybridRetriever(generations, queries, lexical=lexical, dense=dense)
        retriever, retrievals = _remembering(options, searching, generations, encoder.made_by, second)
        readers = opened.enter_context(Readers.open(catalog))
        refreshing = _Refreshing(generations, catalog, catalog_lane, retrievals, readers)
        opened.push_async_callback(_ended, *map(asyncio.create_task, (refreshing.run(), scrubber.run())))
        nudge = await opened.enter_async_context(RedisNudge.open(options.redis_url))
        notices = await opened.enter_async_context(JobNotices.open(options.redis_url))
        yield Stages(
            Answering(
                retriever,
                reranker,
                DuplicateGrouper(context),
                TokenSizer(),
                BudgetPacker(),
                CitingPrompter(),
            ),
            ExactExplainer(queries, lane("explain", 1, native=True)),
            generator,
            generator_name,
            catalog,
            catalog_lane,
            lines,
            options.reranker is not None,
            nudge,
            notices,
            generations.look_again,
            options.profiles,
            _checks(encoder.fingerprint, reranker_name, generations, catalog, catalog_lane, nudge, upstream),
            {
                "embedder": encoder.fingerprint,
                "query_graph": encoder.query_graph or "the embedder's own",
                "reranker": reranker_name,
                "generator": generator_name,
            },
            (*_figures(queries, refreshing, reranking), *_sizes(vectors, retrievals, scores)),
            _tallies(queries, retrievals, scores, reranking, searching.filters),
            generations.samples,
            {"cores": usable_cores(), "permits": cores, "lanes": lanes, "libraries": native_threads()},
            Keeping(catalog),
            scrubber.verify,
        )


@contextmanager
def open_reading(options: IngestOptions) -> Generator[Reading]:
    """The parser in a child process with limits, and the chunkers. Raises Misconfigured for sizes that cannot work."""
    from ingest.chunkers import ChosenChunkers
    from ingest.isolation import IsolatedParser

    tokenizer = options.storage.added_model(options.embedder) / "tokenizer.json"
    chunkers = ChosenChunkers.open(tokenizer, options.chunking)
    with IsolatedParser() as parser:
        yield Reading(parser, chunkers)


@contextmanager
def open_previewing(options: IngestOptions) -> Generator[Previewer]:
    """The same parser and chunkers for dry runs, each in a child process that is started when somebody asks."""
    from ingest.previewing import IsolatedPreviewer, PreviewOptions

    tokenizer = options.storage.added_model(options.embedder) / "tokenizer.json"
    with IsolatedPreviewer.open(PreviewOptions(tokenizer, options.chunking)) as previewer:
        yield previewer


@contextmanager
def open_encoding(options: IngestOptions) -> Generator[Encoding]:
    """The encoder and the writer of generations. Raises Misconfigured for a model or device that is not there."""
    from retrieve.encoder import EncoderOptions, OnnxEncoder, OnnxPassageEncoder
    from retrieve.sessions import Device

    model = embedder(options.storage, options.embedder)
    encoder: PassageEncoder
    if options.bulk:
        from retrieve.bulk import SentenceTransformerEncoder

        encoder = SentenceTransformerEncoder.open(model)
    else:
        encoder = OnnxPassageEncoder(
            OnnxEncoder.open(model, EncoderOptions(Device(options.device))), threads=options.threads
        )
    yield Encoding(encoder, _writer(model, options))


@contextmanager
def open_compacting(options: IngestOptions) -> Generator[GenerationWriter]:
    """The writer of generations, without a model. Raises Misconfigured where the model's tokenizer is not there."""
    yield _writer(embedder(options.storage, options.embedder), options)


def open_remover() -> GenerationRemover:
    """Whoever takes folders of generations off the disk."""
    from retrieve.storage import Storage

    return Storage()


def _writer(model: ModelFolder, options: IngestOptions) -> GenerationWriter:
    from retrieve.dense import DenseOptions
    from retrieve.generation_writing import FolderWriter
    from retrieve.segment_writing import GenerationOptions

    dense = DenseOptions(exact_up_to=options.exact_up_to, build_threads=options.threads)
    return FolderWriter.open(model, GenerationOptions(dense=dense))


def embedder(storage: StorageOptions, name: str) -> ModelFolder:
    """The embedder's folder. Raises Misconfigured, saying how to add it."""
    from retrieve.model_folder import ModelFolder

    return ModelFolder.open(storage.added_model(name))


def usable_cores() -> int:
    """Cores that this process may use, by affinity and by the cgroup's quota, at least one."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    except (OSError, ValueError):
        return cores
    return cores if quota == "max" else max(1, min(cores, int(quota) // int(period)))


def _generations(
    options: RequestOptions, catalog: Catalog, fingerprint: str, *, opening: Lane, searching: Lane, verifying: Lane
) -> tuple[Generations, Scrubber]:
    from retrieve.generation import Generation as Opened
    from retrieve.gpu_dense import GpuDenseIndex, GpuMemory
    from retrieve.scrubbing import Scrubber
    from retrieve.segment import OpenSegments
    from retrieve.serving import Generations
    from retrieve.sessions import Device
    from retrieve.verifying import Verifier

    verifier, shared = Verifier(options.storage.data / "stamps"), OpenSegments()
    memory = GpuMemory.open() if Device(options.device) is Device.CUDA else None

    def open_generation(ref: GenerationRef) -> Generation:
        on_gpu = partial(GpuDenseIndex, memory=memory) if memory else None
        return Opened.open(ref, embedder=fingerprint, verifier=verifier, dense=on_gpu, shared=shared)

    generations = Generations(catalog, open_generation, earlier=catalog, opening=opening, searching=searching)
    return generations, Scrubber(generations, verifier, shared, verifying)


def _reranker(
    options: RequestOptions,
    opened: AsyncExitStack,
    permits: threading.Semaphore,
    second: SecondLevel | None,
) -> tuple[Reranker, str, PairScheduler | None, ScoreCache | None]:
    if options.reranker is None:
        from rerank.none import NoReranker

        return NoReranker(), "none", None, None
    from rerank.model import CrossEncoderOptions
    from rerank.opening import RerankerOptions, open_reranker
    from rerank.score_cache import ScoreCache

    opened_caches: list[ScoreCache] = []

    def known(fingerprint: str) -> ScoreCache:
        opened_caches.append(ScoreCache.open(fingerprint, scores=options.caching.scores, second=second))
        return opened_caches[0]

    folder = options.storage.added_model(options.reranker)
    model = CrossEncoderOptions(folder, device=options.device)
    costs = options.storage.data / "costs"
    reranker = opened.enter_context(
        open_reranker(
            RerankerOptions(model, costs, options.line),
            permits=permits,
            known=known if options.caching.scores else None,
        )
    )
    return reranker, folder.name, reranker.line, opened_caches[0] if opened_caches else None


async def _generator(
    options: RequestOptions, opened: AsyncExitStack, lines: dict[Stage, Foresees], lane: Callable[[], Lane]
) -> tuple[AnswerGenerator, str, Callable[[], Awaitable[str | None]] | None]:
    if options.upstream is None:
        from generate.extractive import ExtractiveGenerator

        lines[Stage.FIRST_TOKEN] = quoting = lane()
        return ExtractiveGenerator(lane=quoting), "extractive", None
    from generate.vllm import VllmGenerator, VllmOptions

    upstream = options.upstream
    of = VllmOptions(
        upstream.url,
        upstream.model,
        upstream.api_key,
        connections=upstream.connections,
        priorities=upstream.priorities,
    )
    client = await opened.enter_async_context(VllmGenerator.open(of))
    lines[Stage.FIRST_TOKEN] = client
    return client, upstream.model, client.check


def _remembering(
    options: RequestOptions,
    searching: Retriever,
    generations: Generations,
    embedder: str,
    second: SecondLevel | None,
) -> tuple[Retriever, CachedRetriever | None]:
    """The retriever, with a memory and with single flight, as far as they are wanted; the memory by itself."""
    from pipeline.caching import CacheCounts
    from retrieve.cached import CachedRetriever, retrieval_key
    from retrieve.dense import DenseOptions
    from retrieve.hybrid import HybridOptions
    from retrieve.shared import SharedRetriever

    caching = options.caching
    key = retrieval_key(repr((own_version(), embedder, options.device, HybridOptions(), DenseOptions())))
    retriever, cached = searching, None
    if caching.retrievals:
        cached = CachedRetriever.open(retriever, generations, key, entries=caching.retrievals, second=second)
        retriever = cached
    if caching.single_flight:
        retriever = SharedRetriever(retriever, generations, key, cached.counts if cached else CacheCounts())
    return retriever, cached


def own_version() -> str:
    """The installed distribution's version; `0+checkout` where none is installed."""
    try:
        return version("fleetfoot")
    except PackageNotFoundError:
        return "0+checkout"


class _Refreshing:
    """The catalog is looked at, rather than listened for: it is the truth, and Redis may be away.

    `backlog` counts documents; it is not a number before the first look and while the catalog is away.
    """

    def __init__(
        self,
        generations: Generations,
        catalog: Catalog,
        lane: Lane,
        retrievals: CachedRetriever | None,
        readers: Readers,
    ) -> None:
        self.backlog = nan
        self._readers = readers
        self._generations = generations
        self._retrievals = retrievals
        self._catalog = catalog
        self._lane = lane
        self._counted = -inf
        self._outage = Outage(log, "Generations cannot be refreshed, and those that are open serve on")

    async def run(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            try:
                await self._refresh()
                await self._count()
            except Exception as error:  # noqa: BLE001  a loop that ended would never open anything again
                self.backlog = nan
                self._outage.failed(error)
            else:
                self._outage.over()

    async def _refresh(self) -> None:
        """One row a collection is read, and a generation is opened where that is another than the one that serves."""
        lap = Lap(Stage.ADMIT, 0.0, inf)
        await self._generations.refresh(await self._lane.run(lap, lambda _: self._catalog.serving()))
        held = self._generations.held()
        await self._lane.run(Lap(Stage.ADMIT, 0.0, inf), lambda _: self._readers.hold(held))
        if self._retrievals is not None:
            serving = ((state.tenant, state.generation or "") for state in self._generations.states())
            self._retrievals.forget_retired(serving)

    async def _count(self) -> None:
        now = time.monotonic()
        if now - self._counted >= BACKLOG_SECONDS or isnan(self.backlog):
            self.backlog = await self._lane.run(Lap(Stage.ADMIT, 0.0, inf), lambda _: self._catalog.unfinished())
            self._counted = now


async def _ended(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _checks(
    fingerprint: str,
    reranker: str,
    generations: Generations,
    catalog: Catalog,
    lane: Lane,
    nudge: RedisNudge,
    upstream: Callable[[], Awaitable[str | None]] | None,
) -> dict[str, Check]:
    """Anybody may read what they say, so they name no collection and no address."""

    async def models() -> str:
        return f"embedder {fingerprint}, reranker {reranker}"

    async def index() -> str:
        states = generations.states()
        broken = [state for state in states if state.problem]
        if broken:
            unserved = sum(state.generation is None for state in broken)
            raise FleetfootError(
                f"The current generation of {len(broken)} of {len(states)} collections cannot be opened: damaged, "
                f"missing or of another embedder. {len(broken) - unserved} of these are served from an earlier one, "
                f"{unserved} not at all. The log names them."
            )
        return f"{sum(state.generation is not None for state in states)} collections open"

    async def records() -> str:
        await lane.run(Lap(Stage.ADMIT, 0.0, inf), lambda _: catalog.check())
        return "answers"

    async def broker() -> str:
        await nudge.check()
        return "answers"

    async def model_server() -> str:
        reason = await upstream() if upstream else None
        if reason:
            raise FleetfootError(reason)
        return "answers" if upstream else "extractive, no model server is configured"

    return {
        "models": Check(models),
        "index": Check(index),
        "catalog": Check(records),
        "broker": Check(broker, needed=False),
        "upstream": Check(model_server),
    }


_HOW = "got from this instance's cache, from the shared one, from an equal request under way, or computed."


def _tallies(
    queries: QueryEncoder,
    retrievals: Counted | None,
    scores: Counted | None,
    reranking: PairScheduler | None,
    filters: CacheCounts,
) -> tuple[Tally, ...]:
    def masks() -> dict[str, float]:
        return {"hit": filters.hits, "computed": filters.computed}

    tallies = [
        Tally("query_vectors", f"Query vectors: {_HOW}", "how", queries.counts.by_outcome),
        Tally("filter_masks", "Rows of a segment that filter and labels leave: known, or looked up.", "how", masks),
    ]
    if retrievals is not None:
        tallies.append(Tally("retrievals", f"Retrievals: {_HOW}", "how", retrievals.counts.by_outcome))
    if scores is not None:
        tallies.append(Tally("rerank_scores", f"Rerank scores: {_HOW}", "how", scores.counts.by_outcome))
    if reranking is not None:
        tallies.append(Tally("rerank_runs", "Runs of the reranker's model.", "how", reranking.counts.by_outcome))
    return tuple(tallies)


def _sizes(vectors: Counted, retrievals: Counted | None, scores: Counted | None) -> tuple[Figure, ...]:
    """What the caches keep in this process."""

    def entries(cache: Counted) -> Callable[[], float]:
        return lambda: float(cache.entries)

    def size(cache: Counted) -> Callable[[], float]:
        return lambda: float(cache.size)

    figures = [
        Figure("query_vectors_kept", "Query vectors in this instance's cache.", entries(vectors)),
        Figure("query_vectors_kept_bytes", "Bytes that they take.", size(vectors)),
    ]
    if retrievals is not None:
        figures += [
            Figure("retrievals_kept", "Retrievals in this instance's cache.", entries(retrievals)),
            Figure("retrievals_kept_bytes", "Bytes that they take.", size(retrievals)),
        ]
    if scores is not None:
        figures += [
            Figure("rerank_scores_kept", "Queries in this instance's cache of rerank scores.", entries(scores)),
            Figure("rerank_scores_kept_bytes", "Bytes that they take.", size(scores)),
        ]
    return tuple(figures)


def _figures(queries: QueryEncoder, refreshing: _Refreshing, reranking: PairScheduler | None) -> tuple[Figure, ...]:
    figures = (
        Figure("encode_line", "Queries in line for the encoder now.", lambda: float(queries.waiting)),
        Figure(
            "backlog_documents",
            "Documents that were accepted and are not done: not searchable yet, or not yet gone. "
            "Counted every few seconds; NaN while the catalog is away.",
            lambda: refreshing.backlog,
        ),
    )
    if reranking is None:
        return figures
    text = "Requests that are being reranked or wait for it now."
    return (*figures, Figure("rerank_line", text, lambda: float(reranking.waiting)))
