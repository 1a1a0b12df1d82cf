"""The retriever examples of docs/migrating.md against a server that answers in the shape of `POST /v1/retrieve`."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from api.retrieval import RetrieveIn, RetrieveOut
from examples.clients.plain_search import search

PASSAGE = {
    "number": 1, "id": "d1:0", "document_id": "d1", "text": "The driver stops ten metres short of it.",
    "title": "Marmots on the line", "heading": ["Marmots on the line"], "page": None, "source": "notices/marmots.md",
    "language": "en", "metadata": {"shelf": "notices"}, "score": 0.03, "rerank_score": None, "tokens": 9,
    "legs": {"lexical": {"rank": 1, "score": 7.5}, "dense": {"rank": 2, "score": 0.6}}, "joined": [],
    "parent": None, "previous": None, "next": None,
}  # fmt: skip
ANSWER = {
    "id": "req-1",
    "results": [{
        "query": {"text": "marmot", "asides": []}, "passages": [PASSAGE], "tokens": 9, "generation": "handbook@1",
        "timings": {"total_ms": 4.2, "laps": []}, "dropped": {}, "degraded": [],
    }],
}  # fmt: skip
REFUSAL = "There is no collection 'handbok'. Known: handbook."


class StubService(ThreadingHTTPServer):
    """Knows one collection; keeps what it was asked, and with which key."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Answering(BaseHTTPRequestHandler):
    server: StubService

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(asked)
        self.server.keys.append(self.headers["Authorization"])
        known = asked["collection"] == "handbook" and self.path == "/v1/retrieve"
        body = json.dumps(ANSWER if known else {"error": {"message": REFUSAL, "code": "not_found"}}).encode()
        self.send_response(200 if known else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the standard library's name
        """Says nothing."""


@pytest.fixture
def service() -> Iterator[StubService]:
    with StubService() as stub:
        thread = threading.Thread(target=stub.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield stub
        stub.shutdown()
        thread.join()


def test_the_stub_answers_in_the_shape_of_the_service() -> None:
    assert RetrieveOut.model_validate(ANSWER).results[0].passages[0].model_dump(mode="json") == PASSAGE


def test_plain_python_gets_passages_and_asks_what_the_service_understands(service: StubService) -> None:
    found = search(service.url, "handbook", "marmot", 3, key="secret", deadline_ms=80)
    assert found == [PASSAGE]
    assert RetrieveIn.model_validate(service.asked[0]).top_k == 3
    assert service.keys == ["Bearer secret"]


def test_plain_python_passes_on_why_it_was_refused(service: StubService) -> None:
    with pytest.raises(RuntimeError, match="no collection 'handbok'"):
        search(service.url, "handbok", "marmot")


def test_langchain_gets_documents_and_passes_on_why_it_was_refused(service: StubService) -> None:
    httpx = pytest.importorskip("httpx", reason="the LangChain example needs httpx, which is no dependency")
    pytest.importorskip("langchain_core", reason="langchain-core is no dependency of fleetfoot")
    from examples.clients.langchain_retriever import FleetfootRetriever

    with httpx.Client(base_url=service.url) as client:
        found = FleetfootRetriever(client=client, collection="handbook").invoke("marmot")
        with pytest.raises(RuntimeError, match="no collection 'handbok'"):
            FleetfootRetriever(client=client, collection="handbok").invoke("marmot")
    assert [document.page_content for document in found] == [PASSAGE["text"]]
    assert found[0].metadata["source"] == "notices/marmots.md"
    assert found[0].metadata["shelf"] == "notices"
    assert all(RetrieveIn.model_validate(asked) for asked in service.asked)


def test_llama_index_gets_nodes_waiting_or_not_and_passes_on_why_it_was_refused(service: StubService) -> None:
    httpx = pytest.importorskip("httpx", reason="the LlamaIndex example needs httpx, which is no dependency")
    pytest.importorskip("llama_index.core", reason="llama-index-core is no dependency of fleetfoot")
    from examples.clients.llama_index_retriever import FleetfootRetriever

    with httpx.Client(base_url=service.url) as client:
        retriever = FleetfootRetriever(client, "handbook")
        found = retriever.retrieve("marmot")
        assert [node.text for node in asyncio.run(retriever.aretrieve("marmot"))] == [PASSAGE["text"]]
        with pytest.raises(RuntimeError, match="no collection 'handbok'"):
            FleetfootRetriever(client, "handbok").retrieve("marmot")
    assert (found[0].text, found[0].score) == (PASSAGE["text"], PASSAGE["score"])
    assert found[0].metadata["heading"] == ["Marmots on the line"]
    assert all(RetrieveIn.model_validate(asked) for asked in service.asked)
