"""`fleetfoot demo`: everything on this machine, started in order, shown working, ended in reverse."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import time
import tomllib
from collections.abc import Coroutine, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from fleetfoot.__main__ import rooms
from fleetfoot.asking import ask, show_answered
from fleetfoot.client import connect
from fleetfoot.ingesting import ingest, show
from fleetfoot.processes import child, end, interruptible, still_runs
from generate.local import LocalModel, LocalModelOptions
from pipeline.errors import FleetfootError, Misconfigured
from retrieve.model_library import ModelLibrary
from workers.broker import EmbeddedRedis

COLLECTION = "handbook"
READY_WITHIN = 120.0  # seconds until the API must be ready; the first start compiles and warms up
LOOK = 0.5  # seconds between two looks at whether all processes still run
FOR_A_SMALL_MODEL = 3  # passages; it is lost among more
LOOPBACK = "127.0.0.1"

NEXT = """
  export FLEETFOOT_URL={url}
  {command} ask -c {collection} "How long are lost things kept?"
  {command} ingest -c mine PATH

  curl -s {url}/v1/retrieve -H 'content-type: application/json' \\
       -d '{{"collection": "{collection}", "query": "refund", "top_k": 3, "deadline_ms": 200}}'

  curl -N {url}/v1/chat/completions -H 'content-type: application/json' \\
       -d '{{"model": "{collection}", "stream": true,
            "messages": [{{"role": "user", "content": "How long are lost things kept?"}}]}}'

  from openai import OpenAI
  client = OpenAI(base_url="{url}/v1", api_key="none")
  question = {{"role": "user", "content": "How long are lost things kept?"}}
  print(client.chat.completions.create(model="{collection}", messages=[question]).choices[0].message.content)

Ctrl-C stops everything.
"""


def run(*, once: bool, llm: bool, port: int, data: Path | None, console: Console) -> None:
    """Runs the demo. With `once` it ends after the answer; otherwise at Ctrl-C, which ends every process it started."""
    data = (data or default_data()).resolve()
    with interruptible(), started(port, data, console, llm=llm) as demo:
        asyncio.run(demo.while_running(show_off(demo.url, console, llm=llm)))
        if not once:
            stay_up(demo, console)


@dataclass(frozen=True, slots=True)
class Demo:
    """What is running, and where it keeps its logs."""

    url: str
    data: Path
    processes: Mapping[str, subprocess.Popen[bytes]]

    @property
    def logs(self) -> Path:
        """One file a process."""
        return self.data / "logs"

    def check(self) -> None:
        """Raises Misconfigured with the end of its log when a process has ended by itself."""
        for name, process in self.processes.items():
            still_runs(name, process, self.logs / f"{name}.log")

    async def while_running(self, work: Coroutine[Any, Any, None]) -> None:
        """Does the work, and gives it up with the reason when a process that it needs has ended."""
        task = asyncio.create_task(work)
        try:
            while not (await asyncio.wait([task], timeout=LOOK))[0]:
                self.check()
            await task
        finally:
            task.cancel()


@contextmanager
def started(port: int, data: Path, console: Console, *, llm: bool) -> Generator[Demo]:
    """Everything, until the block ends."""
    port = free_port(port, console)
    url = f"http://{LOOPBACK}:{port}"
    # Set to nothing is not set: the demo is open to this machine, whatever keys another service has.
    environment = {"FLEETFOOT_DATA_DIR": str(data), "FLEETFOOT_HOST": LOOPBACK, "FLEETFOOT_KEYS_FILE": ""}
    environment["FLEETFOOT_PORT"] = str(port)
    logs = data / "logs"
    with ExitStack() as stack:
        with step("the encoder all-MiniLM-L6-v2 (int8, 21 MB)", console):
            ModelLibrary(data / "models").add("default")
        if "FLEETFOOT_REDIS_URL" not in os.environ:
            with step("a Valkey server for the queue", console):
                environment["FLEETFOOT_REDIS_URL"] = stack.enter_context(EmbeddedRedis.open()).url
        if llm:
            with step("a small language model", console):
                model = stack.enter_context(LocalModel.open(LocalModelOptions(data / "local-model")))
            environment |= {
                "FLEETFOOT_UPSTREAM_URL": model.url,
                "FLEETFOOT_UPSTREAM_MODEL": model.name,
                "FLEETFOOT_UPSTREAM_CONNECTIONS": "1",
                "FLEETFOOT_FIRST_TOKEN_DEADLINE_MS": "120000",  # two busy cores read 1,500 tokens in 30 s
            }
        worker = stack.enter_context(child(["work"], environment, logs / "worker.log"))
        api = stack.enter_context(child(["serve"], environment, logs / "api.log"))
        stack.callback(end, api, worker)  # together, since each takes a second or two
        demo = Demo(url, data, {"api": api, "worker": worker})
        with step(f"the API on {url} and a worker (logs in {logs})", console):
            asyncio.run(demo.while_running(until_ready(url, api, logs / "api.log")))
        yield demo


async def show_off(url: str, console: Console, *, llm: bool) -> None:
    """Ingests the sample handbook, asks the demo's question, and looks whether the answer cites the right document.

    Raises FleetfootError when it does not; a small language model gets few passages, and only a remark.
    """
    examples = rooms() / "examples"
    script = tomllib.loads((examples / "demo.toml").read_text(encoding="utf-8"))
    async with connect(url) as client:
        console.print(f"\n[bold]Ingesting[/bold] {escape(str(examples / 'handbook'))}", soft_wrap=True)
        show(await ingest(client, COLLECTION, [examples / "handbook"], console, wait=True), console)
        console.print(f"\n[bold]Question[/bold] {script['question']}\n", soft_wrap=True)
        asked = await ask(client, COLLECTION, script["question"], console, top_k=FOR_A_SMALL_MODEL if llm else None)
    show_answered(asked, console)
    cited = asked.cited_sources()
    if script["document"] in cited:
        console.print(f"\nThe answer cites the right document: {script['document']}", soft_wrap=True)
        return
    missed = f"The answer cites {', '.join(sorted(cited)) or 'nothing'}, and not '{script['document']}'"
    if not llm:
        raise FleetfootError(f"{missed}. The logs beside the data may tell why.")
    console.print(f"\n{missed}: a model this small often forgets to. Without it answers are quoted.", soft_wrap=True)


def stay_up(demo: Demo, console: Console) -> None:
    """Prints what to try next and waits for Ctrl-C, or for a process to end by itself."""
    console.print(
        f"\n[bold]fleetfoot is up on {demo.url}[/bold] (data in {escape(str(demo.data))}). Try, in another terminal:",
        soft_wrap=True,
    )
    console.print(NEXT.format(url=demo.url, collection=COLLECTION, command=own_command()), markup=False, soft_wrap=True)
    try:
        while True:
            demo.check()
            time.sleep(LOOK)
    except KeyboardInterrupt:
        console.print("\nStopping: running answers finish, the worker returns its task …")


@contextmanager
def step(what: str, console: Console) -> Generator[None]:
    """Says what is being started, and how long it took."""
    began = time.perf_counter()
    with console.status(f"starting {what} …"):
        yield
    console.print(f"[green]✓[/green] {what} [dim]{time.perf_counter() - began:.1f} s[/dim]", soft_wrap=True)


async def until_ready(url: str, api: subprocess.Popen[bytes], log: Path) -> None:
    """Waits until `/readyz` says yes. Raises Misconfigured with its reason, or with the log of an API that ended."""
    reason = "it does not answer yet"
    async with connect(url) as client:
        for _ in range(int(READY_WITHIN / 0.25)):
            still_runs("api", api, log)
            try:
                await client.get("/readyz")
            except FleetfootError as error:
                reason = str(error)
            else:
                return
            await asyncio.sleep(0.25)
    raise Misconfigured(f"The API was not ready within {READY_WITHIN:.0f} s: {reason}. See {log}.")


def default_data() -> Path:
    """`.data` in a checkout; for an installed wheel the user's own data folder."""
    root = rooms()
    if (root / "Makefile").exists():
        return root / ".data"
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / "fleetfoot"


def own_command() -> str:
    """How a reader of the hints calls this program."""
    return ".venv/bin/python -m fleetfoot" if (rooms() / "Makefile").exists() else "fleetfoot"


def free_port(wanted: int, console: Console) -> int:
    """The wanted port, or a free one: for 0, and, said aloud, when somebody else listens on the wanted one."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, wanted))
        except OSError:
            probe.bind((LOOPBACK, 0))
            console.print(f"Port {wanted} is in use; taking {probe.getsockname()[1]}.")
        port: int = probe.getsockname()[1]
        return port
