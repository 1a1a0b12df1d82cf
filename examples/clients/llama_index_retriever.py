"""LlamaIndex: fleetfoot as a retriever. Needs llama-index-core and httpx."""

import asyncio

import httpx
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode


class FleetfootRetriever(BaseRetriever):
    """`client` is an httpx.Client with the service's base_url, and an Authorization header where it asks for keys."""

    def __init__(self, client: httpx.Client, collection: str, top_k: int = 8, deadline_ms: float | None = None) -> None:
        self._client = client
        self._asked = {"collection": collection, "top_k": top_k, "deadline_ms": deadline_ms}
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        response = self._client.post("/v1/retrieve", json={**self._asked, "query": query_bundle.query_str})
        if response.is_error:
            raise RuntimeError(response.json()["error"]["message"])
        return [_node(passage) for passage in response.json()["results"][0]["passages"]]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


def _node(passage: dict) -> NodeWithScore:
    about = {**passage["metadata"], **{name: passage[name] for name in ("source", "title", "heading", "page")}}
    return NodeWithScore(node=TextNode(id_=passage["id"], text=passage["text"], metadata=about), score=passage["score"])
