"""Small stages for tests of the machinery around them: no model, no native library, nothing random.

A document is plain text, a passage per line. Words in it steer the parser: BROKEN cannot be read, FATAL kills the
process, SURPRISE raises what nobody foresaw, WAIT waits until the test opens the parser's gate.
"""

from __future__ import annotations

import json
import math
import os
import signal
import struct
from collections.abc import Iterable, Sequence
from hashlib import blake2b, sha256
from pathlib import Path

from pipeline.chunking import Chunking
from pipeline.errors import Unparsable
from pipeline.passages import Block, Document, Passage, Upload, Vectors
from pipeline.ports import Chunker

DIMENSIONS = 8


class PlainParser:
    """Reads UTF-8, and remembers what. Once it is `mended` it reads what was broken, too."""

    def __init__(self, gate: Path | None = None) -> None:
        self.parsed: list[str] = []
        self.mended = False
        self._gate = gate

    def parse(self, upload: Upload, document_id: str) -> Document:
        text = upload.content.decode("utf-8")
        if "FATAL" in text:
            os.kill(os.getpid(), signal.SIGKILL)
        if "BROKEN" in text and not self.mended:
            raise Unparsable(f"'{upload.name}' is broken.")
        if "SURPRISE" in text and not self.mended:
            raise ValueError("nobody foresaw this")
        if self._gate is not None and "WAIT" in text:
            wait_at(self._gate, upload.name)
        self.parsed.append(upload.name)
        blocks = tuple(Block(line) for line in text.splitlines() if line.strip())
        return Document(document_id, upload.name, upload.name.title(), blocks, "text/plain", "en", upload.metadata)


class LineChunker:
    """A passage per block."""

    def __init__(self, fingerprint: str = "lines-1") -> None:
        self._fingerprint = fingerprint

    @property
    def fingerprint(self) -> str:
        return self._fingerprint

    def chunk(self, document: Document) -> tuple[Passage, ...]:
        return tuple(
            Passage(
                id=f"{document.id}:{ordinal}",
                document_id=document.id,
                ordinal=ordinal,
                text=block.text,
                tokens=len(block.text.split()),
                content_hash=blake2b(block.text.encode(), digest_size=16).hexdigest(),
                source=document.name,
                language=document.language,
                metadata=document.metadata,
            )
            for ordinal, block in enumerate(document.blocks)
        )


class OneChunker:
    """The same chunker for every collection, whatever it has chosen; remembers what was asked for."""

    def __init__(self, chunker: Chunker) -> None:
        self._chunker = chunker
        self.asked: list[Chunking | None] = []

    def chunker(self, chosen: Chunking | None) -> Chunker:
        self.asked.append(chosen)
        return self._chunker


class HashEncoder:
    """Equal texts have equal vectors, and that is all they mean. Counts what it was asked."""

    def __init__(self, fingerprint: str = "hash-1") -> None:
        self.encoded: list[str] = []
        self._fingerprint = fingerprint

    @property
    def fingerprint(self) -> str:
        return self._fingerprint

    @property
    def dimensions(self) -> int:
        return DIMENSIONS

    def encode(self, texts: Sequence[str]) -> Vectors:
        self.encoded.extend(texts)
        data = b"".join(vector_of(text) for text in texts)
        return Vectors((len(texts), DIMENSIONS), "float32", memoryview(data))


def vector_of(text: str) -> bytes:
    """A unit vector of eight float32, from the text's hash."""
    raw = [byte - 127.5 for byte in blake2b(text.encode(), digest_size=DIMENSIONS).digest()]
    length = math.sqrt(sum(value * value for value in raw))
    return struct.pack(f"<{DIMENSIONS}f", *(value / length for value in raw))


class PlainWriter:
    """A generation as two files that a test can read."""

    def write(
        self,
        folder: Path,
        collection: str,
        number: int,
        passages: Iterable[Passage],
        vectors: Vectors,
        embedder: str,
        chunker: str,
    ) -> str:
        rows = [{"id": p.id, "text": p.text, "source": p.source, "metadata": dict(p.metadata)} for p in passages]
        assert vectors.shape == (len(rows), DIMENSIONS)
        made = folder.with_name(f".{folder.name}.partial")
        made.mkdir(parents=True)
        (made / "vectors").write_bytes(vectors.data)
        manifest = json.dumps({"number": number, "embedder": embedder, "chunker": chunker, "passages": rows})
        (made / "manifest.json").write_text(manifest, encoding="utf-8")
        made.rename(folder)
        return sha256(manifest.encode()).hexdigest()


def texts_in(folder: Path) -> list[str]:
    """The texts of a generation, each checked against its vector."""
    rows = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["passages"]
    assert (folder / "vectors").read_bytes() == b"".join(vector_of(row["text"]) for row in rows)
    return [row["text"] for row in rows]


def wait_at(gate: Path, name: str) -> None:
    """Tells the test that this document has been reached, then waits until somebody opens the pipe for writing."""
    (gate / "reached" / name).touch()
    os.close(os.open(gate / "pipe", os.O_RDONLY))
