"""Who gets in, and what they may do: signed links, short codes, sessions, roles, rate limits.

Of every secret that is given out, the tables hold a hash alone. Crowd-platform ids are replaced by a keyed hash on
arrival. IP addresses are used to slow down guessing, in memory, and are never written anywhere.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import msgspec
from sqlalchemy import Connection, select

from palate.collect._database import Store, new_id, now
from palate.collect._project import Project
from palate.collect._tables import invitations, participants, sessions
from palate.records import PalateError, new_file

Role = Literal["owner", "reviewer", "annotator"]
KEY_VARIABLE = "PALATE_COLLECT_KEY"
KEY_FILE = "secret.key"
SHORTEST_KEY = 32
SESSION_DAYS = 30
CODE_LETTERS = "23456789ABCDEFGHJKMNPQRSTUVWXYZ"  # without those that look alike
CODE_LENGTH = 12
_PLACEHOLDER = re.compile(r"[{}<>\[\]$%]|_NOT_AVAILABLE$")


class RefusedError(PalateError):
    """Somebody is not let in. The message is for them."""


class Keys:
    """Everything that is signed or hashed under the project's secret key."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def sign(self, purpose: str, *parts: object) -> str:
        """A signature of these parts for this purpose alone."""
        message = "\x00".join((purpose, *map(str, parts))).encode("utf-8", "surrogatepass")
        return hmac.new(self._key, message, hashlib.sha256).hexdigest()

    def signed(self, signature: str, purpose: str, *parts: object) -> bool:
        """Whether that is the signature."""
        return hmac.compare_digest(signature.encode("utf-8", "replace"), self.sign(purpose, *parts).encode())

    def withdrawal(self, participant: str) -> str:
        """What a person's own withdraw link ends with."""
        return f"{participant}.{self.sign('withdraw', participant)[:40]}"

    def withdrawing(self, token: str) -> str:
        """The person whose withdraw link this is."""
        participant, _, signature = token.partition(".")
        if not hmac.compare_digest(
            signature.encode("utf-8", "replace"), self.sign("withdraw", participant)[:40].encode()
        ):
            raise RefusedError("This withdraw link is not complete. Copy the whole link and try again.")
        return participant


def project_keys(project: Project) -> Keys:
    """The secret key: from the environment, else from a file in the project's folder, made when first needed."""
    given = os.environ.get(KEY_VARIABLE)
    if given is not None:
        if len(given) < SHORTEST_KEY:
            raise PalateError(f"{KEY_VARIABLE} has {len(given)} characters; it needs {SHORTEST_KEY} or more")
        return Keys(given.encode("utf-8", "surrogateescape"))
    file = project.folder / KEY_FILE
    try:
        if not file.exists():
            _make_key(file)
        if os.name == "posix" and file.stat().st_mode & 0o077:
            raise PalateError(f"others can read the key {file}: chmod 600 {file}")
        return Keys(file.read_bytes().strip())
    except OSError as error:
        raise PalateError(f"the key {file} cannot be used: {error.strerror or error}. Set {KEY_VARIABLE}.") from error


def _make_key(file: Path) -> None:
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    with new_file(draft, 0o600) as stream:
        stream.write(secrets.token_hex(32).encode() + b"\n")
    try:
        file.hardlink_to(draft)  # of two processes, both then use whichever came first
    except FileExistsError:
        pass
    finally:
        draft.unlink()


class Invited(msgspec.Struct, frozen=True, kw_only=True):
    """An invitation as it is handed over, once."""

    id: str
    role: Role
    path: str
    """What the link ends with; the server's address comes before it."""
    code: str | None
    strata: dict[str, str]
    expires: str


class Visitor(msgspec.Struct, frozen=True, kw_only=True):
    """Who a request comes from."""

    participant: str
    role: Role
    session: str
    csrf: str
    consent: str | None


def invite(
    store: Store,
    keys: Keys,
    *,
    count: int = 1,
    role: Role = "annotator",
    strata: Mapping[str, str] | None = None,
    days: float = 30,
    crowd: bool = False,
) -> list[Invited]:
    """Make invitations: personal ones, or with `crowd` one link that everybody from a crowd platform uses."""
    if not 1 <= count <= 10_000:
        raise PalateError(f"make 1 to 10,000 invitations at a time; {count} were asked for")
    if not 0 < days <= 3650:
        raise PalateError(f"invitations expire after 1 to 3650 days; {days} was given")
    expires = (datetime.now(UTC) + timedelta(days=days)).isoformat(timespec="seconds")
    made = []
    with store.writing() as connection:
        for _ in range(count):
            id, secret = secrets.token_hex(6), secrets.token_urlsafe(18)
            code = None if crowd else "".join(secrets.choice(CODE_LETTERS) for _ in range(CODE_LENGTH))
            connection.execute(invitations.insert().values(
                id=id, role=role, kind="crowd" if crowd else "personal", secret=_hash(secret),
                code=keys.sign("code", code) if code else None, strata=msgspec.json.encode(strata or {}).decode(),
                created=now(), expires=expires,
            ))  # fmt: skip
            path = f"/j/{id}.{secret}.{keys.sign('invitation', id, secret, expires)[:32]}"
            shown = "-".join(code[i : i + 4] for i in range(0, CODE_LENGTH, 4)) if code else None
            made.append(Invited(id=id, role=role, path=path, code=shown, strata=dict(strata or {}), expires=expires))
    return made


def revoke(store: Store, invitation: str) -> bool:
    """Make an invitation and the sessions that began with it worthless."""
    with store.writing() as connection:
        known = invitations.c.id == invitation
        connection.execute(sessions.delete().where(sessions.c.invitation == invitation))
        return connection.execute(invitations.update().where(known).values(revoked=now())).rowcount == 1


def enter_by_link(store: Store, keys: Keys, token: str, outside: str | None = None) -> str:
    """The session that a link opens; `outside` is the person's id on a crowd platform."""
    id, _, rest = token.partition(".")
    secret, _, signature = rest.partition(".")
    with store.writing(alone=True) as connection:  # a link that is opened twice at once is one person
        row = connection.execute(select(invitations).where(invitations.c.id == _plain(id))).one_or_none()
        if (
            row is None
            or not hmac.compare_digest(row.secret, _hash(secret))
            or not hmac.compare_digest(
                signature.encode("utf-8", "replace"), keys.sign("invitation", id, secret, row.expires)[:32].encode()
            )
        ):
            raise RefusedError(
                "This link is not complete, or it was never given out. Copy the whole link and try again."
            )
        return _enter(store, connection, keys, row, outside)


def enter_by_code(store: Store, keys: Keys, code: str) -> str:
    """The session that a code opens. Spaces, dashes and small letters do not matter."""
    plain = "".join(letter for letter in code.upper() if letter in CODE_LETTERS)
    with store.writing(alone=True) as connection:
        hashed = keys.sign("code", plain)
        row = connection.execute(select(invitations).where(invitations.c.code == hashed)).one_or_none()
        if row is None:
            raise RefusedError("There is no such code. Look at the letters again.")
        return _enter(store, connection, keys, row, None)


def _enter(store: Store, connection: Connection, keys: Keys, row: Any, outside: str | None) -> str:
    if row.revoked is not None:
        raise RefusedError("This invitation is no longer valid. Ask the people who sent it for a new one.")
    if row.expires <= now():
        raise RefusedError("This invitation has expired. Ask the people who sent it for a new one.")
    participant = row.participant
    if row.kind == "crowd":
        outside = (outside or "").strip()
        # a link in which the platform put no id still holds its own placeholder: everybody would be the same person
        if not outside or len(outside) > 200 or _PLACEHOLDER.search(outside):
            raise RefusedError("This link came without your id. Go back to the platform and open the study from there.")
        participant = person_from_outside(store, connection, keys, "crowd", outside, row.strata)
    elif participant is None:
        participant = new_id("p")
        connection.execute(
            participants.insert().values(id=participant, role=row.role, strata=row.strata, invited=row.created)
        )
        connection.execute(invitations.update().where(invitations.c.id == row.id).values(participant=participant))
    token = secrets.token_urlsafe(32)
    last = (datetime.now(UTC) + timedelta(days=SESSION_DAYS)).isoformat(timespec="seconds")
    connection.execute(sessions.delete().where(sessions.c.expires <= now()))
    connection.execute(sessions.insert().values(
        id=_hash(token), participant=participant, invitation=row.id, expires=min(last, row.expires)
    ))  # fmt: skip
    return token


def person_from_outside(
    store: Store, connection: Connection, keys: Keys, where: str, outside: str, strata: str = "{}"
) -> str:
    """The pseudonym of somebody who is known elsewhere by another id, of which a keyed hash is kept."""
    hashed = keys.sign(where, outside)
    store.insert_new(
        connection, participants, id=new_id("p"), role="annotator", strata=strata, outside=hashed, invited=now()
    )
    known = select(participants.c.id).where(participants.c.outside == hashed)
    return str(connection.execute(known).scalar_one())


def visitor(store: Store, keys: Keys, token: str | None) -> Visitor | None:
    """Who a session's cookie belongs to; nobody if it ended, or if its invitation expired or was revoked."""
    if not token or len(token) > 200:
        return None
    id = _hash(token)
    with store.reading() as connection:
        row = connection.execute(
            select(participants.c.id, participants.c.role, participants.c.consent)
            .join(sessions, sessions.c.participant == participants.c.id)
            .join(invitations, invitations.c.id == sessions.c.invitation)
            .where((sessions.c.id == id) & (sessions.c.expires > now()) & invitations.c.revoked.is_(None))
        ).one_or_none()
    if row is None:
        return None
    return Visitor(participant=row.id, role=row.role, session=id, csrf=keys.sign("csrf", id), consent=row.consent)


def leave(store: Store, who: Visitor) -> None:
    """End a session."""
    with store.writing() as connection:
        connection.execute(sessions.delete().where(sessions.c.id == who.session))


class RateLimit:
    """So many a minute for each key, some at once; in memory alone."""

    MOST_KEYS = 50_000

    def __init__(self, per_minute: float, burst: int) -> None:
        self._rate, self._burst = per_minute / 60, burst
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def wait(self, key: str, taken: int = 1) -> int:
        """Take one or more; 0 where there was one left, otherwise the seconds to wait."""
        return self._ask(key, taken)

    def waiting(self, key: str) -> int:
        """The same without taking one."""
        return self._ask(key, 0)

    def _ask(self, key: str, taken: int) -> int:
        moment = time.monotonic()
        with self._lock:
            left, before = self._left.pop(key, (float(self._burst), moment))
            left = min(self._burst, left + (moment - before) * self._rate)
            allowed = left >= 1
            self._left[key] = (left - taken * allowed, moment)
            while len(self._left) > self.MOST_KEYS:
                self._left.popitem(last=False)
        return 0 if allowed else max(1, round((1 - left) / self._rate + 0.5))


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def _plain(text: str) -> str:
    """Ids are hexadecimal; PostgreSQL would stumble over some other characters."""
    return text if text.isalnum() and text.isascii() else ""
