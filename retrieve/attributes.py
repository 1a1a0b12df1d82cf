"""The fields of a segment's passages, mapped, and which rows a filter leaves.

What a comparison means:

- `eq` matches a field that holds the value; a list field holds each of its members. `in` matches one that holds any of
  the values. `ne` and `nin` match all other passages: also those that do not have the field.
- `gt`, `gte`, `lt` and `lte` match a field that holds a value on that side, on the scale of the value they are given: a
  number among numbers, a date among dates as instants, other text among all texts by code point. Of a list one member
  is enough. Truth values have no order.
- Values of another kind than the given one do not match, nor does a field that a passage does not have.
- A date that is asked for is compared with dates alone, as an instant, in `eq` and `in` too.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pyarrow  # type: ignore[import-untyped]  # carries no types
from numpy.typing import NDArray

from pipeline.filters import AND, Comparison, Compound, Filter, Op
from pipeline.passages import Scalar
from retrieve.attribute_building import ATTRIBUTES, DIRECTORY
from retrieve.kinds import Kind, decoded, instant, kind_of

arrow: Any = pyarrow
MASK_BYTES = 16 * 1024 * 1024
OVERHEAD = 300  # bytes that a kept mask takes beside its rows
FIELD_SETS = 64  # sets of labels whose fields are remembered

Mask = NDArray[np.uint8]
Runs = NDArray[np.bool_]
COMPLEMENTS = {Op.NE: Op.EQ, Op.NIN: Op.IN}


class Attributes:
    """What one segment knows for filters. Safe to use from several threads.

    Masks are kept by filter and labels, in `mask_bytes` at most; what was not asked for longest goes first. `recorded`
    is False for a segment of an earlier version, which kept no fields.
    """

    def __init__(
        self,
        rows: int,
        starts: NDArray[np.int32],
        columns: Mapping[str, Mapping[Kind, Column]],
        access: Column | None,
        *,
        recorded: bool = True,
        mask_bytes: int = MASK_BYTES,
    ) -> None:
        self.rows = rows
        self.recorded = recorded
        ends: NDArray[np.int64] = np.append(starts[1:], rows if len(starts) else []).astype(np.int64)
        self._lengths: NDArray[np.int64] = ends - starts
        self._columns = columns
        self._access = access if access is not None and len(access) else None
        self._mask_bytes = mask_bytes
        self._kept: OrderedDict[str, Mask | None] = OrderedDict()
        self._taken = 0
        self._fields: OrderedDict[frozenset[str], Mapping[str, Kind]] = OrderedDict()
        self._lock = Lock()

    @classmethod
    def open(cls, folder: Path, rows: int) -> Attributes:
        """Maps the file of a segment's folder; a segment without one is of an earlier version, and open to all."""
        file = folder / ATTRIBUTES
        if not file.exists():
            return cls(rows, np.empty(0, np.int32), {}, None, recorded=False)
        return cls.read(arrow.memory_map(str(file)), rows)

    @classmethod
    def read(cls, content: Any, rows: int, *, mask_bytes: int = MASK_BYTES) -> Attributes:
        """From the file's content, as a buffer of Arrow's or a mapped file."""
        reader = arrow.ipc.open_file(content)
        directory: dict[str, Any] = json.loads(reader.schema.metadata[DIRECTORY])
        batch = reader.get_batch(0)
        lists = batch.column(1)
        offsets: NDArray[np.int64] = lists.offsets.to_numpy(zero_copy_only=True)
        owners: NDArray[np.int32] = lists.values.to_numpy(zero_copy_only=True)

        def column(kind: Kind, place: Sequence[int]) -> Column:
            first, end = place
            return Column(kind, batch.column(0)[first:end], offsets[first : end + 1], owners)

        columns = {
            name: {Kind[kind]: column(Kind[kind], place) for kind, place in kinds.items()}
            for name, kinds in directory["fields"].items()
        }
        starts = owners[offsets[0] : offsets[1]]
        return cls(rows, starts, columns, column(Kind.TEXT, directory["access"]), mask_bytes=mask_bytes)

    @property
    def restricted(self) -> bool:
        """Whether some passage carries an access label."""
        return self._access is not None

    @property
    def fields(self) -> Mapping[str, Kind]:
        """Every field that some passage has, with the kinds of its values."""
        return self.fields_for(None)

    def fields_for(self, labels: frozenset[str] | None) -> Mapping[str, Kind]:
        """The fields of those passages that a caller with these labels may see; None sees everything."""
        key = labels if labels is not None and self._access is not None else frozenset({""})
        with self._lock:
            known = self._fields.get(key)
        if known is not None:
            return known
        seen = None if labels is None or self._access is None else self._open_to(labels)
        found = {name: _held(kinds, seen) for name, kinds in self._columns.items()}
        known = {name: kind for name, kind in found.items() if kind}
        with self._lock:
            self._fields[key] = known
            while len(self._fields) > FIELD_SETS:
                self._fields.popitem(last=False)
        return known

    def knows(self, key: str) -> bool:
        """Whether the mask of this key is kept, so that `allowed` will not compute."""
        with self._lock:
            return key in self._kept

    def allowed(self, key: str, asked: Filter | None, labels: frozenset[str]) -> Mask | None:
        """1 for every row that the filter and the labels leave, `[rows] uint8`; None where all rows are.

        `key` names this very filter and, where the segment is restricted, these labels. The mask is shared: nobody
        writes to it.
        """
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        mask = self._mask(asked, labels)
        self._keep(key, mask)
        return mask

    def _mask(self, asked: Filter | None, labels: frozenset[str]) -> Mask | None:
        runs: Runs | None = None if asked is None else self._runs(asked)
        if self._access is not None:
            seen = self._open_to(labels)
            runs = seen if runs is None else runs & seen
        if runs is None or runs.all():
            return None
        mask: Mask = np.repeat(runs.view(np.uint8), self._lengths)
        return mask

    def _keep(self, key: str, mask: Mask | None) -> None:
        size = OVERHEAD + len(key) + (0 if mask is None else mask.nbytes)
        if size > self._mask_bytes:
            return
        with self._lock:
            if key not in self._kept:
                self._kept[key] = mask
                self._taken += size
            while self._taken > self._mask_bytes:
                dropped, gone = self._kept.popitem(last=False)
                self._taken -= OVERHEAD + len(dropped) + (0 if gone is None else gone.nbytes)

    def _runs(self, asked: Filter) -> Runs:
        """The runs that a filter leaves, `[runs]`."""
        if isinstance(asked, Comparison):
            return self._compared(asked)
        return self._joined(asked)

    def _joined(self, asked: Compound) -> Runs:
        every = asked.op == AND
        together = np.full(len(self._lengths), every)
        for part in asked.parts:
            found = self._runs(part)
            together = together & found if every else together | found
        return together

    def _compared(self, asked: Comparison) -> Runs:
        op = COMPLEMENTS.get(asked.op, asked.op)
        runs = np.zeros(len(self._lengths), np.bool_)
        columns = self._columns.get(asked.key, {})
        for value in asked.value if isinstance(asked.value, tuple) else (asked.value,):
            for owners in _matching(columns, op, value):
                runs[owners] = True
        return runs if op is asked.op else ~runs

    def _open_to(self, labels: frozenset[str]) -> Runs:
        """The runs that a caller with these labels may see: those without any label, and those with one of them."""
        seen = np.ones(len(self._lengths), np.bool_)
        if self._access is not None:
            seen[self._access.every] = False
            for label in labels:
                seen[self._access.between(*self._access.equal(label))] = True
        return seen


class Column:
    """The values of one field and kind in order, each with the runs that hold it.

    `offsets`, `[values + 1]`, say where the owners of each value begin among all `owners`.
    """

    def __init__(self, kind: Kind, values: Any, offsets: NDArray[np.int64], owners: NDArray[np.int32]) -> None:
        self._values = _Decoded(kind, values)
        self._offsets = offsets
        self._owners = owners

    def __len__(self) -> int:
        return len(self._values)

    @property
    def every(self) -> NDArray[np.int32]:
        """The runs that have any value."""
        return self.between(0, len(self))

    def between(self, first: int, end: int) -> NDArray[np.int32]:
        """The runs that hold one of the values at these places; one may come several times."""
        return self._owners[self._offsets[first] : self._offsets[end]]

    def equal(self, value: Scalar) -> tuple[int, int]:
        """The place of a value and the one behind it; the same twice when nobody holds it."""
        first = bisect_left(self._values, value)
        return first, bisect_right(self._values, value, first)

    def places(self, op: Op, value: Scalar) -> tuple[int, int]:
        """The places of all values that compare so with this one."""
        first, end = self.equal(value)
        match op:
            case Op.GT:
                return end, len(self)
            case Op.GTE:
                return first, len(self)
            case Op.LT:
                return 0, first
            case Op.LTE:
                return 0, end
            case _:
                return first, end


class _Decoded(Sequence[Any]):
    """A dictionary as values that compare; only those are decoded that a search looks at."""

    def __init__(self, kind: Kind, values: Any) -> None:
        self._values = values
        self._decode = partial(decoded, kind)

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, place: Any) -> Any:
        return self._decode(self._values[place].as_py())


def _matching(columns: Mapping[Kind, Column], op: Op, value: Scalar) -> Iterator[NDArray[np.int32]]:
    """The runs in which the field holds a value that compares so with this one."""
    kind = kind_of(value)
    sought: Scalar = value
    if isinstance(value, str) and Kind.DATE in kind:
        kind, sought = Kind.DATE, instant(value) or 0
    column = columns.get(kind)
    if column is not None:
        yield column.between(*column.places(op, sought))


def _held(kinds: Mapping[Kind, Column], seen: Runs | None) -> Kind:
    """The kinds of which some run, among those that are seen, holds a value."""
    found = Kind(0)
    for kind, column in kinds.items():
        if seen is None or seen[column.every].any():
            found |= kind
    return found
