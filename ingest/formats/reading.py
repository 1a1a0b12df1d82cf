"""What a format's reader returns, and the bounds that it keeps."""

from __future__ import annotations

from dataclasses import dataclass, field

from pipeline.errors import TooLarge
from pipeline.passages import Block, Metadata, Scalar, Upload


@dataclass(frozen=True, slots=True)
class ParsingOptions:
    """Bounds on one document.

    `content_bytes` as sent; `unpacked_bytes` what a zipped format (DOCX, PPTX, XLSX) may unpack to, by its own
    directory, which is read before anything is unpacked; `characters` of text after reading.
    """

    content_bytes: int = 64 * 2**20
    unpacked_bytes: int = 256 * 2**20
    characters: int = 20_000_000

    def check_size(self, upload: Upload) -> None:
        """Raises TooLarge before anybody looks inside."""
        if len(upload.content) > self.content_bytes:
            raise TooLarge(
                f"'{upload.name}' has {len(upload.content):,} bytes; at most {self.content_bytes:,} are read. Split it."
            )

    def check_text(self, upload: Upload, characters: int) -> None:
        """Raises TooLarge for so much text; asked while reading by formats in which a few bytes can stand for much."""
        if characters > self.characters:
            raise TooLarge(
                f"'{upload.name}' has {characters:,} characters of text or more; at most {self.characters:,} are read. "
                "Split it."
            )


@dataclass(frozen=True, slots=True)
class Reading:
    """A document as its format tells it, not yet cleaned.

    `title` is what the format declares as such, empty where it declares none: then the first heading is taken. A
    format whose headings are not the document's own says so by `headed=False`. `language` is declared, too, and
    believed only where the text itself does not tell. `warnings` say what of it could not be read.
    """

    blocks: tuple[Block, ...]
    title: str = ""
    headed: bool = True
    language: str | None = None
    metadata: Metadata = field(default_factory=dict[str, Scalar | tuple[Scalar, ...]])
    warnings: tuple[str, ...] = ()
