"""Where a server is, and the secret it is asked with. The secret is read when needed and kept nowhere."""

from __future__ import annotations

import base64
import ipaddress
import json
import os
from urllib.parse import quote, urlsplit

from palate.records import PalateError

SHORTEST_SECRET = 8
"""What is shorter (`none`, `EMPTY`) is what local servers are given to please a client, and no secret."""


class Address:
    """A server's URL and the environment variable that holds its key.

    >>> Address("http://127.0.0.1:8000/v1/", "OPENAI_API_KEY").url
    'http://127.0.0.1:8000/v1'
    """

    def __init__(self, url: str, key_variable: str, *, needs_key: bool = False) -> None:
        parts = urlsplit(url.strip())
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise PalateError(f"{_bare(url)!r} is no address of a server: write http://HOST:PORT/v1 or https://HOST/v1")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise PalateError(
                f"the address {_bare(url)!r} must hold no password and no query; put the key in the environment "
                f"variable {key_variable}"
            )
        self.url = url.strip().rstrip("/")
        self.host = parts.hostname
        self.key_variable = key_variable
        self.needs_key = needs_key and not self.is_loopback

    @property
    def is_loopback(self) -> bool:
        """Whether the server is on this machine."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost" or self.host.endswith(".localhost")

    def headers(self) -> dict[str, str]:
        """What every request carries, the key included where there is one."""
        key = self._key()
        if not key and self.needs_key:
            raise PalateError(f"{self.host} wants a key: set the environment variable {self.key_variable}")
        if not all("!" <= character <= "~" for character in key):
            raise PalateError(f"the environment variable {self.key_variable} holds what no key has; copy the key again")
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        return headers | {"Authorization": f"Bearer {key}"} if key else headers

    def redact(self, text: str) -> str:
        """The text without the key, should the server have repeated it."""
        key = self._key()
        if len(key) < SHORTEST_SECRET:
            return text
        coded = base64.b64encode(key.encode()).decode()
        for form in (key, json.dumps(key)[1:-1], quote(key, safe=""), coded):
            text = text.replace(form, "[key]")
        return text

    def refused_key(self) -> str:
        """What to do about a server that does not take the key."""
        if self._key():
            return f"The key in {self.key_variable} is wrong, or has no access to this."
        return f"Set the environment variable {self.key_variable} to your key."

    def _key(self) -> str:
        return os.environ.get(self.key_variable, "").strip()


def _bare(url: str) -> str:
    """An address as an error may show it."""
    return url.rpartition("@")[2].partition("?")[0]
