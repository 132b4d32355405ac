"""One writer at a time to a folder in a store, as far as a store without locks can promise that.

A lease is an object with a number, made only if no object of that name is there. Its owner renews it by writing it
again. Whoever finds the highest one not renewed for a while makes the next. An owner that finds another's stops.
"""

from __future__ import annotations

import os
import socket
import time

import msgspec

from palate.records import PalateError
from palate.storage._store import Store

EXPIRES = 120.0
"""Seconds without renewal, by the clock of the store, after which another writer may take over."""
PREFIX = ".palate-lease-"


class Owner(msgspec.Struct, frozen=True):
    """What a lease holds."""

    token: str
    """Of the working copy. The same one may go on after a crash."""
    host: str
    pid: int

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


class LostLeaseError(PalateError):
    """Another writer has taken over."""


class Lease:
    """The right to write to a folder, until it is released or not renewed."""

    def __init__(self, store: Store, token: str) -> None:
        self._store, self._owner = store, Owner(token, socket.gethostname(), os.getpid())
        self._name = ""
        self._renewed = -EXPIRES

    def take(self) -> Owner | None:
        """Take it; the owner of a lease that was taken over is given."""
        name, owner = self._highest()
        if owner is not None and owner.token == self._owner.token:
            self._name = name
            self.renew()
            return None
        if owner is not None:
            now, listed = self._store.require_writable(), self._store.objects(hidden=True).get(name)
            idle = now - listed.modified if listed else 0.0
            if idle <= EXPIRES:
                raise PalateError(
                    f"{owner} is writing to {self._store.url}. Wait for it, or stop it. If it is dead, run this again "
                    f"in {max(1, round(EXPIRES - idle))} s: a lease that is not renewed ends after {EXPIRES:.0f} s."
                )
        self._name = f"{PREFIX}{_number(name) + 1:06}"
        if not self._store.create(self._name, msgspec.json.encode(self._owner)):
            raise PalateError(f"another process has just begun to write to {self._store.url}; wait for it, or stop it")
        self._renewed = time.monotonic()
        if name:
            self._store.remove(name)
        return owner

    def renew(self) -> None:
        """Say that the owner is alive; raises LostLeaseError where another writer took over meanwhile."""
        name, owner = self._highest()
        if name != self._name or owner is None or owner.token != self._owner.token:
            by = f"{owner} has taken over" if owner else "somebody has removed the lease of"
            raise LostLeaseError(f"{by} {self._store.url}, after this process was not heard of for a while")
        if time.monotonic() - self._renewed >= EXPIRES / 10:
            self._store.put_bytes(self._name, msgspec.json.encode(self._owner))
            self._renewed = time.monotonic()

    def keep_alive(self) -> None:
        """Renew it if it is time to, during an upload that takes long."""
        if time.monotonic() - self._renewed >= EXPIRES / 4:
            self.renew()

    def release(self) -> None:
        """Let the next one write."""
        self._store.remove(self._name)

    def _highest(self) -> tuple[str, Owner | None]:
        names = sorted(name for name in self._store.objects(hidden=True) if name.startswith(PREFIX))
        for name in reversed(names):
            if (content := self._store.read(name)) is not None:
                try:
                    return name, msgspec.json.decode(content, type=Owner)
                except msgspec.DecodeError as error:
                    raise PalateError(f"{self._store.url}/{name} is no lease of palate; delete it") from error
        return "", None


def _number(name: str) -> int:
    digits = name.removeprefix(PREFIX)
    return int(digits) if digits.isdecimal() else 0
