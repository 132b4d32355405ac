"""Who may ask: tokens, and the users that each may name."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import tomllib
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

import msgspec

from palate.records import PalateError

TOKEN_VARIABLE = "PALATE_SERVE_TOKEN"
SHORTEST_TOKEN = 16
KEYS = ("name", "sha256", "users")
EXAMPLE = 'a [[token]] has name = "...", sha256 = "..." and users = ["...", "..."] or users = "*"'


class Grant(msgspec.Struct, frozen=True):
    """What the holder of a token may do. The token itself is kept nowhere, only its SHA-256."""

    name: str
    digest: bytes
    users: frozenset[str] | None
    """Those who may be named; None: everybody."""

    def may_name(self, user_id: str | None) -> bool:
        """Whether asks may be about this user; those about nobody always may."""
        return user_id is None or self.users is None or user_id in self.users


EVERYBODY = Grant("everybody", b"", None)
"""Without a token, on loopback."""


def environment_grant(token: str) -> Grant:
    """What the token in the environment allows: everything."""
    if len(token) < SHORTEST_TOKEN or not all("!" <= character <= "~" for character in token):
        raise PalateError(f"{TOKEN_VARIABLE} has to hold {SHORTEST_TOKEN} plain characters or more")
    return Grant(TOKEN_VARIABLE, hashlib.sha256(token.encode()).digest(), None)


def matching_grant(authorization: str, grants: Sequence[Grant]) -> Grant | None:
    """The grant of a bearer token, or of a token as the password of an address: some trainers take an address only.

    Every grant is compared, in constant time, so that the time tells nothing about any of them.
    """
    kind, _, value = authorization.partition(" ")
    secret = value.strip().encode("latin-1")
    if kind.lower() == "basic":
        try:
            secret = base64.b64decode(secret, validate=True).partition(b":")[2]
        except binascii.Error:
            return None
    elif kind.lower() != "bearer":
        return None
    digest = hashlib.sha256(secret).digest()
    matches = [grant for grant in grants if hmac.compare_digest(grant.digest, digest)]
    return matches[0] if matches else None


def read_grants(file: Path) -> list[Grant]:
    """The tokens of a TOML file, with all its faults at once.

    [[token]]
    name = "kitchen"
    sha256 = "6b3a55e0261b0304143f805a24924d0c1c44524821305f31d9277843b8a10f4e"
    users = ["ann", "ben"]  # or "*" for everybody
    """
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise PalateError(f"--token-file {file} cannot be read: {error}") from error
    tokens = content.get("token")
    others = sorted(content.keys() - {"token"})
    if not isinstance(tokens, list) or not tokens or others:
        what = f"unknown: {', '.join(others)}; " if others else ""
        raise PalateError(f"--token-file {file}: {what}{EXAMPLE}")
    grants: list[Grant] = []
    faults: list[str] = []
    for number, token in enumerate(tokens, 1):
        wrong = _faults(token, grants)
        faults += [f"token {number}: {why}" for why in wrong]
        if not wrong:
            users = None if token["users"] == "*" else frozenset(token["users"])
            grants.append(Grant(token["name"], bytes.fromhex(token["sha256"]), users))
    if faults:
        raise PalateError("\n".join([f"--token-file {file} cannot be used:", *faults, EXAMPLE]))
    return grants


def _faults(token: object, earlier: Sequence[Grant]) -> list[str]:
    if not isinstance(token, dict):
        return ["it is not a table"]
    faults = []
    for key in sorted(token.keys() - set(KEYS)):
        near = get_close_matches(key, KEYS, 1)
        advice = f"; did you mean {near[0]}?" if near else ""
        if key == "token":
            advice = ": keep the token to yourself and put its SHA-256 here, printf %s TOKEN | sha256sum"
        faults.append(f"unknown key {key!r}{advice}")
    name, digest, users = (token.get(key) for key in KEYS)
    if not isinstance(name, str) or not name:
        faults.append("name is a text")
    elif any(grant.name == name for grant in earlier):
        faults.append(f"another token has the name {name!r}")
    if not isinstance(digest, str) or not re.fullmatch("[0-9a-fA-F]{64}", digest):
        faults.append("sha256 is 64 hexadecimal digits: printf %s TOKEN | sha256sum")
    elif digest.lower() == hashlib.sha256(b"").hexdigest():
        faults.append("sha256 is that of an empty text")
    elif any(grant.digest == bytes.fromhex(digest) for grant in earlier):
        faults.append("another token has this sha256")
    if users != "*" and not (isinstance(users, list) and users and all(isinstance(user, str) for user in users)):
        faults.append('users is a list of ids, or "*" for everybody')
    return faults
