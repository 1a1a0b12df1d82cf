"""x"""

from pathlib import Path


def export(source: Path, folder: Path) -> None: ...
