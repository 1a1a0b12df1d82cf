"""What every proof shares: one line a promise, `OK` or `SHORT`, a name, the figure and its bound."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rich.console import Console


@dataclass
class Proof:
    """Collects lines as they are known. A check that could not be made is SHORT: a skip is never an OK."""

    short: int = field(default=0)

    def line(self, name: str, figure: str, bound: str, *, ok: bool) -> None:
        """Prints one line at once, so that a long proof can be watched."""
        self.short += not ok
        print(f"{'OK   ' if ok else 'SHORT'} {name:<44} {figure:<40} {bound}", flush=True)

    def at_least(self, name: str, figure: float, bound: float, unit: str = "") -> None:
        """A figure that must not be smaller."""
        self.line(name, f"{figure:.4g}{unit}", f">= {bound:.4g}{unit}", ok=figure >= bound)

    def at_most(self, name: str, figure: float, bound: float, unit: str = "") -> None:
        """A figure that must not be larger."""
        self.line(name, f"{figure:.4g}{unit}", f"<= {bound:.4g}{unit}", ok=figure <= bound)

    def attempt(self, name: str, check: Callable[[], None]) -> None:
        """Runs one part of a proof; if it fails to run at all, that is SHORT, and the others still run."""
        print(f"      … {name}", flush=True)
        try:
            check()
        except Exception as failure:  # noqa: BLE001  the door of the proof
            self.line(name, f"could not be shown: {failure!r}"[:300], "runs", ok=False)

    def end(self) -> None:
        """Exits 1 when anything fell short."""
        print("every promise is kept" if not self.short else f"{self.short} fell short", flush=True)
        sys.exit(1 if self.short else 0)


Part = Callable[[Proof, Console], None]


def run_parts(parts: Mapping[str, Part], description: str) -> None:
    """Runs every part, or those that `--only` names, and tells how long each took; exits 1 when one falls short."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(parts), default=list(parts), help="parts to run")
    proof, console = Proof(), Console(width=150, highlight=False)
    for name in parser.parse_args().only:
        began = time.perf_counter()
        proof.attempt(name, lambda part=parts[name]: part(proof, console))  # type: ignore[misc]  # bound at once
        print(f"      {name}: {time.perf_counter() - began:.0f} s", flush=True)
    proof.end()
