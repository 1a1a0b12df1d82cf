"""The path of headings above the text that is being read."""

from __future__ import annotations

from pipeline.passages import Block


class Headings:
    """Collects blocks under the headings that precede them. Levels may be skipped, as authors do."""

    __slots__ = ("_blocks", "_open")

    def __init__(self) -> None:
        self._open: list[tuple[int, str]] = []
        self._blocks: list[Block] = []

    @property
    def path(self) -> tuple[str, ...]:
        """The open headings, the outermost first."""
        return tuple(title for _, title in self._open)

    def enter(self, level: int, title: str) -> None:
        """A heading: closes those of its own level and deeper. An empty one closes them and opens nothing."""
        self._open = [(other, text) for other, text in self._open if other < level]
        if title := " ".join(title.split()):
            self._open.append((level, title))

    def add(self, text: str, page: int | None = None) -> None:
        """A block of text under the open headings; blank text is no block."""
        if text.strip():
            self._blocks.append(Block(text, self.path, page))

    def blocks(self) -> tuple[Block, ...]:
        """What was collected, in order."""
        return tuple(self._blocks)
