"""`GET /v1/jobs/{job_id}/failed.csv`: what failed and why, for a spreadsheet.

RFC 4180 in UTF-8. A cell that a spreadsheet would take for a formula begins with an apostrophe instead, since names and
reasons quote what strangers wrote. https://owasp.org/www-community/attacks/CSV_Injection
"""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncGenerator, Sequence

from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from api.job_shapes import JobId, seen
from api.service import Inside, enter
from api.wire import ErrorOut
from pipeline.errors import FleetfootError
from pipeline.jobs import ItemState, JobItem
from pipeline.passages import Scope

router = APIRouter(tags=["jobs"])

PAGE = 1000  # documents that are read at once
COLUMNS = ("name", "document_id", "reason")
FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n")
TYPE = "text/csv; charset=utf-8; header=present"
EXAMPLE = "name,document_id,reason\r\na.pdf,c00dc838e3411391160f8677,'a.pdf' has no text: the file is empty.\r\n"


@router.get(
    "/v1/jobs/{job_id}/failed.csv",
    responses={
        200: {"description": "All of them, with a header.", "content": {"text/csv": {"example": EXAMPLE}}},
        "default": {"model": ErrorOut},
    },
)
async def failed(job_id: JobId, request: Request) -> Response:
    """The failed documents of a job as CSV, each with the reason for its author."""
    here = enter(request, Scope.READ, Scope.INGEST)
    first = await _page(job_id, 0, here)  # an unknown job is a 404, and not half a file
    headers = {"Content-Disposition": f'attachment; filename="failed-{job_id}.csv"'}
    return StreamingResponse(_rows(job_id, first, here), headers=headers, media_type=TYPE)


async def _rows(job_id: str, page: Sequence[JobItem], here: Inside) -> AsyncGenerator[bytes, None]:
    """A page at a time, so that a million failures take no more memory than a thousand."""
    yield _written([COLUMNS])
    try:
        while page:
            yield _written([(item.name, item.document_id, item.reason) for item in seen(page, here.labels)])
            page = await _page(job_id, page[-1].ordinal, here) if len(page) == PAGE else ()
    except FleetfootError as error:  # too late for a status: the connection is broken, so that nobody takes it for all
        raise RuntimeError(f"The failed documents of job {job_id} end in the middle.") from error


async def _page(job_id: str, after: int, here: Inside) -> Sequence[JobItem]:
    return await here.catalog(lambda it: it.items(here.tenant, job_id, after=after, limit=PAGE, state=ItemState.FAILED))


def _written(rows: Sequence[tuple[str, ...]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerows([_safe(cell) for cell in row] for row in rows)
    return text.getvalue().encode()


def _safe(cell: str) -> str:
    return f"'{cell}" if cell.startswith(FORMULAS) else cell
