"""Something that fails each time it is tried: told when it begins and when it is over, not each time in between."""

from __future__ import annotations

import logging

from pipeline.errors import FleetfootError


class Outage:
    """Watches one thing that is tried again and again; `meanwhile` says what holds as long as it fails."""

    def __init__(self, log: logging.Logger, meanwhile: str) -> None:
        self._log = log
        self._meanwhile = meanwhile
        self._failing: type[Exception] | None = None

    def failed(self, error: Exception) -> None:
        """One line for what is raised on purpose, a traceback for what nobody foresaw, nothing for the same again."""
        before, self._failing = self._failing, type(error)
        if self._failing is before:
            return
        if isinstance(error, FleetfootError):
            self._log.warning("%s: %s", self._meanwhile, " ".join(part for part in (str(error), error.detail) if part))
        else:
            self._log.error("%s", self._meanwhile, exc_info=error)

    def over(self) -> None:
        """It worked."""
        if self._failing is not None:
            self._log.warning("This is over: %s", self._meanwhile)
            self._failing = None
