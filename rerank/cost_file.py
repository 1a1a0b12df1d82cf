"""What runs cost on this machine, kept for the next start: one small JSON file a model, device and processor."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from rerank.cost import Learned

log = logging.getLogger(__name__)
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Machine:
    """What a cost depends on: the model's fingerprint, the device, threads a run, and the processor's name."""

    model: str
    device: str
    threads: int
    processor: str

    def described(self) -> dict[str, str | int]:
        """As it stands in the file."""
        return {"model": self.model, "device": self.device, "threads": self.threads, "processor": self.processor}


class CostFile:
    """Costs of one model on one machine, in a folder of such files. Losing it costs a little precision at start.

    A file that is damaged, or of another model or machine, is left unread with a word in the log, and written anew.
    """

    def __init__(self, folder: Path, machine: Machine) -> None:
        named = json.dumps(machine.described(), sort_keys=True)
        self.file = folder / f"rerank-{hashlib.sha256(named.encode()).hexdigest()[:16]}.json"
        self._machine = machine

    def read(self) -> Learned | None:
        """What was kept; None where there is nothing that can be used."""
        try:
            content: Any = json.loads(self.file.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            log.warning("the costs in '%s' cannot be read and are learned anew: %s", self.file, error)
            return None
        try:
            if content["format"] != _FORMAT or content["machine"] != self._machine.described():
                log.warning("the costs in '%s' are of another model or machine and are learned anew", self.file)
                return None
            run, token, square = (float(part) for part in cast("list[Any]", content["parts"]))
            learned = Learned((run, token, square), float(content["deviation"]), int(content["runs"]))
        except (KeyError, TypeError, ValueError) as error:
            log.warning("the costs in '%s' are not as written and are learned anew: %r", self.file, error)
            return None
        if not learned.usable():
            log.warning("the costs in '%s' cannot be those of a machine and are learned anew", self.file)
            return None
        return learned

    def write(self, learned: Learned) -> None:
        """Replaces the file in one step; a folder that cannot be written to is told to the log and to nobody else."""
        content = {
            "format": _FORMAT,
            "machine": self._machine.described(),
            "parts": list(learned.parts),
            "deviation": learned.deviation,
            "runs": learned.runs,
        }
        unfinished = self.file.with_name(f".{self.file.name}.{os.getpid()}")
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            unfinished.write_text(json.dumps(content))
            unfinished.replace(self.file)
        except OSError as error:
            log.warning("the costs of reranking cannot be kept in '%s': %s", self.file, error)


def processor_name() -> str:
    """What the processor calls itself, as `AMD EPYC 7543`; its architecture where it does not say."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())
