"""A benchmark with its ids replaced by pseudonyms, or its texts without direct identifiers."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec
import platformdirs

from palate.records import (
    Aspect,
    Benchmark,
    Comparison,
    Completion,
    Judgement,
    PalateError,
    Post,
    Privileged,
    User,
    new_file,
)

Item = TypeVar("Item", Comparison, Completion)
Write = Callable[[str], str]
_PEOPLE = r"u|user|users|profile|profiles|people|person|in|member|members|author|authors|channel|c"
_NETWORKS = r"twitter|x|facebook|instagram|github|gitlab|linkedin|tiktok|threads|medium|bsky|reddit|t"
_LINK_TO_A_PERSON = re.compile(
    rf"(?:https?://|www\.)(?:[^\s/@]+@[^\s]+"
    rf"|[^\s/]+/(?:[^\s]*/)?(?:(?:{_PEOPLE})/|[@~])[^\s/]+[^\s]*"
    rf"|(?:www\.)?(?:{_NETWORKS})\.(?:com|me|app|org|net|social)/[^\s/]+[^\s]*"
    r"|[^\s]*[?&](?:user|username|user_id|uid|author)=[^\s]*)",
    re.IGNORECASE,
)
_EMAIL = re.compile(r"[\w.+%-]+@[\w-]+(?:\.[\w-]+)+")
_HANDLE = re.compile(r"(?<![\w@./])@[A-Za-z_][\w.]{1,30}(?<!\.)")
_TELEPHONE = re.compile(r"(?<![\w.,-])(?:\+|\(?0|\(\d|\d{2,4}[\s.-])[\d\s().-]{6,18}\d(?![\w-]|[.,]\d)")
_DATE = re.compile(r"(?:1[5-9]|20)\d\d-\d\d-\d\d")
FEWEST_DIGITS, MOST_DIGITS = 9, 15
"""Of a telephone number with its area; shorter ones look like years, prices and measures."""
KEY_VARIABLE = "PALATE_PSEUDONYM_KEY"
SHORTEST_KEY = 16
DIGITS = 20
"""Hexadecimal digits of a pseudonym: 80 bits, so that no two ids of a million meet."""
_PSEUDONYM = re.compile(r"u-[0-9a-f]{20}|p-[0-9a-f]{16}")
"""Of `pseudonymise`, and the random ids that people have in a collection."""
_TOKEN = re.compile(r"[^\s,;:!?()\[\]{}\"'<>|/\\=&#]+")
_PIECES = re.compile(r"([@._~*`-])")
_UNLIKE_A_WORD = re.compile(r"[\d_@.\-]")
MOST_PIECES = 40


def _same(text: str) -> str:
    return text


@dataclass(frozen=True)
class Rewriter:
    """How texts, ids of users and all other ids are written; what is not said stays as it is."""

    text: Write
    user_id: Write = _same
    item_id: Write = _same
    evidence: Write | None = None
    """Of an aspect: a text, or the ids of posts."""

    def benchmark(self, benchmark: Benchmark) -> Benchmark:
        """The whole benchmark; the card stays."""
        users = [self._user(user) for user in benchmark.users.values()]
        return Benchmark(
            card=benchmark.card,
            users={user.id: user for user in users},
            comparisons=tuple(self._comparison(item) for item in benchmark.comparisons),
            completions=tuple(self._completion(item) for item in benchmark.completions),
        )

    def _optional(self, text: str | None) -> str | None:
        return None if text is None else self.text(text)

    def _texts(self, texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(self.text, texts))

    def _user(self, user: User) -> User:
        return User(
            id=self.user_id(user.id),
            demographics={
                name: self.text(value) if isinstance(value, str) else list(map(self.text, value))
                for name, value in user.demographics.items()
            },
            values=self._texts(user.values),
            posts=tuple(self._post(post) for post in user.posts),
            judgements=tuple(self._judgement(one) for one in user.judgements),
        )

    def _post(self, post: Post) -> Post:
        return msgspec.structs.replace(
            post, id=self.item_id(post.id), text=self.text(post.text), category=self._optional(post.category)
        )

    def _judgement(self, judgement: Judgement) -> Judgement:
        return msgspec.structs.replace(
            judgement,
            id=None if judgement.id is None else self.item_id(judgement.id),
            prompt=self.text(judgement.prompt),
            responses=self._texts(judgement.responses),
            reason=self._optional(judgement.reason),
            values=self._texts(judgement.values),
        )

    def _comparison(self, item: Comparison) -> Comparison:
        twin = None if item.twin is None else self.item_id(item.twin)
        return msgspec.structs.replace(
            self._item(item),
            responses=self._texts(item.responses),
            twin=twin,
            difficulty=self._optional(item.difficulty),
        )

    def _completion(self, item: Completion) -> Completion:
        return msgspec.structs.replace(
            self._item(item), text=self._optional(item.text), alternatives=self._texts(item.alternatives)
        )

    def _item(self, item: Item) -> Item:
        return msgspec.structs.replace(
            item,
            id=self.item_id(item.id),
            user_id=self.user_id(item.user_id),
            prompt=self.text(item.prompt),
            category=self._optional(item.category),
            group=None if item.group is None else self.item_id(item.group),
            privileged=self._privileged(item.privileged),
        )

    def _privileged(self, privileged: Privileged) -> Privileged:
        evidence = self.evidence or self.text
        aspects = tuple(
            Aspect(
                aspect=self.text(one.aspect),
                reason=self._optional(one.reason),
                evidence=None if one.evidence is None else evidence(one.evidence),
            )
            for one in privileged.aspects
        )
        return Privileged(narrative=self._optional(privileged.narrative), aspects=aspects)


def scrub(benchmark: Benchmark) -> Benchmark:
    """The benchmark with placeholders for direct identifiers in its texts; the card's notes count them.

    The same text becomes the same text everywhere. What people are called and where they live is not found.
    """
    new, counts = _scrubbed(benchmark)
    found = ", ".join(f"{counts[kind]} {kind}" for kind in ("email", "link", "handle", "telephone"))
    note = f"direct identifiers in distinct texts, replaced by placeholders: {found}"
    card = msgspec.structs.replace(benchmark.card, notes=(*benchmark.card.notes, note))
    return msgspec.structs.replace(new, card=card)


def direct_identifiers(benchmark: Benchmark) -> Counter[str]:
    """How often distinct texts hold what `scrub` would replace, by kind."""
    return _scrubbed(benchmark)[1]


def _scrubbed(benchmark: Benchmark) -> tuple[Benchmark, Counter[str]]:
    counts: Counter[str] = Counter()
    written: dict[str, str] = {}

    def text(one: str) -> str:
        if one not in written:
            written[one] = scrub_text(one, counts)
        return written[one]

    return Rewriter(text).benchmark(benchmark), counts


def is_pseudonym(id: str) -> bool:
    """Whether the id of a user has the form of a pseudonym that palate makes.

    >>> is_pseudonym("u-01a2505697ece5c0f160"), is_pseudonym("ann")
    (True, False)
    """
    return _PSEUDONYM.fullmatch(id) is not None


def scrub_text(text: str, counts: Counter[str] | None = None) -> str:
    """One text without its direct identifiers.

    >>> scrub_text("Mail ann@example.org or call +44 20 7946 0958; I am @ann_of_kent.")
    'Mail [email] or call [telephone]; I am [handle].'
    >>> scrub_text("From 2019-05-14 to 2020, 1,000,000 people read https://example.org/news")
    'From 2019-05-14 to 2020, 1,000,000 people read https://example.org/news'
    """
    counts = Counter() if counts is None else counts

    def put(kind: str, pattern: re.Pattern[str], text: str) -> str:
        def placeholder(match: re.Match[str]) -> str:
            if kind == "telephone" and not _is_telephone(match.group()):
                return match.group()
            counts[kind] += 1
            return f"[{kind}]"

        return pattern.sub(placeholder, text)

    patterns = {"link": _LINK_TO_A_PERSON, "email": _EMAIL, "handle": _HANDLE, "telephone": _TELEPHONE}
    for kind, pattern in patterns.items():
        text = put(kind, pattern, text)
    return text


def _is_telephone(match: str) -> bool:
    digits = sum(one.isdigit() for one in match)
    return FEWEST_DIGITS <= digits <= MOST_DIGITS and not _DATE.search(match)


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
    try:
        with new_file(draft, 0o600) as stream:
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
