"""What a URL names is fetched within bounds, and from nowhere that only this machine can reach."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from ingest.addresses import Addresses, is_public
from ingest.fetching import Answer, Asked, Fetcher, FetchingOptions
from pipeline.origins import Validators


class Pages(BaseHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Says nothing."""

    def do_GET(self) -> None:
        match self.path:
            case "/page" if self.headers.get("If-None-Match") == '"1"':
                self.answer(304)
            case "/page":
                self.answer(200, b"hello", ETag='"1"', **{"Content-Type": "text/html; charset=latin-1"})
            case "/packed":
                self.answer(200, gzip.compress(b"one ") + gzip.compress(b"two"), **{"Content-Encoding": "gzip"})
            case "/bomb":
                self.answer(200, gzip.compress(b"0" * 20_000_000), **{"Content-Encoding": "gzip"})
            case "/short":
                self.answer(200, b"x", **{"Content-Length": "100"})
            case "/large":
                self.answer(200, b"x" * 2_000_000)
            case "/moved":
                self.answer(302, Location="/page")
            case "/loop":
                self.answer(302, Location="/loop")
            case "/inside":
                self.answer(302, Location=f"http://127.0.0.1:{self.server.server_address[1]}/page")
            case "/file":
                self.answer(302, Location="file:///etc/passwd")
            case "/slow":
                self.send_response(200)
                self.end_headers()
                self.wfile.flush()
                self.server.over.wait(30)  # type: ignore[attr-defined]
            case "/gone":
                self.answer(410)
            case _:
                self.answer(500)

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(scope="module")
def site() -> Generator[str, None, None]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    server.over = threading.Event()  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.over.set()  # type: ignore[attr-defined]
    server.shutdown()
    thread.join()
    server.server_close()


def fetch(url: str, validators: Validators | None = None, seconds: float = 10.0) -> Answer:
    options = FetchingOptions(content=1_000_000, seconds=seconds, redirects=3, allow_private=True)
    (answer,) = Fetcher(options).fetch([Asked(url, validators or Validators())])
    return answer


def failure(answer: Answer) -> str:
    assert answer.failure is not None
    return str(answer.failure)


def test_a_page_comes_with_its_type_and_what_its_server_calls_its_state(site: str) -> None:
    fetched = fetch(f"{site}/moved").fetched
    assert fetched is not None
    assert (fetched.content, fetched.media_type) == (b"hello", "text/html; charset=latin-1")
    assert fetched.validators == Validators(f"{site}/page", '"1"')


def test_what_has_not_changed_is_not_sent_again(site: str) -> None:
    assert fetch(f"{site}/page", Validators(f"{site}/page", '"1"')) == Answer()
    assert fetch(f"{site}/moved", Validators(f"{site}/page", '"1"')) == Answer()
    assert fetch(f"{site}/page", Validators(f"{site}/other", '"1"')).fetched is not None


def test_a_packed_body_is_unpacked_and_no_further_than_to_the_limit(site: str) -> None:
    packed = fetch(f"{site}/packed").fetched
    assert packed is not None
    assert packed.content == b"one two"
    assert "1,000,000 bytes" in failure(fetch(f"{site}/bomb"))


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/large", "1,000,000 bytes"),
        ("/short", "broke off"),
        ("/loop", "redirected more than 3 times"),
        ("/file", "redirected to no address"),
        ("/other", "500 Internal Server Error"),
        ("/gone", "410 Gone"),
    ],
)
def test_a_url_that_fails_says_why_and_names_itself(site: str, path: str, reason: str) -> None:
    said = failure(fetch(site + path))
    assert reason in said
    assert f"'{site}{path}'" in said


def test_a_body_that_never_ends_is_given_up(site: str) -> None:
    assert "more than 0.2 s" in failure(fetch(f"{site}/slow", seconds=0.2))


def test_one_that_fails_leaves_the_others_alone(site: str) -> None:
    answers = Fetcher(FetchingOptions(allow_private=True)).fetch([Asked(f"{site}/gone"), Asked(f"{site}/page")])
    assert answers[0].failure is not None
    assert answers[0].failure.gone
    assert answers[1].fetched is not None


class Names(AbstractResolver):
    """Knows every name, under these addresses, and counts how often it was asked."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses
        self.asked = 0

    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[ResolveResult]:
        self.asked += 1
        return [
            ResolveResult(hostname=host, host=each, port=port, family=2, proto=0, flags=0) for each in self.addresses
        ]

    async def close(self) -> None:
        """Holds nothing."""


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254"])
def test_a_url_into_the_machine_or_its_neighbours_is_refused(host: str) -> None:
    (answer,) = Fetcher(FetchingOptions(seconds=10)).fetch([Asked(f"http://{host}:9/")])
    assert "FLEETFOOT_ALLOW_PRIVATE_ADDRESSES" in failure(answer)


def test_a_name_with_one_private_address_among_public_ones_is_refused() -> None:
    names = Names("93.184.215.14", "10.0.0.7")
    (answer,) = Fetcher(addresses=Addresses(resolver=names)).fetch([Asked("http://site.example/")])
    assert "private or local address" in failure(answer)
    assert "10.0.0.7" not in failure(answer)
    assert names.asked == 1


class FirstHop(Addresses):
    """Takes the loopback server for a public one under its name, once, and checks everything after it."""

    opened = 0

    def check(self, host: str, address: str) -> None:
        if host == address and not self.opened:
            self.opened += 1
        elif host != "site.example":
            super().check(host, address)


def test_a_redirect_into_the_machine_is_refused_too(site: str) -> None:
    (answer,) = Fetcher(addresses=FirstHop(resolver=Names("127.0.0.1"))).fetch(
        [Asked(site.replace("127.0.0.1", "site.example") + "/inside")]
    )
    assert "'127.0.0.1' has a private or local address" in failure(answer)


@pytest.mark.parametrize(
    "address",
    """10.1.2.3 172.16.0.1 192.168.1.1 100.64.0.1 0.0.0.0 224.0.0.1 240.0.0.1 192.0.2.1 198.18.0.1 :: fe80::1%eth0
    fc00::1 ff02::1 fec0::1 ::ffff:8.8.8.8 ::127.0.0.1 2002:7f00:1:: 64:ff9b::7f00:1 64:ff9b:1::1 2001:db8::1
    nonsense""".split(),
)
def test_what_not_everybody_can_reach_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700:4700::1111", "64:ff9b::808:808", "2002:808:808::"])
def test_what_everybody_can_reach_is_public(address: str) -> None:
    assert is_public(address)
