"""Files of known kinds that are not read: each is named to its author, who then knows what to send instead."""

from __future__ import annotations

from pipeline.errors import Unparsable
from pipeline.passages import Upload

READ = "Send Markdown, text, HTML, PDF, DOCX, PPTX, XLSX, CSV or JSONL."

_OLE = b"\xd0\xcf\x11\xe0"
_STARTS = (
    (b"\x89PNG", "a picture (PNG)"),
    (b"\xff\xd8\xff", "a picture (JPEG)"),
    (b"GIF8", "a picture (GIF)"),
    (b"II*\x00", "a picture (TIFF)"),
    (b"MM\x00*", "a picture (TIFF)"),
    (b"8BPS", "a picture (Photoshop)"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ\x00", "an xz archive"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard archive"),
    (b"7z\xbc\xaf", "a 7-Zip archive"),
    (b"Rar!", "a RAR archive"),
    (b"MSCF", "a CAB archive"),
    (b"PK\x05\x06", "an empty ZIP archive"),
    (b"PK\x07\x08", "a part of a split ZIP archive"),
    (b"{\\rtf", "an RTF document"),
    (b"%!PS", "a PostScript document"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"PAR1", "a Parquet file"),
    (b"ARROW1", "an Arrow file"),
    (b"\x7fELF", "a program"),
    (b"MZ\x90\x00", "a program"),
    (b"\x00asm", "a program"),
    (b"ID3", "a sound recording"),
    (b"OggS", "a sound recording"),
    (b"fLaC", "a sound recording"),
    (b"\x1aE\xdf\xa3", "a film"),
)
_INSIDE = (
    (257, b"ustar", "a tar archive"),
    (8, b"WEBP", "a picture (WebP)"),
    (8, b"WAVE", "a sound recording"),
    (8, b"AVI ", "a film"),
    (4, b"ftyp", "a film or a picture (MP4, HEIC)"),
)
_ZIPPED = (
    ("application/vnd.oasis.opendocument", "an OpenDocument file"),
    ("application/epub+zip", "an e-book (EPUB)"),
)


def refuse_known_kinds(upload: Upload) -> None:
    """Raises Unparsable for what begins as a file of a kind that is not read."""
    content = upload.content
    if content.startswith(_OLE):
        if "EncryptedPackage".encode("utf-16-le") in content:
            raise Unparsable(
                f"'{upload.name}' is an encrypted Office file. Save it without a password and send it again."
            )
        raise refusal(upload, "an old Office file (.doc, .xls, .ppt, .msg)", "Save it as DOCX, XLSX or PPTX.")
    for start, kind in _STARTS:
        if content.startswith(start):
            raise refusal(upload, kind)
    for place, mark, kind in _INSIDE:
        if content[place : place + len(mark)] == mark:
            raise refusal(upload, kind)


def zipped_kind(mimetype: str) -> str:
    """What a ZIP archive is, by the first of its files that says so; an archive like any other otherwise."""
    return next((kind for start, kind in _ZIPPED if mimetype.startswith(start)), "a ZIP archive")


def refusal(upload: Upload, kind: str, remedy: str = READ) -> Unparsable:
    """The reason, to be raised."""
    if "archive" in kind:
        remedy = f"Unpack it and send the files in it. {READ}"
    return Unparsable(f"'{upload.name}' is {kind}, which is not read. {remedy}")
