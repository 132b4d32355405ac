"""Pseudonyms: every id of a benchmark replaced by a keyed hash, which only the holder of the key can make again."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from contextlib import suppress
from pathlib import Path

import msgspec
import platformdirs

from palate.data._rewrite import Rewriter
from palate.records import Benchmark, PalateError

KEY_VARIABLE = "PALATE_PSEUDONYM_KEY"
SHORTEST_KEY = 16
DIGITS = 20
"""Hexadecimal digits of a pseudonym: 80 bits, so that no two ids of a million meet."""
_TOKEN = re.compile(r"[^\s,;:!?()\[\]{}\"'<>|/\\=&#]+")
_PIECES = re.compile(r"([@._~*`-])")
_UNLIKE_A_WORD = re.compile(r"[\d_@.\-]")
MOST_PIECES = 40


def key_file() -> Path:
    """Where the key lies when the environment does not give one."""
    return Path(platformdirs.user_config_dir("palate")) / "pseudonym.key"


def pseudonym_key() -> bytes:
    """The secret key: from the environment, else from the owner's key file, which is made when first needed."""
    given = os.environ.get(KEY_VARIABLE)
    if given is None:
        return _kept_key(key_file())
    if len(given) < SHORTEST_KEY:
        raise PalateError(
            f"{KEY_VARIABLE} has {len(given)} characters; a key needs {SHORTEST_KEY} or more, or it can be guessed"
        )
    return given.encode("utf-8", "surrogateescape")


def _kept_key(file: Path) -> bytes:
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not file.exists():
            _make_key(file)
        if os.name == "posix" and file.stat().st_mode & 0o077:
            raise PalateError(f"others can read the key {file}: chmod 600 {file}, or move it away to get a new one")
        key = file.read_bytes().strip()
    except OSError as error:
        raise PalateError(
            f"the key file {file} cannot be used: {error.strerror or error}. Set {KEY_VARIABLE} instead."
        ) from error
    if len(key) < SHORTEST_KEY:
        raise PalateError(f"the key in {file} is damaged: it has {len(key)} characters. Put the old one back.")
    return key


def _make_key(file: Path) -> None:
    """Write the whole key under another name first: of two processes, both then use whichever came first."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(secrets.token_hex(32).encode() + b"\n")
        with suppress(FileExistsError):
            file.hardlink_to(draft)
    finally:
        draft.unlink(missing_ok=True)


class Pseudonyms:
    """HMAC-SHA256 under one key: the same id has the same pseudonym, and no pseudonym tells its id.

    >>> Pseudonyms(b"not a secret at all").user("ann")
    'u-...'
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def user(self, id: str) -> str:
        """The pseudonym of a user."""
        return f"u-{self.digest('user', id)}"

    def item(self, id: str) -> str:
        """The pseudonym of an item, post, judgement or group: one may be named after the other, and stays so."""
        return f"i-{self.digest('item', id)}"

    def digest(self, kind: str, text: str) -> str:
        """The keyed hash of a text of some kind."""
        message = f"{kind}\x00{text}".encode("utf-8", "surrogatepass")
        return hmac.new(self._key, message, hashlib.sha256).hexdigest()[:DIGITS]


def pseudonymise(benchmark: Benchmark, pseudonyms: Pseudonyms) -> Benchmark:
    """The benchmark without any id of the original; the card's notes say what was done.

    Ids of items, posts and groups are replaced whole, since many are made from the user's. Where a text names a
    user by an id that is unlike a word, the pseudonym stands there too. Users and items are put into the order of
    the pseudonyms, since the old order might tell who is who; the order of one user's items stays.
    """
    mentions = _Mentions(benchmark, pseudonyms)
    rewriter = Rewriter(mentions.text, pseudonyms.user, pseudonyms.item, mentions.evidence)
    new = rewriter.benchmark(benchmark)
    notes = (*map(mentions.text, benchmark.card.notes), mentions.note)
    card = msgspec.structs.replace(
        benchmark.card,
        name=mentions.text(benchmark.card.name),
        title=mentions.text(benchmark.card.title),
        source=mentions.text(benchmark.card.source),
        description=mentions.text(benchmark.card.description),
        notes=notes,
    )
    return Benchmark(
        card=card,
        users=dict(sorted(new.users.items())),
        comparisons=tuple(sorted(new.comparisons, key=lambda item: item.user_id)),
        completions=tuple(sorted(new.completions, key=lambda item: item.user_id)),
    )


class _Mentions:
    """Finds ids inside texts."""

    def __init__(self, benchmark: Benchmark, pseudonyms: Pseudonyms) -> None:
        people = benchmark.users.values()
        self._posts = {post.id: pseudonyms.item(post.id) for user in people for post in user.posts}
        every = dict(self._posts)
        every |= {item.id: pseudonyms.item(item.id) for item in benchmark.comparisons}
        every |= {item.id: pseudonyms.item(item.id) for item in benchmark.completions}
        every |= {id: pseudonyms.user(id) for id in benchmark.users}
        self._known = {id: new for id, new in every.items() if len(id) > 3 and _UNLIKE_A_WORD.search(id)}
        odd = sorted((id for id in self._known.keys() & benchmark.users.keys() if not _TOKEN.fullmatch(id)), key=len)[
            ::-1
        ]
        self._odd = re.compile("|".join(map(re.escape, odd))) if odd else None
        self._words = benchmark.users.keys() - self._known.keys()
        self._written: dict[str, str] = {}
        self._changed = self._left = 0

    @property
    def note(self) -> str:
        """What was done, for the card."""
        return (
            "ids are pseudonyms (HMAC-SHA256 under a key that is not here); "
            f"texts in which ids were replaced: {self._changed}; "
            f"words in texts that are also a user's id, left as they were: {self._left}"
        )

    def text(self, text: str) -> str:
        """A text in which whoever and whatever is named by id has a pseudonym."""
        if text not in self._written:
            new = self._odd.sub(lambda match: self._known[match.group()], text) if self._odd else text
            new = _TOKEN.sub(lambda match: self._token(match.group(), self._known), new)
            self._changed += new != text
            self._written[text] = new
        return self._written[text]

    def evidence(self, evidence: str) -> str:
        """Evidence names posts, and their ids may be as short as `p1`."""
        return self.text(_TOKEN.sub(lambda match: self._posts.get(match.group(), match.group()), evidence))

    def _token(self, word: str, known: dict[str, str]) -> str:
        """A word in which the longest runs of pieces that are ids are replaced: `ann_01` in `@ann_01.` is one."""
        self._left += word.strip(".") in self._words
        pieces = _PIECES.split(word)
        if len(pieces) == 1:
            return known.get(word, word)
        if len(pieces) > MOST_PIECES:
            return word
        for length in range(len(pieces), 0, -1):
            for start in range(len(pieces) - length + 1):
                found = "".join(pieces[start : start + length])
                if found in known:
                    before, after = "".join(pieces[:start]), "".join(pieces[start + length :])
                    return self._token(before, known) + known[found] + self._token(after, known)
        return word
