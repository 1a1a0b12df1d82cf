"""From bytes to text, with and without marks, declared rightly and wrongly."""

from __future__ import annotations

import pytest

from ingest.formats.charset import decode
from ingest.parsing import Parsing
from pipeline.errors import Unparsable
from pipeline.passages import Upload

TEXTS = {
    "de": "Grüße aus Köln: die Öffnungszeiten ändern sich.\nMontags bleibt geschlossen.",
    "ru": "Привет, это простой русский текст о погоде и о музыке.\nЗавтра будет дождь.",
    "ja": "検索システムは質問に答えるために文書を探します。\n結果は短い時間で返されます。",
    "zh": "检索增强生成是一种技术。\n它在回答之前查找文档。",
    "el": "Καλημέρα, αυτό είναι ένα απλό κείμενο για τον καιρό.\nΑύριο θα βρέξει.",
    "he": "שלום, זה טקסט פשוט על מזג האוויר.\nמחר ירד גשם.",
}
UNICODE = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be")


@pytest.mark.parametrize("language", TEXTS)
@pytest.mark.parametrize("charset", UNICODE)
def test_unicode_is_read_in_every_form_with_a_mark_or_without(language, charset):
    assert decode(TEXTS[language].encode(charset), "a.txt") == TEXTS[language]


@pytest.mark.parametrize(
    ("language", "charset"),
    [
        ("de", "cp1252"), ("ru", "cp1251"), ("ru", "koi8-r"), ("ja", "shift_jis"), ("ja", "euc_jp"), ("zh", "gb18030"),
        ("el", "cp1253"),
    ],
)  # fmt: skip
def test_older_charsets_are_guessed(language, charset):
    assert decode(TEXTS[language].encode(charset), "a.txt") == TEXTS[language]


@pytest.mark.parametrize(
    ("language", "charset", "label"),
    [
        ("ja", "iso2022_jp", "ISO-2022-JP"),
        ("ja", "cp932", "Shift_JIS"),
        ("zh", "gb18030", "gb2312"),
        ("el", "iso8859-7", "iso-8859-7"),
        ("he", "cp1255", "windows-1255"),
    ],
)
def test_a_declared_charset_is_believed_where_bytes_do_not_tell(language, charset, label):
    content = TEXTS[language].encode(charset)
    assert decode(content, "a.txt", label) == TEXTS[language]
    sent = Upload("a", content, f"text/plain; charset={label}")
    assert "".join(block.text for block in Parsing().parse(sent, "d").blocks) == TEXTS[language].replace("\n", "\n")


def test_latin_1_means_on_the_web_what_windows_makes_of_it():
    assert decode("“Café”".encode("cp1252"), "a.html", "ISO-8859-1") == "“Café”"


def test_a_wrong_declaration_does_not_spoil_utf_8():
    assert decode(TEXTS["de"].encode(), "a.html", "iso-8859-1") == TEXTS["de"]
    assert decode(TEXTS["de"].encode(), "a.html", "no-such-charset") == TEXTS["de"]


def test_the_sender_is_believed_before_the_page():
    page = '<html><head><meta charset="koi8-r"></head><body><p>Привет</p></body></html>'
    sent = Upload("a.html", page.encode("cp1251"), "text/html; charset=windows-1251")
    assert Parsing().parse(sent, "d").blocks[0].text == "Привет"


def test_an_xml_declaration_counts_as_a_declaration():
    page = '<?xml version="1.0" encoding="iso-8859-2"?><html><body><p>Příliš žluťoučký</p></body></html>'
    assert Parsing().parse(Upload("a.xhtml", page.encode("iso-8859-2")), "d").blocks[0].text == "Příliš žluťoučký"


def test_utf_8_that_was_cut_or_damaged_in_one_place_is_still_utf_8():
    cut = TEXTS["ja"].encode()[:-1]
    assert decode(cut, "a.txt") == TEXTS["ja"][:-1] + "\ufffd"
    damaged = TEXTS["ru"].encode().replace("ы".encode(), b"\xff", 1)
    assert decode(damaged, "a.txt") == TEXTS["ru"].replace("ы", "\ufffd", 1)


def test_a_zero_that_strayed_into_text_does_not_turn_it_into_another_charset():
    assert decode(
        b"caf\xe9 and\x00 more" + b" words of the same kind, some fifty of them in all," * 3, "a.txt"
    ).startswith("café")


@pytest.mark.parametrize("content", [bytes(range(256)) * 8, bytes(4000), b"\x01\x00\x00\x00" * 500])
def test_binary_data_is_no_text(content):
    with pytest.raises(Unparsable, match="is not text: it holds binary data"):
        decode(content, "a.bin")
