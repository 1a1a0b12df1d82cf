"""A document that kills, hangs or floods its reader fails alone; the next one is read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ingest.formats.reading import ParsingOptions
from ingest.isolation import IsolatedParser, IsolationOptions
from ingest.parsing import Parsing
from pipeline.errors import InvalidInput, Misconfigured, TooLarge, Unparsable
from pipeline.passages import Upload
from tests import documents

ROOT = Path(__file__).parents[2]

HOSTILE = """
import os, resource, signal, sys, time
from ingest.isolated import main
from pipeline.passages import Block, Document

class Hostile:
    def __init__(self, options): pass

    def parse(self, upload, document_id):
        text = upload.content.decode()
        match upload.name:
            case "eats": text = [bytearray(2**26) for _ in range(100)]
            case "burns":
                while True: pass
            case "sleeps": time.sleep(600)
            case "crashes": os.kill(os.getpid(), signal.SIGSEGV)
            case "leaves": os._exit(3)
            case "is-killed": os.kill(os.getpid(), signal.SIGKILL)
            case "prints": print("noise", flush=True); os.write(1, b"more noise")
            case "floods": text = "x" * 40_000_000
            case "environment": text = repr(sorted(os.environ))
            case "pid": text = str(os.getpid())
            case "works":
                while time.process_time() < 1.1: pass
            case "limit": text = str(resource.getrlimit(resource.RLIMIT_CPU)[0])
        return Document(document_id, upload.name, "", (Block(text),), "text/plain")

sys.exit(main(sys.argv[1:], Hostile))
"""


@pytest.fixture
def hostile(tmp_path: Path) -> tuple[str, ...]:
    script = tmp_path / "hostile.py"
    script.write_text(HOSTILE)
    return (sys.executable, str(script))


def text(parser: IsolatedParser, name: str = "a.txt", content: bytes = b"fine") -> str:
    return parser.parse(Upload(name, content), "d1").blocks[0].text


def test_what_comes_back_is_what_parsing_here_would_give():
    uploads = (
        Upload("a.md", b"---\ntags: [a, b]\n---\n# T\n\nText \xc3\xa9", None, {"team": ("x", "y"), "n": 1, "ok": True}),
        Upload("m.pdf", documents.pdf([["One"], ["Two"]], title="M"), "application/pdf"),
        Upload("t.docx", documents.word()),
        Upload("surrogate \udc80.html", b"<p>x"),
    )
    with IsolatedParser() as parser:
        for upload in uploads:
            assert parser.parse(upload, "d1") == Parsing().parse(upload, "d1")


def test_reasons_survive_the_border():
    options = ParsingOptions(content_bytes=100_000, characters=1000)
    uploads = (
        Upload("empty.md", b""),
        Upload("secret.pdf", documents.encrypted_pdf("pw")),
        Upload("bomb.docx", documents.xml_bomb()),
        Upload("long.txt", b"x" * 2000),
        Upload("longer.txt", b"x" * 200_000),
    )
    with IsolatedParser(parsing=options) as parser:
        for upload in uploads:
            with pytest.raises(InvalidInput) as here:
                Parsing(options).parse(upload, "d1")
            with pytest.raises(InvalidInput) as there:
                parser.parse(upload, "d1")
            assert (type(there.value), str(there.value)) == (type(here.value), str(here.value))


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("eats", IsolationOptions(memory=2**28), "took more than 256 MiB of memory"),
        ("is-killed", IsolationOptions(), "of memory"),
        ("burns", IsolationOptions(seconds=1), "took more than 1 s"),
        ("sleeps", IsolationOptions(seconds=1), "took more than 1 s"),
        ("crashes", IsolationOptions(), r"its parser crashed on it \(SIGSEGV\)"),
        ("leaves", IsolationOptions(), r"its parser crashed on it \(exit status 3\)"),
    ],
)
def test_a_document_that_is_too_much_fails_alone_and_says_why(hostile, name, options, reason):
    with IsolatedParser(options, command=hostile) as parser:
        with pytest.raises(Unparsable, match=reason) as failure:
            text(parser, name)
        assert f"'{name}'" in str(failure.value)
        assert text(parser) == "fine"


def test_a_document_that_becomes_too_long_is_not_taken_in(hostile):
    with IsolatedParser(parsing=ParsingOptions(characters=1000), command=hostile) as parser:
        with pytest.raises(TooLarge, match="'floods' was given up: 40,000,"):
            text(parser, "floods")
        assert text(parser) == "fine"


def test_processor_time_is_counted_for_each_document_and_not_for_all(hostile):
    """A process's limit counts from its start, so it has to move along with what was used."""
    with IsolatedParser(IsolationOptions(seconds=30), command=hostile) as parser:
        first, _, second = int(text(parser, "limit")), text(parser, "works"), int(text(parser, "limit"))
    assert first < second < first + 30


def test_one_process_serves_many_documents_and_is_replaced_after_its_share(hostile):
    with IsolatedParser(IsolationOptions(documents=3), command=hostile) as parser:
        pids = [text(parser, "pid") for _ in range(7)]
    assert [pids.index(pid) for pid in pids] == [0, 0, 0, 3, 3, 3, 6]


def test_no_process_is_left_behind(hostile):
    with IsolatedParser(command=hostile) as parser:
        pid = int(text(parser, "pid"))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_what_a_parser_prints_disturbs_nothing(hostile):
    with IsolatedParser(command=hostile) as parser:
        assert text(parser, "prints") == "fine"


def test_the_reading_process_sees_no_secrets(hostile, monkeypatch):
    monkeypatch.setenv("FLEETFOOT_DATABASE_URL", "postgresql://user:secret@db/x")
    with IsolatedParser(command=hostile) as parser:
        assert "FLEETFOOT" not in text(parser, "environment")


def test_a_process_that_does_not_start_is_a_wrong_setting_and_no_bad_document():
    failing = (sys.executable, "-c", "raise SystemExit(4)")
    with IsolatedParser(command=failing) as parser, pytest.raises(Misconfigured, match="start: exit status 4"):
        text(parser)


def test_it_works_in_a_daemonic_process_and_from_a_folder_put_on_the_path(tmp_path):
    """As in a Celery prefork worker, and as in an installed wheel."""
    program = f"""
import multiprocessing, sys
sys.path.insert(0, {str(ROOT)!r})

def work(results):
    from ingest.isolation import IsolatedParser
    from pipeline.passages import Upload
    with IsolatedParser() as parser:
        results.put(parser.parse(Upload("a.md", b"# T\\n\\nText"), "d1").title)

if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    child = context.Process(target=work, args=(results,), daemon=True)
    child.start()
    child.join()
    print(results.get())
"""
    (tmp_path / "worker.py").write_text(program)
    ran = subprocess.run(
        [sys.executable, "worker.py"], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=True
    )
    assert ran.stdout == "T\n"
