"""The zipped XML that DOCX, PPTX and XLSX have in common (ECMA-376, part 2): parts, and how they relate.

Read by its own rules rather than through python-docx, openpyxl and python-pptx: those load every part, pictures too,
know only one of the two sets of namespaces, and openpyxl fills a sheet up to the size that it claims to have.
"""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from posixpath import dirname, join, normpath
from zipfile import BadZipFile, ZipFile, ZipInfo

from ingest.formats.element import DeclaresType, Element, local, parse_xml, refuse_types, stream_xml
from ingest.formats.reading import ParsingOptions
from pipeline.errors import TooLarge, Unparsable
from pipeline.passages import Upload

_MANY_PARTS = 10_000
_ENTRY = b"PK\x01\x02"  # begins every entry of the directory
_LOOK = 2**20
_DAMAGE = (
    BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, SyntaxError, KeyError, ValueError, AttributeError,
    NotImplementedError, OverflowError,
)  # fmt: skip
_TOO_DEEP = "Excessive depth"  # libxml2's words
_MAIN = ("word/document.xml", "ppt/presentation.xml", "xl/workbook.xml")


@dataclass(frozen=True, slots=True)
class Relation:
    """What another part is to this one: `kind` is the last word of its type, `part` its name in the package."""

    kind: str
    part: str


class OfficePackage:
    """An opened package. Its methods raise Unparsable with the document's name; see `open`."""

    def __init__(self, upload: Upload, archive: ZipFile, largest: int) -> None:
        self._name = upload.name
        self._largest = largest
        self._archive = archive
        self._parts = {_part(entry.filename): entry for entry in archive.infolist()}

    @classmethod
    @contextmanager
    def open(cls, upload: Upload, options: ParsingOptions | None = None) -> Generator[OfficePackage, None, None]:
        """Checks sizes before anything is unpacked; what turns out to be damaged within the block is said to be.

        Without options only a look is taken, at parts of a few kilobytes. Raises TooLarge, and Unparsable for what is
        damaged, encrypted or declares a document type.
        """
        check_directory(upload)
        try:
            with ZipFile(BytesIO(upload.content)) as archive:
                if options is not None:
                    _check_entries(upload, archive.infolist(), options)
                yield cls(upload, archive, options.unpacked_bytes if options else _LOOK)
        except DeclaresType:
            raise Unparsable(
                f"'{upload.name}' declares a document type in one of its parts; no Office file may. "
                "Save it anew in an office program and send it again."
            ) from None
        except _DAMAGE as error:
            if _TOO_DEEP in str(error):
                raise Unparsable(f"'{upload.name}' is nested too deeply to be read. Simplify it.") from error
            raise Unparsable(
                f"'{upload.name}' is damaged or cut short as an Office file ({type(error).__name__}: {error}). "
                "Open it in an office program, save it as .docx, .pptx or .xlsx and send it again."
            ) from error

    @property
    def main(self) -> str:
        """The part that everything else hangs on; empty where this is no Office file."""
        named = self.related("").values()
        parts = [relation.part for relation in named if relation.kind == "officeDocument"]
        return next((part for part in (*parts, *_MAIN) if part in self._parts), "")

    @property
    def title(self) -> str:
        """What the author entered among the document's properties."""
        for relation in self.related("").values():
            if relation.kind == "core-properties" and relation.part in self._parts:
                for element in self.xml(relation.part):
                    if local(element) == "title":
                        return (element.text or "").strip()
        return ""

    def has(self, part: str) -> bool:
        return part in self._parts

    def head(self, part: str, size: int) -> bytes:
        """How a part begins; nothing where there is no such part."""
        if part not in self._parts:
            return b""
        with self._archive.open(self._parts[part]) as source:
            return source.read(size)

    def xml(self, part: str) -> Element:
        """The root of a part."""
        entry = self._parts[part]
        if entry.file_size > self._largest:
            raise TooLarge(f"'{self._name}' holds a part, {part}, that would unpack to {entry.file_size:,} bytes.")
        return parse_xml(self._archive.read(entry))

    def stream(self, part: str, tag: str) -> Iterator[Element]:
        """The elements of a part that have this tag, one after the other, in bounded memory."""
        refuse_types(self.head(part, _LOOK))
        with self._archive.open(self._parts[part]) as source:
            yield from stream_xml(source, tag)

    def related(self, part: str) -> Mapping[str, Relation]:
        """The parts that a part refers to, by the id that it uses for them. The package itself is the part ''."""
        folder, name = dirname(part), part.rpartition("/")[2]
        listed = _part(join(folder, "_rels", f"{name}.rels"))
        if listed not in self._parts:
            return {}
        relations: dict[str, Relation] = {}
        for element in self.xml(listed):
            target = element.get("Target") or ""
            if element.get("TargetMode") != "External" and target:
                kind = (element.get("Type") or "").rpartition("/")[2]
                relations[element.get("Id") or ""] = Relation(kind, _part(join("/", folder, target)))
        return relations

    def related_part(self, part: str, kind: str) -> str:
        """The first part of that kind that a part refers to and that is there; empty where there is none."""
        found = (relation.part for relation in self.related(part).values() if relation.kind == kind)
        return next((part for part in found if part in self._parts), "")


def relation_of(element: Element, name: str = "id") -> str:
    """The id of the part that an element refers to: `r:id`, in either set of namespaces; an `id` alone is another."""
    ending = f"/relationships}}{name}"
    return next((value for key, value in element.attrib.items() if key.endswith(ending)), "")


def check_directory(upload: Upload) -> None:
    """Raises TooLarge for an archive of more files than any document has, before its directory is read."""
    entries = upload.content.count(_ENTRY)
    if entries > _MANY_PARTS:
        raise TooLarge(
            f"'{upload.name}' holds {entries:,} files; at most {_MANY_PARTS:,} are read. Send its documents one by one."
        )


def _check_entries(upload: Upload, entries: list[ZipInfo], options: ParsingOptions) -> None:
    """The directory says how large each part becomes, and zipfile unpacks no more than that."""
    size = sum(entry.file_size for entry in entries)
    if size > options.unpacked_bytes:
        raise TooLarge(
            f"'{upload.name}' would unpack to {size:,} bytes in {len(entries):,} parts; at most "
            f"{options.unpacked_bytes:,} bytes are read. Split it, or remove its pictures."
        )
    if any(entry.flag_bits & 1 for entry in entries):
        raise Unparsable(f"'{upload.name}' is an encrypted archive. Save it without a password and send it again.")


def _part(name: str) -> str:
    return normpath(f"/{name}".replace("\\", "/")).lstrip("/")
