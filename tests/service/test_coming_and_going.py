"""Some hundred clients come and go, most of them too early; nothing of them stays. `benchmarks/leaks.py` does more."""

from __future__ import annotations

import asyncio

from benchmarks.leaks import WAYS, Client, Look, looked, one_by_one, quiet
from tests.running_service import MARKS, Api
from tests.upstream import FakeUpstream

pytestmark = MARKS

ROUNDS = 30


async def test_clients_that_come_and_go_leave_no_task_no_socket_and_nobody_inside(
    upstream: FakeUpstream, wired: Api
) -> None:
    upstream.behave(before_first=0.01, between=0.001)
    pid = wired.process.pid
    client = Client(wired.url)
    await one_by_one(client, 2 * len(WAYS))
    before = await settled(wired.url, pid, tasks=0, sockets=0)
    await one_by_one(client, ROUNDS * len(WAYS))
    after = await settled(wired.url, pid, tasks=before.tasks, sockets=before.sockets)
    assert after.inside == 1, "only who asks"
    assert after.tasks <= before.tasks
    assert after.sockets <= before.sockets
    async with asyncio.timeout(5):
        for received in upstream.received:
            await received.finished.wait()


async def settled(url: str, pid: int, *, tasks: int, sockets: int) -> Look:
    """Looks until there are no more of them than that, or idle connections to the model server have had their time."""
    look = await quiet(url, pid, 0)
    for _ in range(60):
        if look.tasks <= tasks and look.sockets <= sockets:
            break
        await asyncio.sleep(0.1)
        look = await looked(url, pid, 0)
    return look
