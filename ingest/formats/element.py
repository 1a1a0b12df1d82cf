"""What is used of lxml's elements, typed: lxml brings no types of its own."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import IO, Any, Protocol, cast

_XML: dict[str, bool] = {
    "resolve_entities": False, "load_dtd": False, "no_network": True, "huge_tree": False, "remove_comments": True,
    "remove_pis": True,
}  # fmt: skip


class Element(Protocol):
    """An element of a parsed page or document. `tag` is no string for comments and processing instructions.

    The tags of XML carry their namespace; `local` is what stands behind it.
    """

    tag: object
    text: str | None
    tail: str | None

    @property
    def attrib(self) -> Mapping[str, str]: ...

    def get(self, key: str, /) -> str | None: ...

    def iter(self, *tags: str) -> Iterator[Element]: ...

    def itertext(self) -> Iterator[str]: ...

    def __iter__(self) -> Iterator[Element]: ...

    def getparent(self) -> Element | None: ...


def parse_html(text: str) -> Element | None:
    """A page's root, read as forgivingly as a browser does; None where there is nothing to read.

    Nothing is fetched, HTML knows no custom entities, and libxml2 bounds depth (256) and text (no huge_tree).
    """
    html: Any = import_module("lxml.html")
    options = {"encoding": "utf-8", "remove_comments": True, "remove_pis": True, "no_network": True}
    content = text.encode("utf-8", "replace")  # "replace" for lone surrogates, which UTF-8 cannot hold
    try:
        root = html.document_fromstring(content, parser=html.HTMLParser(**options))
    except import_module("lxml.etree").ParserError:  # only comments, or nothing at all
        return None
    return cast("Element", root)


def local(element: Element) -> str:
    """The tag without its namespace, which differs between the strict and the usual form of Office documents."""
    tag = element.tag
    return tag[tag.rfind("}") + 1 :] if isinstance(tag, str) else ""


def attribute(element: Element, name: str) -> str | None:
    """An attribute by its local name, whatever its namespace."""
    return next((value for key, value in element.attrib.items() if key.rpartition("}")[2] == name), None)


def child(element: Element, *path: str) -> Element | None:
    """The first child of that local tag, its first child of the next, and so on; None where one is missing."""
    for name in path:
        for inner in element:
            if local(inner) == name:
                element = inner
                break
        else:
            return None
    return element


def children(element: Element | None, *path: str) -> Iterator[Element]:
    """What stands in the element at the end of such a path; nothing where there is none."""
    found = child(element, *path) if element is not None else None
    if found is not None:
        yield from found


class DeclaresType(Exception):
    """The XML declares a document type: the way to entities that expand without end, and to other people's files."""


def parse_xml(content: bytes) -> Element:
    """The root of an XML document. Raises SyntaxError for what is none, DeclaresType before anything expands.

    libxml2 bounds depth (256), text (10 MB a node) and what entities may amplify; nothing is fetched.
    """
    refuse_types(content)
    etree: Any = import_module("lxml.etree")
    with _memory_told(etree):
        root = etree.fromstring(content, etree.XMLParser(**_XML))
    _check_type(root)
    return cast("Element", root)


def stream_xml(source: IO[bytes], tag: str) -> Iterator[Element]:
    """Every element of that local tag, when it is complete; each is forgotten before the next one is read."""
    etree: Any = import_module("lxml.etree")
    with _memory_told(etree):
        for _, element in etree.iterparse(source, events=("end",), tag=f"{{*}}{tag}", **_XML):
            _check_type(element)
            yield cast("Element", element)
            element.clear()
            while element.getprevious() is not None:
                del element.getparent()[0]


@contextmanager
def _memory_told(etree: Any) -> Generator[None, None, None]:
    """Raises MemoryError where libxml2 got no more memory, which lxml calls an unknown error on line 0."""
    try:
        yield
    except etree.XMLSyntaxError as error:
        if not error.lineno and "unknown error" in str(error):
            raise MemoryError from error
        raise


def refuse_types(content: bytes) -> None:
    """Raises DeclaresType for what looks like one, before any parser sees it."""
    if any("<!DOCTYPE".encode(charset) in content for charset in ("utf-8", "utf-16-le", "utf-16-be")):
        raise DeclaresType


def _check_type(element: Any) -> None:
    if element.getroottree().docinfo.internalDTD is not None:
        raise DeclaresType
