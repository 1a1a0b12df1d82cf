"""What each format keeps of a document."""

from __future__ import annotations

import docx
import pytest
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls

from ingest.parsing import Parsing
from pipeline.errors import Unparsable
from pipeline.passages import Block, Document, Upload
from tests import documents


def parse(name: str, content: bytes | str, media_type: str | None = None, **metadata: str) -> Document:
    data = content.encode() if isinstance(content, str) else content
    return Parsing().parse(Upload(name, data, media_type, metadata), "d1")


def texts(document: Document) -> list[str]:
    return [block.text for block in document.blocks]


MARKDOWN = """\
# Handbook *for* all

Intro with a [link](https://example.org) and `code`,
wrapped.

## Leave

| Kind | Days |
|------|------|
| Paid | 30   |

1. Ask
2. Wait
   - patiently

```python
def f():
    return 1
```

<div><p>Raw <b>markup</b></p></div>

> # Not a heading
> A quote
"""


def test_markdown_keeps_headings_as_paths_and_everything_else_as_text():
    document = parse("folder/guide.md", MARKDOWN)
    top, leave = ("Handbook for all",), ("Handbook for all", "Leave")
    assert document.title == "Handbook for all"
    assert document.blocks == (
        Block("Intro with a link and code, wrapped.", top),
        Block("Kind | Days\nPaid | 30", leave),
        Block("1. Ask\n2. Wait\n  - patiently", leave),
        Block("def f():\n    return 1", leave),
        Block("Raw markup", leave),
        Block("Not a heading\nA quote", leave),
    )


def test_a_heading_closes_those_of_its_level_and_deeper():
    document = parse("a.md", "# A\n\nx\n\n### C\n\ny\n\n## B\n\nz\n\n# D\n\nw\n")
    assert [block.heading for block in document.blocks] == [("A",), ("A", "C"), ("A", "B"), ("D",)]


def test_front_matter_gives_title_language_and_metadata_and_is_no_text():
    top = 'title: "Leave: rules"\nlang: de-CH\ntags: [hr, "time off"]\nowners:\n  - ann\nyear: 2024\ndraft: false'
    content = f"---\n{top}\n---\nText"
    document = parse("a.md", content)
    assert (document.title, document.language, texts(document)) == ("Leave: rules", "de", ["Text"])
    assert document.metadata == {"tags": ("hr", "time off"), "owners": ("ann",), "year": 2024, "draft": False}


def test_a_rule_at_the_top_of_markdown_is_not_front_matter():
    assert parse("a.md", "---\nA sentence.\n---\nText").blocks == (Block("Text", ("A sentence.",)),)


HTML = """<!doctype html><html lang="de"><head><title>Opening hours - Acme</title><style>p {}</style></head><body>
<nav><ul><li>Home</li><li>About</li></ul></nav>
<h1>Opening hours</h1><p>Open from nine
to five.<br>Closed on Monday.</p><p hidden>Unseen</p><script>var x = 1</script>
<h2>Holidays</h2>
<table><tr><th>Day</th><th>Hours</th></tr><tr><td>Easter</td><td>closed</td></tr></table>
<ul><li>One</li><li>Two <b>bold</b>er<ul><li>Nested</li></ul></li></ul>
<pre>code  x
  y</pre><footer>Imprint</footer></body></html>"""


def test_a_small_html_page_stays_whole_and_loses_only_menu_scripts_and_hidden_text():
    document = parse("hours.html", HTML)
    assert document.title == "Opening hours"
    assert document.blocks == (
        Block("Open from nine to five.\nClosed on Monday.", ("Opening hours",)),
        Block("Day: Easter; Hours: closed", ("Opening hours", "Holidays")),
        Block("- One\n- Two bolder\n  - Nested", ("Opening hours", "Holidays")),
        Block("code x\n  y", ("Opening hours", "Holidays")),
    )


def test_main_content_is_read_without_what_surrounds_it():
    document = parse("a.html", "<body><div>Cookie notice</div><main><h1>T</h1><p>Text</p></main><div>Ads</div></body>")
    assert texts(document) == ["Text"]


def test_a_long_page_of_anonymous_boxes_loses_its_boilerplate():
    sentences = "".join(
        f"<p>Paragraph {n} explains in some detail how the archive keeps its letters, and for how long.</p>"
        for n in range(40)
    )
    menu = "".join(f'<li><a href="/{n}">Menu entry {n}</a></li>' for n in range(30))
    page = f'<html><body><div class="menu"><ul>{menu}</ul></div><div><h1>Archive</h1>{sentences}</div></body></html>'
    text = "\n".join(texts(parse("a.html", page)))
    assert "Paragraph 39" in text
    assert "Menu entry" not in text


def test_html_is_decoded_as_its_meta_tag_says():
    page = '<html><head><meta charset="iso-8859-2"></head><body><p>Příliš žluťoučký</p></body></html>'
    assert texts(parse("a.html", page.encode("iso-8859-2"))) == ["Příliš žluťoučký"]


def test_a_layout_table_is_read_as_a_page():
    page = "<table><tr><td><h1>News</h1><p>One</p><p>Two</p></td><td><p>Three</p></td></tr></table>"
    assert texts(parse("a.html", page)) == ["One", "Two", "Three"]


def test_pdf_keeps_pages_and_cuts_at_the_headings_of_its_outline():
    content = documents.pdf(
        [["Manual", "First page."], ["still the intro.", "2 Safety", "Wear gloves."], ["More gloves."]],
        title="The manual",
        outline=[(1, 0, "Manual"), (2, 1, "Safety")],
    )
    document = parse("m.pdf", content)
    assert document.title == "The manual"
    assert document.blocks == (
        Block("First page.", ("Manual",), 1),
        Block("still the intro.", ("Manual",), 2),
        Block("Wear gloves.", ("Manual", "Safety"), 2),
        Block("More gloves.", ("Manual", "Safety"), 3),
    )


def test_words_divided_at_a_pdf_line_end_are_joined():
    lines = [
        "The committee decided on a full reorgani-",
        "zation of the archive and of the",
        "reading room. It opens in May.",
    ]
    assert texts(parse("a.pdf", documents.pdf([lines]))) == [
        "The committee decided on a full reorganization of the archive and of the reading room. It opens in May."
    ]


def test_running_heads_and_page_numbers_are_read_once_or_not_at_all():
    bodies = ("The rack is oiled in May.", "The plough leaves at four.", "The lamps are lit at dusk.")
    pages = [["Workshop paper", body, "12 apples", f"Page {n}", f"{n} / 3"] for n, body in enumerate(bodies, start=1)]
    text = "\n".join(texts(parse("a.pdf", documents.pdf(pages))))
    assert all(body in text for body in bodies)
    assert (text.count("Workshop paper"), text.count("Page"), text.count("/ 3"), text.count("apples")) == (1, 1, 0, 3)


def test_a_first_line_that_stands_alone_heads_a_text():
    titled = parse("a.txt", "LOST SOMETHING?\n\nAsk at counter 3.")
    assert (titled.title, titled.blocks) == ("LOST SOMETHING?", (Block("Ask at counter 3.", ("LOST SOMETHING?",)),))
    assert parse("a.txt", "Ask at counter 3.\n\nOr at 4.").title == "a"
    assert parse("a.txt", "LOST SOMETHING?").title == "a"


def test_a_pdf_title_that_a_program_made_up_is_not_used():
    assert parse("notes.pdf", documents.pdf([["Text"]], title="Microsoft Word - x1.doc")).title == "notes"


def test_a_pdf_that_anybody_may_open_is_read_although_it_is_encrypted():
    assert texts(parse("a.pdf", documents.encrypted_pdf(""))) == ["A secret recipe."]


def test_docx_keeps_headings_lists_and_tables_in_order():
    document = parse("travel.docx", documents.word(title="Travel rules"))
    assert document.title == "Travel rules"
    assert document.blocks == (
        Block("Trips are booked by the office.", ("Travel",)),
        Block("Class | Limit\nRail | 300 EUR", ("Travel",)),
        Block("After the table.", ("Travel",)),
        Block("- Quiet ones", ("Travel", "Hotels")),
    )


def test_docx_reads_inserted_text_and_content_controls_but_no_deleted_text():
    document = docx.Document()
    paragraph = document.add_paragraph("Kept")
    for xml in (
        f"<w:ins {nsdecls('w')}><w:r><w:t xml:space='preserve'> inserted</w:t></w:r></w:ins>",
        f"<w:del {nsdecls('w')}><w:r><w:delText> deleted</w:delText></w:r></w:del>",
    ):
        paragraph._p.append(parse_xml(xml))
    control = f"<w:sdt {nsdecls('w')}><w:sdtContent><w:p><w:r><w:t>Controlled</w:t></w:r></w:p></w:sdtContent></w:sdt>"
    document.element.body.insert(0, parse_xml(control))
    assert texts(parse("a.docx", documents.saved(document))) == ["Controlled", "Kept inserted"]


def test_every_csv_row_names_its_columns():
    document = parse("prices.csv", 'Item;Price\n"Desk; oak";120\nChair;\n\n')
    assert (document.title, texts(document)) == ("prices", ["Item: Desk; oak; Price: 120", "Item: Chair"])


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(delimiter):
    content = "\n".join(delimiter.join(row) for row in (("Name", "City"), ("Ann", "Oslo"), ("Bo", "Bern")))
    assert texts(parse("a.csv", content)) == ["Name: Ann; City: Oslo", "Name: Bo; City: Bern"]


def test_csv_without_a_header_numbers_its_columns():
    assert texts(parse("a.csv", "1,Ann\n2,Bo\n")) == ["column 1: 1; column 2: Ann", "column 1: 2; column 2: Bo"]


def test_json_lines_keep_titles_as_headings_and_other_fields_as_text():
    lines = (
        '{"text": "Ask first.", "title": "Rule 1", "metadata": {"team": "hr"}}\n\n{"text": "Then go.", "year": 2024}\n'
    )
    document = parse("rules.jsonl", lines)
    assert document.title == "rules"
    assert document.blocks == (Block("Ask first.\n\nteam: hr", ("Rule 1",)), Block("Then go.\n\nyear: 2024"))


def test_json_that_is_none_names_the_line():
    with pytest.raises(Unparsable, match=r"line 2 of 'a\.jsonl'"):
        parse("a.jsonl", '{"text": "x"}\n{"text": \n')


def test_plain_text_joins_wrapped_lines_and_keeps_short_ones():
    content = (
        "This paragraph was wrapped by an\neditor at thirty-two characters and\ngoes on.\n\nAnn Example\n1 Road\nOslo\n"
    )
    assert texts(parse("a.txt", content)) == [
        "This paragraph was wrapped by an editor at thirty-two characters and goes on.",
        "Ann Example\n1 Road\nOslo",
    ]


@pytest.mark.parametrize(
    ("charset", "text"),
    [
        ("utf-8-sig", "Grüße, 検索"),
        ("utf-16", "Grüße, 検索"),
        ("utf-32", "Grüße, 検索"),
        ("utf-16-le", "Without any mark, but plain"),
        ("latin-1", "Grüße aus Köln: die Öffnungszeiten ändern sich."),
        ("cp1252", "Café fermé – l’été commence demain"),
        ("cp1251", "Привет, это простой русский текст о погоде и о музыке."),
        ("koi8-r", "Привет, это простой русский текст о погоде и о музыке."),
        ("gb18030", "检索增强生成是一种技术。"),
        ("euc-kr", "검색 증강 생성은 기술이다."),
    ],
)
def test_text_in_other_charsets_is_read(charset, text):
    assert texts(parse("a.txt", text.encode(charset))) == [text]
