"""Markdown: headings become heading paths; lists, tables, quotes and code their text, in the order of the page."""

from __future__ import annotations

from collections.abc import Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token

from ingest.cleaning import even_lines
from ingest.formats.charset import decode_upload
from ingest.formats.element import parse_html
from ingest.formats.front_matter import split_front_matter
from ingest.formats.headings import Headings
from ingest.formats.markup import collect
from ingest.formats.reading import ParsingOptions, Reading
from ingest.formats.tables import row_text
from pipeline.passages import Upload


def read_markdown(upload: Upload, _: ParsingOptions) -> Reading:
    """CommonMark with tables and strike-through. Title, language and metadata may stand in front matter."""
    front = split_front_matter(even_lines(decode_upload(upload)))
    page = _Page()
    for token in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(front.text):
        page.read(token)
    return Reading(
        page.headings.blocks(),
        front.word("title"),
        language=front.word("language", "lang").lower() or None,
        metadata=front.without("title", "language", "lang"),
    )


class _Page:
    """Reads tokens one after the other; a block ends where the outermost token does."""

    def __init__(self) -> None:
        self.headings = Headings()
        self._lines: list[str] = []
        self._cells: list[str] = []
        self._marks: list[str] = []
        self._mark = ""
        self._level: int | None = None

    def read(self, token: Token) -> None:
        match token.type:
            case "heading_open":
                self._level = int(token.tag[1:]) if token.level == 0 else None  # one in a quote is the quote's
            case "heading_close":
                self._level = None
            case "th_open" | "td_open":
                self._cells.append("")
            case "inline":
                self._inline(inline_text(token.children or ()))
            case "fence" | "code_block":
                self._add(token.content.rstrip("\n"))
            case "html_block":
                self._html(token.content)
            case "list_item_open":
                self._mark = f"{token.info}. " if token.info else "- "
                self._marks.append(self._mark)
            case "list_item_close":
                self._marks.pop()
            case "tr_close":
                self._add(row_text(self._cells))
                self._cells.clear()
            case _:
                pass
        if token.level == 0 and token.nesting <= 0:
            self.headings.add("\n".join(self._lines))
            self._lines.clear()

    def _inline(self, text: str) -> None:
        if self._level is not None:
            self.headings.enter(self._level, text)
        elif self._cells:
            self._cells[-1] = text
        else:
            self._add(text)

    def _add(self, text: str) -> None:
        """Text inside a list is indented to its depth, the first line of an item behind its mark."""
        indent = "  " * (len(self._marks) - 1)
        rest = indent + "  " if self._marks else ""
        for index, line in enumerate(text.split("\n")):
            self._lines.append((indent + self._mark if self._mark and index == 0 else rest) + line)
        self._mark = ""

    def _html(self, content: str) -> None:
        root = parse_html(content)
        if root is not None:
            inner = Headings()
            collect(root, inner)
            for block in inner.blocks():
                self._add("\n".join((*block.heading, block.text)))


def inline_text(tokens: Sequence[Token]) -> str:
    """What a reader sees: emphasis and link targets gone, an image by its description, a wrapped line joined."""
    pieces: list[str] = []
    for token in tokens:
        if token.type in {"text", "code_inline"}:
            pieces.append(token.content)
        elif token.type == "softbreak":
            pieces.append(" ")
        elif token.type == "hardbreak" or (token.type == "html_inline" and token.content.startswith("<br")):
            pieces.append("\n")
        elif token.type == "image":
            pieces.append(inline_text(token.children or ()))
    return "".join(pieces)
