"""Webhooks reach whoever asked, at least once, signed, and nobody whom the caller should not reach."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from hashlib import sha256
from hmac import compare_digest
from hmac import new as hmac_of

import pytest
from aiohttp import web

from ingest.addresses import Addresses
from ingest.catalog import Catalog
from ingest.signing import secrets_of, signed
from ingest.webhooks import WebhookOptions, Webhooks, check_webhook
from pipeline.errors import InvalidInput, Misconfigured
from pipeline.jobs import Job, Terms, Webhook, WebhookState
from tests.conftest import Now
from tests.ingesting import TENANT, Workshop, uploads

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_" + b64encode(b"another secret of 32 bytes here!").decode()
OPTIONS = WebhookOptions(secrets_of(SECRET), seconds=5.0, waits=(5.0, 60.0), after=1.0)


class Receiver:
    """Answers with the statuses it was given, in turn, and then with the last of them."""

    def __init__(self, *statuses: int, headers: dict[str, str] | None = None) -> None:
        self.statuses = list(statuses) or [200]
        self.headers = headers or {}
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.Response:
        self.got.append(({name.lower(): value for name, value in request.headers.items()}, await request.read()))
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        return web.Response(status=status, headers=self.headers)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Receiver]:
        app = web.Application()
        app.router.add_post("/hook", self.handle)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        self.url = f"http://{host}:{port}/hook"
        try:
            yield self
        finally:
            await runner.cleanup()


@contextmanager
def ended(catalog: Catalog, url: str, now: Now, **texts: str) -> Generator[Job]:
    """A job with a webhook that has ended a second ago."""
    job = catalog.accept(TENANT, "handbook", uploads(**(texts or {"a": "one"})), terms=Terms(webhook=url))
    Workshop(catalog).work()
    now.pass_by(1)
    yield job


def told(catalog: Catalog, job: Job) -> Webhook:
    webhook = catalog.job(TENANT, job.id).webhook
    assert webhook is not None
    return webhook


def webhooks(catalog: Catalog, options: WebhookOptions = OPTIONS) -> Webhooks:
    return Webhooks(catalog, options, Addresses(allow_private=True), jitter=lambda: 0.0)


def test_the_signature_is_that_of_the_standards_own_libraries() -> None:
    headers = signed(secrets_of(SECRET), "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize("secret", ["whsec_", "whsec_c2hvcnQ=", "not base64 at all!", "whsec_" + "A" * 100, "ö"])
def test_a_secret_that_no_receiver_could_use_is_refused_with_a_way_to_make_one(secret: str) -> None:
    with pytest.raises(Misconfigured, match="24 to 64 random bytes in base64"):
        secrets_of(secret)


async def test_the_end_of_a_job_is_told_once_and_signed_with_every_secret(catalog: Catalog, now: Now) -> None:
    async with Receiver().open() as receiver:
        with ended(catalog, receiver.url, now, a="one", b="BROKEN") as job:
            both = webhooks(catalog, WebhookOptions(secrets_of(f"{OTHER} {SECRET}")))
            assert await both.deliver_due() == 1
            assert await both.deliver_due() == 0
    ((headers, body),) = receiver.got
    content = b".".join((headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body))
    signatures = headers["webhook-signature"].split(" ")
    for secret, signature in zip((OTHER, SECRET), signatures, strict=True):
        key = b64decode(secret.removeprefix("whsec_"))
        assert compare_digest(signature, "v1," + b64encode(hmac_of(key, content, sha256).digest()).decode())
    assert (headers["webhook-id"], headers["content-type"]) == (f"job_{job.id}", "application/json")
    said = json.loads(body)
    assert said["type"] == "job.done"
    assert said["data"]["counts"] == {"failed": 1, "published": 1}
    assert said["data"]["failed_csv"] == f"/v1/jobs/{job.id}/failed.csv"
    assert told(catalog, job) == Webhook(receiver.url, WebhookState.DELIVERED, 1)


async def test_nobody_is_told_before_the_end(catalog: Catalog, now: Now) -> None:
    async with Receiver().open() as receiver:
        catalog.accept(TENANT, "handbook", uploads(a="one"), terms=Terms(webhook=receiver.url))
        assert await webhooks(catalog).deliver_due() == 0
        Workshop(catalog).work()
        assert await webhooks(catalog).deliver_due() == 0, "by the time it comes everybody searches what it brought"
        now.pass_by(OPTIONS.after)
        assert await webhooks(catalog).deliver_due() == 1


async def test_a_receiver_that_fails_is_tried_again_later_each_time_and_then_given_up(
    catalog: Catalog, now: Now
) -> None:
    async with Receiver(500, 404, 503).open() as receiver:
        with ended(catalog, receiver.url, now) as job:
            hooks = webhooks(catalog)
            assert await hooks.deliver_due() == 1
            first = told(catalog, job)
            assert (first.state, first.attempts, first.due) == (WebhookState.WAITING, 1, now() + 5)
            assert first.reason == "It was answered with 500."
            now.pass_by(4)
            assert await hooks.deliver_due() == 0
            now.pass_by(1)
            assert await hooks.deliver_due() == 1
            assert told(catalog, job).due == now() + 60
            now.pass_by(60)
            assert await hooks.deliver_due() == 1
            now.pass_by(1e9)
            assert await hooks.deliver_due() == 0
    assert told(catalog, job) == Webhook(receiver.url, WebhookState.FAILED, 3, None, "It was answered with 503.")
    assert len({headers["webhook-id"] for headers, _ in receiver.got}) == 1


async def test_a_receiver_may_say_when_to_come_back_and_that_it_wants_no_more(catalog: Catalog, now: Now) -> None:
    async with Receiver(429, 410, headers={"Retry-After": "600"}).open() as receiver:
        with ended(catalog, receiver.url, now) as job:
            hooks = webhooks(catalog)
            await hooks.deliver_due()
            assert told(catalog, job).due == now() + 600
            now.pass_by(600)
            await hooks.deliver_due()
    assert told(catalog, job).state is WebhookState.FAILED


async def test_a_redirect_is_not_followed(catalog: Catalog, now: Now) -> None:
    async with Receiver().open() as inner, Receiver(302, headers={"Location": inner.url}).open() as outer:
        with ended(catalog, outer.url, now) as job:
            await webhooks(catalog).deliver_due()
    assert inner.got == []
    assert "redirects are not followed" in told(catalog, job).reason


async def test_an_attempt_whose_sender_died_is_made_again(catalog: Catalog, now: Now) -> None:
    async with Receiver().open() as receiver:
        with ended(catalog, receiver.url, now) as job:
            silent = Silent()
            async with silent.open():
                catalog_url = silent.url
                other = catalog.accept(TENANT, "handbook", uploads(b="two"), terms=Terms(webhook=catalog_url))
                Workshop(catalog).work()
                now.pass_by(1)
                task = asyncio.create_task(webhooks(catalog).deliver_due())
                await silent.reached.wait()
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            assert told(catalog, other).state is WebhookState.WAITING
            now.pass_by(5)
            assert await webhooks(catalog).deliver_due() >= 1
            assert told(catalog, other).attempts == 2
            assert told(catalog, job).state is WebhookState.DELIVERED


class Silent:
    """Takes a connection and never answers."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.url = ""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        self.reached.set()
        await reader.read()
        writer.close()

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Silent]:
        async with await asyncio.start_server(self._serve, "127.0.0.1", 0) as server:
            self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
            yield self


async def test_two_senders_never_make_the_same_attempt(catalog: Catalog, now: Now) -> None:
    async with Receiver().open() as receiver:
        with ended(catalog, receiver.url, now):
            made = await asyncio.gather(*(webhooks(catalog).deliver_due() for _ in range(4)))
    assert (sum(made), len(receiver.got)) == (1, 1)


async def test_the_services_own_network_is_not_reached_unless_it_is_allowed(catalog: Catalog, now: Now) -> None:
    async with Receiver().open() as receiver:
        with ended(catalog, receiver.url.replace("127.0.0.1", "localhost"), now) as job:
            strict = Webhooks(catalog, OPTIONS, Addresses())
            assert await strict.deliver_due() == 1
    assert receiver.got == []
    webhook = told(catalog, job)
    assert (webhook.state, webhook.attempts) == (WebhookState.FAILED, 1)
    assert "'localhost' has a private or local address" in webhook.reason


async def test_who_does_not_answer_at_all_is_told_in_a_sentence(catalog: Catalog, now: Now) -> None:
    with ended(catalog, "http://127.0.0.1:9/hook", now) as job:
        await webhooks(catalog).deliver_due()
    assert told(catalog, job).reason.startswith("The connection failed")


@pytest.mark.parametrize(
    "url",
    ["", "ftp://example.com/", "example.com", "http://", "https://user@example.com/", "https://example.com:99999/",
     "http://[::1", "https://exämple.com/", "https://example.com/" + "a" * 2000, "https://example.com/\n"],
)  # fmt: skip
def test_what_is_no_address_for_a_webhook_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match=r"https://example\.com/hook") as refused:
        check_webhook(url, Addresses(allow_private=True))
    assert refused.value.field == "webhook"


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1/", "http://[::1]:8080/", "https://10.0.0.1/", "http://169.254.169.254/"]
)
def test_a_private_address_is_refused_at_once_where_it_is_named(url: str) -> None:
    with pytest.raises(InvalidInput, match="private or local address"):
        check_webhook(url, Addresses())
    check_webhook(url, Addresses(allow_private=True))
