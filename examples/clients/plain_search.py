"""Plain Python: what `index.search(model.encode(query), k)` or a pgvector SELECT becomes. Standard library only."""

import json
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen


def search(
    url: str, collection: str, query: str, top_k: int = 8, *, key: str | None = None, deadline_ms: float | None = None
) -> list[dict[str, Any]]:
    """Passages, best first: `text`, `source`, `title`, `heading`, `page`, `score`, `id`, `document_id` and more.

    The query goes in as text: the service encodes it. Raises RuntimeError with the service's own explanation.
    """
    asked = {"collection": collection, "query": query, "top_k": top_k, "deadline_ms": deadline_ms}
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    request = Request(f"{url.rstrip('/')}/v1/retrieve", json.dumps(asked).encode(), headers)
    try:
        with urlopen(request, timeout=30) as response:
            return json.load(response)["results"][0]["passages"]
    except HTTPError as error:
        raise RuntimeError(json.load(error)["error"]["message"]) from None
