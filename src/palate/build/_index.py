"""An index of a source on the disk, so that memory does not grow with the source.

The first pass keeps who wrote what when, without texts. Which questions, answers and earlier posts are needed is asked
of the index. A second pass keeps the texts of those. The index holds raw ids and is deleted when the selection is done.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from palate.build._entries import Entry, Progress, Source
from palate.build._plan import Plan
from palate.records import PalateError

BATCH = 10_000
CACHE_KIB = 65_536
READ, CHOSEN, COMPLETE = 1, 2, 3
"""What is done, as the file's user version: a step that was broken off begins again."""
CONTRADICTED = 2
"""Of an answer that is there more than once: marked as accepted in one row and not in another."""
_SCHEMA = """
CREATE TABLE questions (id TEXT PRIMARY KEY, user TEXT, date TEXT, accepted TEXT) WITHOUT ROWID;
CREATE TABLE answers (
    id TEXT PRIMARY KEY, question TEXT, user TEXT, date TEXT, score INTEGER, accepted INTEGER
) WITHOUT ROWID;
CREATE TABLE counts (step TEXT, why TEXT, number INTEGER, PRIMARY KEY (step, why));
"""
_INDEXES = """
CREATE INDEX answers_of ON answers (question);
CREATE INDEX asked_by ON questions (user, date);
CREATE INDEX answered_by ON answers (user, date);
"""
_CHOICE = """
DROP TABLE IF EXISTS passed; DROP TABLE IF EXISTS items; DROP TABLE IF EXISTS texts; DROP TABLE IF EXISTS history;
CREATE TABLE passed (id TEXT PRIMARY KEY, user TEXT, rank BLOB) WITHOUT ROWID;
CREATE TABLE items (id TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE history (user TEXT, id TEXT, date TEXT, PRIMARY KEY (user, id)) WITHOUT ROWID;
CREATE TABLE texts (id TEXT PRIMARY KEY, title TEXT, body TEXT, category TEXT) WITHOUT ROWID;
"""
_EARLIER = """
SELECT id, date FROM questions WHERE user = :user AND date < :date
UNION ALL SELECT id, date FROM answers WHERE user = :user AND date < :date
ORDER BY 2 DESC LIMIT :most
"""


class Question(NamedTuple):
    """A question as the index knows it."""

    id: str
    user: str | None
    date: str | None
    accepted: str | None


class Answer(NamedTuple):
    """An answer as the index knows it."""

    id: str
    user: str | None
    date: str | None
    score: int | None
    accepted: bool
    contradicted: bool = False


class Index:
    """The file while it is made and asked."""

    def __init__(self, file: Path) -> None:
        try:
            self._database = sqlite3.connect(file, isolation_level=None)
            if not self._is_read():
                self._database.close()
                file.unlink()
                self._database = sqlite3.connect(file, isolation_level=None)
                self._database.execute("PRAGMA journal_mode=OFF")  # a first pass that is broken off begins again
                self._database.executescript(_SCHEMA)
            for pragma in ("synchronous=OFF", f"cache_size=-{CACHE_KIB}", "temp_store=FILE"):
                self._database.execute(f"PRAGMA {pragma}")
        except sqlite3.DatabaseError as error:
            raise PalateError(
                f"cannot use {file}: {error}. Make room if the disk is full, and run it again."
            ) from error

    def _is_read(self) -> bool:
        """Whether an earlier call ended the first pass; a file that a full disk cut off is made again."""
        try:
            return self._state >= READ
        except sqlite3.DatabaseError:
            return False

    @property
    def _state(self) -> int:
        state: int = self._database.execute("PRAGMA user_version").fetchone()[0]
        return state

    def _reached(self, state: int) -> None:
        self._database.execute(f"PRAGMA user_version={state}")

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()

    def counts(self, step: str) -> dict[str, int]:
        """What a step counted, by reason."""
        rows = self._database.execute("SELECT why, number FROM counts WHERE step = ? ORDER BY why", (step,))
        return dict(rows)

    def _count(self, step: str, counts: Counter[str]) -> None:
        self._database.execute("DELETE FROM counts WHERE step = ?", (step,))
        self._database.executemany("INSERT INTO counts VALUES (?, ?, ?)", [(step, *pair) for pair in counts.items()])

    # The first pass.

    def read(self, source: Source, progress: Progress) -> None:
        """Keep who wrote what when."""
        if self._state >= READ:
            return
        left_out: Counter[str] = Counter()
        with self._collecting() as (questions, answers):
            came = Counter[str]()

            def take(entry: Entry) -> None:
                came["posts"] += 1
                if entry.parent is None:
                    questions((entry.id, entry.user, entry.date, entry.accepted_answer))
                else:
                    answers((entry.id, entry.parent, entry.user, entry.date, entry.score, int(entry.accepted)))

            source.read(take, left_out, progress)
        kept = sum(self._rows(table) for table in ("questions", "answers"))
        if came["posts"] > kept:
            left_out["posts that repeat an id"] = came["posts"] - kept
        self._database.executescript(_INDEXES)
        self._count("read", left_out + came)
        self._reached(READ)
        self._database.execute("PRAGMA journal_mode=DELETE")  # from here on a kill costs one step, and not the file

    def _rows(self, table: str) -> int:
        number: int = self._database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        return number

    @contextmanager
    def _collecting(self) -> Iterator[tuple[_Batch, _Batch]]:
        batches = (
            _Batch(self._database, "INSERT OR IGNORE INTO questions VALUES (?, ?, ?, ?)"),
            _Batch(
                self._database,
                "INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE "
                f"SET accepted = {CONTRADICTED} WHERE accepted != excluded.accepted",
            ),
        )
        self._database.execute("BEGIN")
        yield batches
        for batch in batches:
            batch.flush()
        self._database.execute("COMMIT")

    # Which questions.

    def choose(self, plan: Plan) -> None:
        """The questions that pass, as many as the plan asks for, drawn by its seed; and whose texts that takes."""
        if self._state >= CHOSEN:
            return
        self._database.executescript(_CHOICE)
        why: Counter[str] = Counter()
        select = plan.select
        real = plan.candidates.kind != "generated"
        self._database.execute("BEGIN")
        passed = _Batch(self._database, "INSERT INTO passed VALUES (?, ?, ?)")
        for question, answers in self._questions():
            reason = _unusable(question, answers, divergent=plan.candidates.kind == "divergent", real=real)
            if not reason and self._earlier(question, select.earlier_posts) < select.earlier_posts:
                reason = f"fewer than {select.earlier_posts} earlier posts of the asker"
            if reason:
                why[reason] += 1
            else:
                passed((question.id, question.user, _rank(plan.seed, question.id)))
        passed.flush()
        self._database.execute(
            "INSERT INTO items SELECT id FROM (SELECT id, rank, row_number() OVER (PARTITION BY user ORDER BY rank)"
            " AS place FROM passed) WHERE place <= ? ORDER BY rank LIMIT ?",
            (select.items_per_user or 1 << 60, select.items),
        )
        drawn = self._rows("passed") - self._rows("items")
        if drawn:
            why[f"not drawn (items = {select.items:,}, items_per_user = {select.items_per_user or 'any'})"] = drawn
        self._keep_history(select.most_posts)
        self._database.execute("COMMIT")
        self._count("choose", why)
        self._reached(CHOSEN)

    def _questions(self) -> Iterator[tuple[Question, list[Answer]]]:
        with closing(self._database.cursor()) as cursor:
            rows = cursor.execute(
                "SELECT q.id, q.user, q.date, q.accepted, a.id, a.user, a.date, a.score, a.accepted FROM questions q "
                "LEFT JOIN answers a ON a.question = q.id ORDER BY q.id, a.id"
            )
            for _, group in groupby(rows, key=itemgetter(0)):
                joined = list(group)
                yield (
                    Question(*joined[0][:4]),
                    [
                        Answer(row[4], row[5], row[6], row[7], bool(row[8]), row[8] == CONTRADICTED)
                        for row in joined
                        if row[4] is not None
                    ],
                )

    def _earlier(self, question: Question, most: int) -> int:
        if not most:
            return 0
        given = {"user": question.user, "date": question.date, "most": most}
        return len(self._database.execute(_EARLIER, given).fetchall())

    def _keep_history(self, most: int) -> None:
        """The latest posts before each item; posts of one user are kept once."""
        items = self._database.execute(
            "SELECT q.user, q.date FROM items i JOIN questions q ON q.id = i.id ORDER BY i.id"
        ).fetchall()
        for user, date in items:
            earlier = self._database.execute(_EARLIER, {"user": user, "date": date, "most": most}).fetchall()
            self._database.executemany(
                "INSERT OR IGNORE INTO history VALUES (?, ?, ?)", [(user, id, written) for id, written in earlier]
            )

    # The second pass.

    def read_texts(self, source: Source, progress: Progress) -> None:
        """Keep the texts that are needed."""
        if self._state >= COMPLETE:
            return
        wanted = {
            id
            for (id,) in self._database.execute(
                "SELECT id FROM items UNION SELECT id FROM history "
                "UNION SELECT a.id FROM items i JOIN answers a ON a.question = i.id"
            )
        }
        self._database.execute("BEGIN")
        keep = _Batch(self._database, "INSERT OR IGNORE INTO texts VALUES (?, ?, ?, ?)", size=500)

        def take(entry: Entry) -> None:
            if entry.id in wanted:
                keep((entry.id, entry.title.strip(), entry.text, entry.category))

        source.read(take, Counter(), progress)
        keep.flush()
        self._database.execute("COMMIT")
        self._reached(COMPLETE)

    # What is written down.

    def items(self) -> Iterator[tuple[Question, list[Answer]]]:
        """The questions that were chosen, by user and date."""
        rows = self._database.execute(
            "SELECT q.id, q.user, q.date, q.accepted FROM items i JOIN questions q ON q.id = i.id "
            "ORDER BY q.user, q.date, q.id"
        )
        for row in rows:
            question = Question(*row)
            answers = self._database.execute(
                "SELECT id, user, date, score, accepted FROM answers WHERE question = ? ORDER BY date, id",
                (question.id,),
            )
            yield question, [Answer(one[0], one[1], one[2], one[3], bool(one[4])) for one in answers]

    def history(self) -> Iterator[tuple[str, str, str]]:
        """User, post and date of what was written before."""
        yield from self._database.execute("SELECT user, id, date FROM history ORDER BY user, date, id")

    def text(self, id: str) -> tuple[str, str, str | None]:
        """Title, body and category of a post; empty where the second pass did not meet it."""
        row = self._database.execute("SELECT title, body, category FROM texts WHERE id = ?", (id,)).fetchone()
        return row or ("", "", None)


class _Batch:
    """Rows that are inserted many at a time."""

    def __init__(self, database: sqlite3.Connection, statement: str, size: int = BATCH) -> None:
        self._database, self._statement, self._size = database, statement, size
        self._rows: list[tuple[object, ...]] = []

    def __call__(self, row: tuple[object, ...]) -> None:
        self._rows.append(row)
        if len(self._rows) >= self._size:
            self.flush()

    def flush(self) -> None:
        """Insert what waits."""
        self._database.executemany(self._statement, self._rows)
        self._rows.clear()


def accepted_answer(question: Question, answers: list[Answer]) -> Answer | None:
    """The answer that the asker took, where exactly one is marked."""
    marked = [answer for answer in answers if answer.id == question.accepted or answer.accepted]
    return marked[0] if len(marked) == 1 else None


def others_of(question: Question, answers: list[Answer]) -> list[Answer]:
    """The answers that the asker left and did not write."""
    accepted = accepted_answer(question, answers)
    return [
        answer for answer in answers if answer is not accepted and (not answer.user or answer.user != question.user)
    ]


def diverges(accepted: int | None, others: list[int | None]) -> bool:
    """Whether the community gave another answer more votes than the one that the asker accepted.

    >>> diverges(3, [5, 1]), diverges(5, [5]), diverges(None, [1])
    (True, False, False)
    """
    return accepted is not None and any(score is not None and score > accepted for score in others)


def _unusable(question: Question, answers: list[Answer], *, divergent: bool, real: bool) -> str:
    """Why a question is left out; empty where it is not."""
    if question.user is None:
        return "questions without an owner"
    if not question.date:
        return "questions without a date"
    if not real:
        return ""
    if any(answer.contradicted for answer in answers):
        return "an answer is marked both as accepted and as not"
    accepted = accepted_answer(question, answers)
    if accepted is None:
        return "no answer is accepted"
    if accepted.user is not None and accepted.user == question.user:
        return "the asker accepted their own answer"
    others = others_of(question, answers)
    if not others:
        return "only one answer by others"
    if divergent and not diverges(accepted.score, [other.score for other in others]):
        return "the accepted answer has the most votes, or as many"
    return ""


def _rank(seed: int, id: str) -> bytes:
    """A place in a random order that depends on nothing but the seed and the question."""
    return hashlib.sha256(f"{seed}\0{id}".encode()).digest()[:8]


def remove_index(file: Path) -> None:
    """It holds raw ids and texts of everybody who was chosen."""
    with suppress(FileNotFoundError):
        file.unlink()
