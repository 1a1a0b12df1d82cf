"""`POST /v1/collections/{collection}/documents`: files or ready-made texts in, a promise out."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from api.errors import unusable
from api.job_shapes import JobOut, accepted
from api.limits import Limits
from api.multipart import frozen, uploads_of_parts
from api.service import enter
from api.terms import IdempotencyKey, WebhookUrl
from api.wire import ErrorOut
from ingest.formats.row_template import check_reading_options
from pipeline.errors import InvalidInput, TooLarge
from pipeline.passages import Scalar, Scope, Upload

router = APIRouter(tags=["documents"])

NDJSON = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"})
BY_SUFFIX = {".md": "text/markdown", ".markdown": "text/markdown", ".html": "text/html", ".htm": "text/html"}
PLAIN = "text/plain"


class DocumentIn(BaseModel):
    """A ready-made text. The same `name` again replaces the document; without one its content names it."""

    model_config = ConfigDict(extra="forbid")

    text: str
    name: str | None = Field(default=None, min_length=1, max_length=1024)
    title: str | None = None
    media_type: str | None = Field(
        default=None, pattern=r"^text/(plain|markdown|html)$", description="Else by the name's ending, else plain."
    )
    metadata: dict[str, Scalar | list[Scalar]] = {}
    access: list[str] = Field(
        default=[], description="Labels: only keys that carry one of them find it. Empty: every key of the tenant does."
    )
    options: dict[str, str] = Field(default={}, description="How it is read: `csv.template`, as `{name}: {price}`.")


class DocumentsIn(BaseModel):
    """Several texts at once."""

    model_config = ConfigDict(extra="forbid")

    documents: list[DocumentIn] = Field(min_length=1)


EXAMPLE = {
    "documents": [
        {
            "name": "leave.md",
            "title": "Leave",
            "text": "# Leave\n\nEverybody has 28 days of leave.",
            "metadata": {"year": 2025, "tags": ["hr"]},
        }
    ]
}
REQUEST_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {
                        "file": {
                            "type": "array",
                            "items": {"type": "string", "format": "binary"},
                            "description": "One or more files; the filename is the document's name.",
                        },
                        "metadata": {"type": "string", "description": "A JSON object that holds for all of them."},
                        "access": {"type": "string", "description": "A JSON list of labels that hold for all of them."},
                        "options": {
                            "type": "string",
                            "description": "A JSON object that says how all of them are read: `csv.template`.",
                        },
                    },
                }
            },
            "application/json": {
                "schema": DocumentsIn.model_json_schema(ref_template="#/components/schemas/{model}"),
                "example": EXAMPLE,
            },
            "application/x-ndjson": {
                "schema": {"type": "string", "description": "One document of the JSON form on each line."},
                "example": '{"name":"a.txt","text":"First."}\n{"name":"b.txt","text":"Second."}\n',
            },
        },
    }
}
REQUEST_BODY["requestBody"]["content"]["application/json"]["schema"].pop("$defs", None)


@router.post(
    "/v1/collections/{collection}/documents",
    status_code=202,
    responses={
        202: {
            "model": JobOut,
            "description": "Kept, and will be done.",
            "headers": {"Location": {"description": "The job.", "schema": {"type": "string"}}},
        },
        "default": {"model": ErrorOut},
    },
    openapi_extra=REQUEST_BODY,
)
async def upload(
    collection: Annotated[str, Path(openapi_examples={"a collection": {"value": "handbook"}})],
    request: Request,
    key: IdempotencyKey = None,
    webhook: WebhookUrl = None,
) -> Response:
    """Accepts documents. 202 means: kept, and will be done; follow the job for the rest.

    Sending the same content under the same name again costs nothing and changes nothing. The collection is made by
    its first document.
    """
    here = enter(request, Scope.INGEST)
    terms = here.terms(key, webhook)  # before the body: what cannot be is told before it is sent
    uploads = await uploads_of(request, here.limits)
    job = await here.catalog(
        lambda it: it.accept(here.tenant, collection, uploads(), terms=terms), seconds=here.limits.upload_deadline
    )
    await here.stages.nudge.nudge()
    return accepted(job, here.labels)


async def uploads_of(request: Request, limits: Limits) -> Callable[[], list[Upload]]:
    """Reads the body, and returns what makes uploads of it: a large JSON body is not parsed on the event loop."""
    declared = request.headers.get("content-type", "")
    kind = declared.partition(";")[0].strip().lower()
    try:
        if kind == "multipart/form-data":
            uploads = await uploads_of_parts(declared, request.stream(), limits)
            return partial(_some, uploads)
        if kind in NDJSON:
            uploads = await _of_lines(request.stream(), limits)
            return partial(_some, uploads)
        if kind in {"application/json", ""}:
            return partial(_of_json, await request.body(), limits)
    except ClientDisconnect:
        raise InvalidInput("The body ended before all of it had come. Send it again.", field="body") from None
    raise InvalidInput(
        f"A body of type '{kind}' is not understood here. Send files as multipart/form-data, or texts as "
        "application/json or application/x-ndjson.",
        field="Content-Type",
    )


async def _of_lines(body: AsyncIterator[bytes], limits: Limits) -> list[Upload]:
    uploads: list[Upload] = []
    rest = bytearray()
    async for chunk in body:
        *ends, begun = chunk.split(b"\n")
        for end in ends:
            _add_line(bytes(rest + end), uploads, limits)
            rest.clear()
        rest += begun
        if len(rest) > limits.file:
            raise _too_long(f"documents[{len(uploads)}]", limits)
    _add_line(bytes(rest), uploads, limits)
    return uploads


def _add_line(line: bytes, uploads: list[Upload], limits: Limits) -> None:
    if not line.strip():
        return
    place = f"documents[{len(uploads)}]"
    if len(line) > limits.file:
        raise _too_long(place, limits)
    try:
        document = DocumentIn.model_validate_json(line)
    except ValidationError as error:
        raise _invalid(error, place) from error
    uploads.append(_upload(document, place))
    _at_most(len(uploads), limits)


def _of_json(body: bytes, limits: Limits) -> list[Upload]:
    try:
        documents = DocumentsIn.model_validate_json(body).documents
    except ValidationError as error:
        raise _invalid(error, "") from error
    _at_most(len(documents), limits)
    uploads = [_upload(document, f"documents[{place}]") for place, document in enumerate(documents)]
    for place, each in enumerate(uploads):
        if len(each.content) > limits.file:
            raise _too_long(f"documents[{place}]", limits)
    return uploads


def _some(uploads: list[Upload]) -> list[Upload]:
    if not uploads:
        raise InvalidInput("The body has no documents. Send at least one.", field="documents")
    return uploads


def _upload(document: DocumentIn, place: str) -> Upload:
    """A ready-made text as an upload: plain unless it says otherwise, so that nothing in it is read as markup."""
    check_reading_options(document.options, f"{place}.options")
    content = document.text.encode("utf-8", "replace")
    title = {} if document.title is None else {"title": document.title}
    name = document.name or f"text-{hashlib.sha256(str(title).encode() + content).hexdigest()[:24]}"
    suffix = name[name.rfind(".") :].lower() if "." in name else ""
    media_type = document.media_type or BY_SUFFIX.get(suffix, PLAIN)
    metadata = {**frozen(document.metadata), **title}
    return Upload(name, content, media_type, metadata, tuple(document.access), document.options)


def _at_most(documents: int, limits: Limits) -> None:
    if documents > limits.files:
        raise TooLarge(
            f"At most {limits.files} documents are taken at once. Send the rest by another request.", field="documents"
        )


def _too_long(place: str, limits: Limits) -> TooLarge:
    return TooLarge(f"'{place}' is over {limits.file} bytes, the limit for one document. Split it.", field=place)


def _invalid(error: ValidationError, place: str) -> InvalidInput:
    told = unusable(error.errors())
    field = ".".join(part for part in (place, told.param if told.param != "body" else "") if part) or "body"
    return InvalidInput(told.message if not place else f"In {place}: {told.message}", field=field)
