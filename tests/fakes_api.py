"""What stands behind the HTTP door in its tests: small stages that wait where a test wants them to."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from types import TracebackType

import aiohttp

from api.assembly import DoorOptions, create_app
from api.connection import Patience
from api.service import Previews
from api.serving import ServingOptions, listen, server
from pipeline.answering import Answering
from pipeline.chunking import Chosen, Chunking
from pipeline.clock import Clock, Lap, Stage
from pipeline.errors import Conflict, Damaged, NotFound
from pipeline.explaining import DocumentState, Evidence, LegPlace, Seen, Standing, TermShare
from pipeline.health import Check
from pipeline.jobs import (
    NO_TERMS,
    Collection,
    DocumentInfo,
    GenerationInfo,
    ItemState,
    Job,
    JobItem,
    JobState,
    Known,
    Offer,
    Place,
    Repeated,
    Terms,
)
from pipeline.lane import Lane, LaneOptions
from pipeline.load import Foresees
from pipeline.passages import (
    Candidate,
    Candidates,
    Cited,
    Context,
    Degraded,
    Dropped,
    Groups,
    Hit,
    Leg,
    Passage,
    Prompt,
    Query,
    Ranked,
    Ranking,
    Sizes,
    Token,
    Turn,
    Upload,
    Usage,
)
from pipeline.ports import GenerationRef, Generator, Grouper, Packer, Reranker, Retriever, Sizer
from pipeline.previews import Previewer
from pipeline.profile import Profile
from tests.fakes_previews import FakePreviewer
from tests.fakes_shelf import FakeShelf, make_passage

SHELF = FakeShelf(
    [
        make_passage("leave", 0, "Everybody has 28 days of leave.", title="Leave", page=3, heading=("Time", "Leave")),
        make_passage("notice", 0, "The notice period is three months.", title="Notice", language="en"),
        make_passage("shoes", 0, "Shoes are kept in the blue box.", metadata={"year": 2025, "tags": ("shop", "hr")}),
    ],
    generation="handbook@7",
)


class Gate:
    """Where somebody waits until let through; `reached` and `left` tell that they came and that they were cancelled."""

    def __init__(self, *, opened: bool = True) -> None:
        self.reached = asyncio.Event()
        self.left = asyncio.Event()
        self._open = asyncio.Event()
        if opened:
            self._open.set()

    def open(self) -> None:
        """Lets everybody through from now on."""
        self._open.set()

    async def through(self) -> None:
        self.reached.set()
        try:
            await self._open.wait()
        except asyncio.CancelledError:
            self.left.set()
            raise


class FakeRetriever:
    """Finds every passage of its shelf, in order; remembers what was asked."""

    def __init__(self, shelf: FakeShelf = SHELF, *, known: Sequence[str] = ("handbook", "laws")) -> None:
        self.shelf = shelf
        self.known = known
        self.gate = Gate()
        self.queries: list[Query] = []
        self.degraded: tuple[Degraded, ...] = ()
        self.error: Exception | None = None
        self.together = 0
        self.inside = 0

    async def retrieve(self, query: Query, clock: Clock) -> Candidates:
        self.queries.append(query)
        self.inside += 1
        self.together = max(self.together, self.inside)
        for name in query.collections:
            if name not in self.known:
                raise NotFound("collection", name, self.known)
        if self.error is not None:
            raise self.error
        async with clock.lap(Stage.DENSE):
            await self.gate.through()
            await asyncio.sleep(0)
        self.inside -= 1
        keys = range(3)
        items = tuple(
            Candidate(key, 1 / (61 + key), (Hit(Leg.LEXICAL, key + 1, 9.0 - key), Hit(Leg.DENSE, 3 - key, 0.5)))
            for key in keys
        )
        return Candidates(items, self.shelf, self.degraded)


class FakeReranker:
    """Leaves the order as it is."""

    def __init__(self) -> None:
        self.gate = Gate()

    async def rerank(self, query: Query, candidates: Candidates, clock: Clock) -> Ranking:
        async with clock.lap(Stage.RERANK):
            await self.gate.through()
        return Ranking(tuple(Ranked(each, 1.0 - place / 10) for place, each in enumerate(candidates.items)))


class PlainStages:
    """The stages in which nothing happens: grouper, sizer, packer and prompter in one."""

    async def group(self, query: Query, candidates: Candidates, clock: Clock) -> Groups:
        return Groups({})

    async def size(self, query: Query, candidates: Candidates, clock: Clock) -> Sizes:
        keys = [each.key for each in candidates.items]
        return Sizes(dict(zip(keys, candidates.shelf.tokens(keys), strict=True)))

    def pack(self, query: Query, candidates: Candidates, ranking: Ranking, groups: Groups, sizes: Sizes) -> Context:
        kept = ranking.items[: query.profile.pack.top_k]
        passages = candidates.shelf.passages([each.candidate.key for each in kept])
        items = tuple(
            Cited(number, ranked, (passage,), passage.text, passage.tokens)
            for number, (ranked, passage) in enumerate(zip(kept, passages, strict=True), start=1)
        )
        tokens = sum(each.tokens for each in items)
        dropped = tuple(Dropped(each.candidate.key, "top_k") for each in ranking.items[len(kept) :])
        return Context(items, tokens, dropped, candidates.shelf.generation, candidates.degraded)

    def prompt(self, query: Query, context: Context) -> Prompt:
        messages = (Turn("system", "\n".join(each.text for each in context.items)), *query.conversation)
        return Prompt(messages, context, query.text, sampling=query.sampling, request_id=query.request_id)


class FakeGenerator:
    """Says its words, waiting before the first and before those after it."""

    def __init__(self, *words: str) -> None:
        self.words = words or ("You have", " 28 days", " [1].")
        self.before_first = Gate()
        self.between = Gate()
        self.prompts: list[Prompt] = []
        self.error: Exception | None = None
        self.late_error: Exception | None = None
        self.closed = asyncio.Event()
        self.endless = False

    async def generate(self, prompt: Prompt) -> AsyncGenerator[Token, None]:
        self.prompts.append(prompt)
        if self.error is not None:
            raise self.error
        try:
            await self.before_first.through()
            words = itertools.cycle(self.words) if self.endless else iter(self.words)
            for place, word in enumerate(words):
                if place:
                    await self.between.through()
                yield Token(text=word, delta={"content": word})
                if self.late_error is not None:
                    raise self.late_error
            yield Token(finish_reason="stop", usage=Usage(12, len(self.words), 8))
        finally:
            self.closed.set()


class FakeCatalog:
    """Jobs, collections and documents in dicts."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, str, tuple[Upload, ...]]] = []
        self.removed: list[tuple[str, ...]] = []
        self.known: dict[str, Job] = {}
        self.names = ["handbook", "laws"]
        self.standings: dict[str, Standing] = {}
        self.chosen: dict[str, Chunking | None] = {}
        self.labels: list[frozenset[str]] = []
        self.terms: list[Terms] = []
        self.error: Exception | None = None

    def accept(
        self, tenant: str, collection: str, uploads: Sequence[Upload], *, kind: str = "add", terms: Terms = NO_TERMS
    ) -> Job:
        self.terms.append(terms)
        self.kept.append((tenant, collection, tuple(uploads)))
        return self._begin(tenant, collection, kind, len(uploads))

    def remove(
        self,
        tenant: str,
        collection: str,
        document_ids: Sequence[str],
        *,
        terms: Terms = NO_TERMS,
        labels: frozenset[str],
    ) -> Job:
        self.terms.append(terms)
        self.labels.append(labels)
        self.removed.append(tuple(document_ids))
        return self._begin(tenant, collection, "remove", len(document_ids))

    def passages(
        self,
        tenant: str,
        collection: str,
        document_id: str,
        *,
        after: int = -1,
        limit: int = 100,
        labels: frozenset[str] | None = frozenset(),
    ) -> Sequence[Passage]:
        self.document(tenant, collection, document_id, labels=labels or frozenset())
        found = [make_passage(document_id, n, f"p{n}", parent=f"{document_id}#0", start=3 * n) for n in range(3)]
        return [each for each in found if each.ordinal > after][:limit]

    def standing(self, tenant: str, collection: str, document: str, *, labels: frozenset[str] | None) -> Standing:
        self.collection(tenant, collection)
        self.labels.append(frozenset({"everything"}) if labels is None else labels)
        return self.standings.get(document, Standing("", document, DocumentState.UNKNOWN))

    def chunking(self, tenant: str, collection: str) -> Chosen:
        self.collection(tenant, collection)
        return Chosen(self.chosen.get(collection), "sentences-2:200")

    def choose_chunking(self, tenant: str, collection: str, chunking: Chunking | None) -> Job | None:
        if collection not in self.names:
            self.names.append(collection)
        if self.chosen.get(collection) == chunking:
            return None
        self.chosen[collection] = chunking
        return self._begin(tenant, collection, "refresh", 3)

    def refresh(self, tenant: str, collection: str, *, terms: Terms = NO_TERMS) -> Job:
        self.terms.append(terms)
        return self._begin(tenant, collection, "refresh", self.collection(tenant, collection).documents)

    def retry(self, tenant: str, job_id: str, *, terms: Terms = NO_TERMS) -> Job:
        self.terms.append(terms)
        job = self.job(tenant, job_id)
        return self._begin(tenant, job.collection, job.kind, len(job.failed))

    def unneeded(self, tenant: str, collection: str, offers: Sequence[Offer]) -> Sequence[Known]:
        """What was kept just so; the job is the one that it came in, unless that is over."""
        offered = {offer.name: offer for offer in offers}
        found: dict[str, Known] = {}
        for job, (_, into, uploads) in zip(self.known.values(), self.kept, strict=False):
            over = job.state in {JobState.DONE, JobState.FAILED, JobState.CANCELLED}
            failed = {item.name for item in job.failed}
            for each in uploads:
                mine = Offer(each.name, sha256(each.content).hexdigest(), each.metadata, each.access)
                if into == collection and each.name not in failed and offered.get(each.name) == mine:
                    found[each.name] = Known(each.name, None if over else job.id)
        return list(found.values())

    def repeated(
        self,
        tenant: str,
        collection: str,
        content_hashes: Sequence[str],
        passage_hashes: Sequence[str],
        labels: frozenset[str] = frozenset(),
    ) -> Repeated:
        self.labels.append(labels)
        kept = [(f"d{place}", each) for place, (_, _, uploads) in enumerate(self.kept) for each in uploads]
        there = {sha256(each.content).hexdigest(): (Place(id_, each.name),) for id_, each in kept}
        return Repeated({hash_: there[hash_] for hash_ in content_hashes if hash_ in there}, {})

    def job(self, tenant: str, job_id: str) -> Job:
        if job_id not in self.known or self.known[job_id].tenant != tenant:
            raise NotFound("job", job_id, self.known)
        return self.known[job_id]

    def jobs(self, tenant: str, collection: str | None = None, limit: int = 50) -> Sequence[Job]:
        return [each for each in self.known.values() if collection in {None, each.collection}][:limit]

    def items(
        self, tenant: str, job_id: str, after: int = 0, limit: int = 500, state: ItemState | None = None
    ) -> Sequence[JobItem]:
        """Those that failed, and else documents that wait."""
        job = self.job(tenant, job_id)
        waiting = [JobItem(f"{n}.md", f"d{n}", ItemState.ACCEPTED, ordinal=n + 1) for n in range(job.total)]
        found = job.failed if state is ItemState.FAILED else waiting if state is None else ()
        return [each for each in found if each.ordinal > after][:limit]

    def cancel(self, tenant: str, job_id: str) -> Job:
        self.known[job_id] = replace(self.job(tenant, job_id), state=JobState.CANCELLED)
        return self.known[job_id]

    def collections(self, tenant: str) -> Sequence[Collection]:
        if self.error is not None:
            raise self.error
        return [Collection(tenant, name, 3, 3, 7, 1e9) for name in self.names]

    def collection(self, tenant: str, name: str) -> Collection:
        if name not in self.names:
            raise NotFound("collection", name, self.names)
        return Collection(tenant, name, 3, 3, 7, 1e9)

    def delete_collection(self, tenant: str, name: str) -> None:
        self.collection(tenant, name)
        self.names.remove(name)

    def documents(
        self, tenant: str, collection: str, *, after: str | None = None, limit: int = 100, labels: frozenset[str]
    ) -> Sequence[DocumentInfo]:
        self.collection(tenant, collection)
        self.labels.append(labels)
        found = [self.document(tenant, collection, f"d{n}", labels=labels) for n in range(3)]
        return [each for each in found if after is None or each.id > after][:limit]

    def document(self, tenant: str, collection: str, document_id: str, *, labels: frozenset[str]) -> DocumentInfo:
        if document_id not in {"d0", "d1", "d2"}:
            raise NotFound("document", document_id, ["d0", "d1", "d2"])
        return DocumentInfo(document_id, f"{document_id}.md", "Title", "text/markdown", "en", 2, 40, "ab" * 32, 1e9)

    def moves(self, job_id: str, state: JobState, **counts: int) -> None:
        """The job is in another state now."""
        named = {ItemState(name): count for name, count in counts.items()}
        self.known[job_id] = replace(self.known[job_id], state=state, counts=named)

    def _begin(self, tenant: str, collection: str, kind: str, total: int) -> Job:
        job_id = f"job{len(self.known)}"
        counts = {ItemState.ACCEPTED: total}
        self.known[job_id] = Job(job_id, tenant, collection, kind, JobState.ACCEPTED, total, 1e9, counts=counts)
        return self.known[job_id]


class FakeExplainer:
    """Tells of the passages of a document on the shelf that the request was answered from."""

    def __init__(self) -> None:
        self.asked: list[tuple[Query, str]] = []

    async def explain(self, query: Query, candidates: Candidates, document_id: str, clock: Clock) -> Evidence:
        self.asked.append((query, document_id))
        async with clock.lap(Stage.EXPLAIN):
            keys = range(len(SHELF.passages(range(3))))
        seen = [
            Seen(key, passage, (LegPlace(Leg.LEXICAL, 2, 8.0, 3, (TermShare("leav", 8.0, 1),)),))
            for key, passage in zip(keys, SHELF.passages(keys), strict=True)
            if passage.document_id == document_id
        ]
        return Evidence(tuple(seen))


class FakeKeeping:
    """The generations of a collection in a list: 7 serves, 6 came before; remembers what was done with them."""

    def __init__(self) -> None:
        self.done: list[tuple[str, str, object]] = []
        self.known = [generation(7), generation(6)]

    def list(self, tenant: str, collection: str) -> Sequence[GenerationInfo]:
        if collection != "handbook":
            raise NotFound("collection", collection, ["handbook"])
        return self.known

    def ref(self, tenant: str, collection: str, number: int | None = None) -> GenerationRef:
        info = self._one(tenant, collection, 7 if number is None else number)
        return GenerationRef(collection, info.number, Path(f"g{info.number}"), "00")

    def pin(self, tenant: str, collection: str, number: int, *, pinned: bool = True) -> GenerationInfo:
        self.done.append(("pin", collection, (number, pinned)))
        return replace(self._one(tenant, collection, number), pinned=pinned)

    def roll_back(self, tenant: str, collection: str, number: int) -> GenerationInfo:
        self._one(tenant, collection, number)
        if number == 7:
            raise Conflict(f"'{collection}@7' is what serves already, so there is nothing to roll back.")
        self.done.append(("roll back", collection, number))
        return replace(generation(8), restores=number)

    def drop(self, tenant: str, collection: str) -> Sequence[int]:
        self.list(tenant, collection)
        self.done.append(("drop", collection, None))
        return (4, 5)

    def compact(self, tenant: str, collection: str) -> GenerationInfo:
        self.done.append(("compact", collection, None))
        return self._one(tenant, collection, 7)

    def _one(self, tenant: str, collection: str, number: int) -> GenerationInfo:
        for info in self.list(tenant, collection):
            if info.number == number:
                return info
        raise NotFound("generation", str(number), ["7", "6"])


def generation(number: int) -> GenerationInfo:
    """As the catalog would tell of it."""
    return GenerationInfo(
        number=number,
        current=number >= 7,
        documents=3,
        passages=3,
        written=4,
        segments=2,
        size=4096,
        published=1e9,
        superseded=None if number >= 7 else 2e9,
        pinned=False,
        withdrawn=False,
        restores=None,
        readers=1,
    )


class FakeNudge:
    """Counts."""

    def __init__(self) -> None:
        self.times = 0

    async def nudge(self) -> None:
        self.times += 1


class FakeNotices:
    """Says that a job has moved whenever a test puts something in."""

    def __init__(self) -> None:
        self.moved: asyncio.Queue[None] = asyncio.Queue()
        self.watched = asyncio.Event()

    async def watch(self, job_id: str) -> AsyncGenerator[None, None]:
        self.watched.set()
        while True:
            yield await self.moved.get()


async def works() -> str:
    """A readiness check that passes."""
    return "ok"


@dataclass
class FakeStages:
    """Everything together; a test reaches in and changes what it needs."""

    lane: Lane
    retriever: FakeRetriever | Retriever = field(default_factory=FakeRetriever)
    reranker: FakeReranker | Reranker = field(default_factory=FakeReranker)
    grouper: Grouper = field(default_factory=PlainStages)
    sizer: Sizer = field(default_factory=PlainStages)
    packer: Packer = field(default_factory=PlainStages)
    explainer: FakeExplainer = field(default_factory=FakeExplainer)
    generator: FakeGenerator | Generator = field(default_factory=FakeGenerator)
    generator_name: str = "fake"
    catalog: FakeCatalog = field(default_factory=FakeCatalog)
    keeping: FakeKeeping = field(default_factory=FakeKeeping)
    damaged: set[int] = field(default_factory=set)
    nudge: FakeNudge = field(default_factory=FakeNudge)
    notices: FakeNotices = field(default_factory=FakeNotices)
    looked_again: list[tuple[str, str]] = field(default_factory=list)
    profiles: Mapping[str, Profile] = field(
        default_factory=lambda: {"default": Profile(deadline=5.0), "quick": Profile("quick", deadline=0.5)}
    )
    checks: Mapping[str, Check] = field(default_factory=lambda: {"index": Check(works)})
    facts: Mapping[str, str] = field(default_factory=lambda: {"embedder": "fake"})
    lines: Mapping[Stage, Foresees] = field(default_factory=dict[Stage, Foresees])
    reranks: bool = True
    previewer: Previewer = field(default_factory=FakePreviewer)

    @property
    def answering(self) -> Answering:
        return Answering(self.retriever, self.reranker, self.grouper, self.sizer, self.packer, PlainStages())

    async def verify(self, ref: GenerationRef, lap: Lap) -> None:
        if ref.number in self.damaged:
            raise Damaged(f"'{ref.collection}@{ref.number}' is damaged.")

    async def look_again(self, tenant: str, collection: str) -> None:
        self.looked_again.append((tenant, collection))

    @property
    def catalog_lane(self) -> Lane:
        return self.lane


class Service:
    """The app on a real socket, with its stages and a client that may leave."""

    def __init__(self, url: str, stages: FakeStages, client: aiohttp.ClientSession) -> None:
        self.url = url
        self.stages = stages
        self.client = client

    async def chat(self, text: str = "How many days of leave?", **body: object) -> aiohttp.ClientResponse:
        """A chat request, answered as far as its headers."""
        asked = {"model": "handbook", "messages": [{"role": "user", "content": text}], **body}
        return await self.client.post(f"{self.url}/v1/chat/completions", json=asked)

    async def retrieve(self, **body: object) -> aiohttp.ClientResponse:
        """A retrieval, answered as far as its headers."""
        asked = {"query": "How many days of leave?", "collection": "handbook", **body}
        return await self.client.post(f"{self.url}/v1/retrieve", json=asked)


class Running:
    """Serves an app over its stages while it is open."""

    def __init__(
        self, options: DoorOptions | None = None, *, patience: Patience | None = None, **stages: object
    ) -> None:
        self.options = options or DoorOptions(version="1.2.3")
        self.serving = ServingOptions(port=0, grace=0.2, patience=patience or Patience())
        self.given = stages
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Service:
        lane = self._stack.enter_context(Lane(LaneOptions("catalog", threads=1, line=8)))
        reading = self._stack.enter_context(Lane(LaneOptions("parse", threads=1, line=2, foresight=False)))
        stages = FakeStages(lane, **self.given)  # type: ignore[arg-type]  # whatever a test sets
        app = create_app(stages, self.options, previews=Previews(stages.previewer, reading))
        listening = self._stack.enter_context(listen(self.serving))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        await self._stack.enter_async_context(_served(server(app, self.serving), listening))
        client = await self._stack.enter_async_context(aiohttp.ClientSession())
        return Service(url, stages, client)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()


@asynccontextmanager
async def _served(serving: object, listening: object) -> AsyncIterator[None]:
    task = asyncio.create_task(serving.serve([listening]))  # type: ignore[attr-defined]
    try:
        yield
    finally:
        serving.should_exit = True  # type: ignore[attr-defined]
        await task


async def events(response: aiohttp.ClientResponse) -> list[tuple[str, str]]:
    """Every event of a stream to its end: (name, data)."""
    found: list[tuple[str, str]] = []
    name = ""
    async for line in response.content:
        text = line.decode().rstrip("\n")
        if text.startswith("event: "):
            name = text[7:]
        elif text.startswith("data: "):
            found.append((name, text[6:]))
            name = ""
    return found
