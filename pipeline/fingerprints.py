"""Fingerprints that two stages must compute alike; a stage may not import another, so the rule stands here."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path


def tokenizer_fingerprint(file: Path) -> str:
    """16 hex digits that name what a `tokenizer.json` does to text, whatever it pads, truncates or puts around it.

    Equal fingerprints mean equal token ids without special tokens, so ids counted at ingest can be fed to another
    model whose tokenizer has the same fingerprint.
    """
    parts = json.loads(file.read_bytes())
    kept = {part: parts.get(part) for part in ("added_tokens", "model", "normalizer", "pre_tokenizer")}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:16]
