"""A previewer for tests of the door: no parser, no tokenizer, no processes."""

from __future__ import annotations

from pipeline.chunking import Chunking
from pipeline.errors import Unparsable
from pipeline.passages import Block, Document, Upload
from pipeline.previews import Echo, Preview
from tests.fakes_shelf import make_passage


class FakePreviewer:
    """Reads UTF-8, cuts at blank lines, and hears the same text again. What begins with `bad` cannot be read."""

    def __init__(self) -> None:
        self.chosen: list[Chunking | None] = []
        self._heard: dict[str, tuple[int, int]] = {}

    def preview(self, upload: Upload, document_id: str, chosen: Chunking | None, place: int) -> Preview:
        if upload.name.startswith("bad"):
            raise Unparsable(f"'{upload.name}' has no text.")
        if place == 0:
            self._heard.clear()
        self.chosen.append(chosen)
        blocks = tuple(Block(text) for text in upload.content.decode().split("\n\n") if text)
        document = Document(document_id, upload.name, upload.name, blocks, upload.media_type or "text/plain", "en")
        passages = tuple(make_passage(document_id, place, block.text) for place, block in enumerate(blocks))
        heard = {each.ordinal: Echo(*self._heard[each.text], 1.0) for each in passages if each.text in self._heard}
        for passage in passages:
            self._heard.setdefault(passage.text, (place, passage.ordinal))
        return Preview(document, passages, heard)
