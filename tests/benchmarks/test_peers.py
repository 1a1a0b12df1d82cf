"""How peers are asked, and how wrk is: over a pipe, and over a port of this machine."""

from __future__ import annotations

import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from benchmarks import wrk
from benchmarks.caller import row_of
from benchmarks.peer import Peer

PEERS = Path(__file__).parents[2] / "benchmarks" / "peers"
SCRIPT = f"""
import sys, time
sys.path.insert(0, {str(PEERS)!r})
from pipe import serve
def search(query):
    if query == "end":
        sys.exit(3)
    time.sleep(0.02)
    return [len(query), 1], {{"lexical": 0.001, "dense": 0.002}}
serve(search, built=1.5)
"""


@pytest.fixture
def command(tmp_path: Path) -> list[str | Path]:
    (tmp_path / "peer.py").write_text(SCRIPT)
    return [sys.executable, tmp_path / "peer.py"]


def test_a_peer_tells_rows_and_milliseconds_by_stage(command: list[str | Path], tmp_path: Path) -> None:
    with Peer.open(command, tmp_path / "log") as peer:
        found = peer.search("four")
    assert peer.built == 1.5
    assert (found.rows, found.stages) == ([4, 1], {"lexical": 1.0, "dense": 2.0})
    assert found.whole == 3.0


def test_a_peers_callers_are_at_work_at_the_same_time(command: list[str | Path], tmp_path: Path) -> None:
    with Peer.open(command, tmp_path / "log") as peer:
        one, four = peer.at_once(["a"] * 8, 1), peer.at_once(["a"] * 8, 4)
    assert len(one.took) == len(four.took) == 8
    assert four.rate > one.rate


def test_a_peer_that_ends_by_itself_is_told_with_its_status(command: list[str | Path], tmp_path: Path) -> None:
    with Peer.open(command, tmp_path / "log") as peer, pytest.raises(RuntimeError, match="ended with status 3"):
        peer.search("end")


def test_a_row_is_found_again_from_the_passage_that_was_handed_out() -> None:
    assert row_of({"id": "0000012:5"}) == 101


class Answering(BaseHTTPRequestHandler):
    """Refuses every fourth request, and gives something up in every other that it answers."""

    protocol_version = "HTTP/1.1"
    asked: list[bytes]
    lock: threading.Lock

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        with self.lock:
            self.asked.append(body)
            place = len(self.asked)
        content = b'{"degraded":[]}' if place % 2 else b'{"degraded":[{"stage":"dense"}]}'
        self.send_response(503 if place % 4 == 0 else 200)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextmanager
def answering() -> Generator[tuple[str, list[bytes]]]:
    asked: list[bytes] = []
    handler = type("Handler", (Answering,), {"asked": asked, "lock": threading.Lock()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/retrieve", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.slow
def test_wrk_counts_what_was_refused_and_what_was_given_up() -> None:
    if not (wrk.UNPACKED / "usr" / "bin" / "wrk").exists() and not wrk.on_path():
        pytest.skip("wrk is neither on PATH nor unpacked in .bench")
    with answering() as (url, asked):
        load = wrk.load(url, [f'{{"query":"{number}"}}' for number in range(50)], callers=2, seconds=1)
    assert len({*asked}) == min(50, len(asked))
    counted = load.answered + load.refused
    assert counted > 20
    assert abs(load.refused - counted / 4) <= 2
    assert abs(load.degraded - counted / 4) <= 2
    assert load.socket_errors == 0
    assert load.p50 <= load.p90 <= load.p99


def test_several_runs_of_wrk_are_told_as_one() -> None:
    first = wrk.Load(8, 100.0, 1.0, 2.0, 3.0, 500, 1, 0, 0, 0.5)
    second = wrk.Load(8, 200.0, 3.0, 4.0, 5.0, 1000, 0, 2, 1, 0.7)
    assert wrk.together([first, second]) == wrk.Load(8, 150.0, 2.0, 3.0, 4.0, 1500, 1, 2, 1, 0.7)
