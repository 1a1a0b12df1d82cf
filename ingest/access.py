"""Access labels of documents: what may be one, and which rows a caller with some labels may see."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, func, or_, true

from pipeline.errors import InvalidInput

MOST = 32
_LABEL = re.compile(r"[^\W_][\w.:@/+-]{0,63}")
_OPEN = "[]"


def check_access(access: Sequence[str], where: str) -> None:
    """Raises InvalidInput for what could not be a label; quotes and commas would blur the border between two."""
    if len(access) > MOST:
        raise InvalidInput(f"{where} has {len(access)} labels, of {MOST} at most.", field=where)
    for place, label in enumerate(access):
        if not _LABEL.fullmatch(label):
            raise InvalidInput(
                f"'{label[:80]}' cannot be an access label. Use 1 to 64 letters, digits and ._:@/+-, beginning with a "
                "letter or a digit.",
                field=f"{where}[{place}]",
            )


def open_to(access: ColumnElement[str] | Any, labels: frozenset[str] | None) -> ColumnElement[bool]:
    """Whether one with these labels may see what has this column; None stands for the operator, who sees everything.

    A label is looked for with its quotes by `replace`, the one way that minds case in every database.
    """
    if labels is None:
        return true()
    named = (func.replace(access, json.dumps(label, ensure_ascii=False), "") != access for label in sorted(labels))
    return or_(access == _OPEN, *named)


def may_see(access: str, labels: frozenset[str] | None) -> bool:
    """The same of one row's value."""
    return labels is None or access == _OPEN or not labels.isdisjoint(json.loads(access))
