"""The README's table of settings is what the settings classes say."""

from __future__ import annotations

from pathlib import Path

from api.settings import table as api_table
from workers.settings import table as worker_table

README = Path(__file__).resolve().parents[2] / "README.md"
HEAD = ["| setting | default | of | what it is for |", "|---|---|---|---|"]


def written() -> list[str]:
    """The table as it stands in the README."""
    lines = README.read_text().splitlines()
    start = lines.index(HEAD[0])
    end = next(place for place in range(start, len(lines)) if not lines[place].startswith("|"))
    return lines[start:end]


def wanted() -> list[str]:
    """The table as it should be: a row a variable; where API and workers differ, first the API's."""
    api = {name: (default, text) for name, default, text in api_table()}
    workers = {name: (default, text) for name, default, text in worker_table()}
    return HEAD + [_row(name, api.get(name), workers.get(name)) for name in dict.fromkeys([*api, *workers])]


def _row(name: str, api: tuple[str, str] | None, workers: tuple[str, str] | None) -> str:
    of = "API, workers" if api and workers else "API" if api else "workers"
    both = [each for each in (api, workers) if each]
    defaults = dict.fromkeys(f"`{default}`" if default else "" for default, _ in both)
    texts = dict.fromkeys(text for _, text in both)
    return f"| `{name}` | {' / '.join(defaults)} | {of} | {' / '.join(texts)} |"


def test_the_table_of_settings_is_what_the_settings_say() -> None:
    assert written() == wanted(), "Paste this into README.md:\n\n" + "\n".join(wanted())


def test_the_readme_stays_short_enough_to_be_read() -> None:
    assert len(README.read_text().splitlines()) <= 200
