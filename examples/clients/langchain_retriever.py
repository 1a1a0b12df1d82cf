"""LangChain: fleetfoot as a retriever. Needs langchain-core and httpx."""

import httpx
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever


class FleetfootRetriever(BaseRetriever):
    """`client` is an httpx.Client with the service's base_url, and an Authorization header where it asks for keys."""

    client: httpx.Client
    collection: str
    top_k: int = 8
    deadline_ms: float | None = None

    def _get_relevant_documents(self, query: str) -> list[Document]:
        asked = {"collection": self.collection, "query": query, "top_k": self.top_k, "deadline_ms": self.deadline_ms}
        response = self.client.post("/v1/retrieve", json=asked)
        if response.is_error:
            raise RuntimeError(response.json()["error"]["message"])
        passages = response.json()["results"][0]["passages"]
        return [Document(id=p["id"], page_content=p["text"], metadata=_about(p)) for p in passages]


def _about(passage: dict) -> dict:
    shown = ("document_id", "source", "title", "heading", "page", "score")
    return {**passage["metadata"], **{name: passage[name] for name in shown}}
