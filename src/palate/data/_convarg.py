"""UKPConvArg1 and its crowd sample: which of two arguments is the more convincing, one vote a row."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from palate.data._cards import card_of
from palate.data._draft import BenchmarkDraft, Fault, draft_of, explain, refuse
from palate.data._exchange import comparison_of
from palate.data._files import read_records, read_rows
from palate.data._wire import normalise_date
from palate.records import Benchmark, Comparison, Judgement, User


class _Debate(msgspec.Struct):
    debate: str
    topic: str
    stance: str
    description: str | None = None

    def prompt(self) -> str:
        lines = ["Which argument is the more convincing?", f"Topic: {self.topic.strip()}"]
        lines += [self.description.strip()] if self.description and self.description.strip() else []
        return "\n\n".join([*lines, f"Stance: {self.stance.strip()}"])


class _Argument(msgspec.Struct):
    debate: str
    arg: str
    text: str


class _Vote(msgspec.Struct):
    worker: str
    debate: str
    arg1: str
    arg2: str
    vote: Literal["1", "-1", "0"]
    reason: str | None = None
    time: str | None = None


class Vote(msgspec.Struct, frozen=True, kw_only=True):
    """One vote as it was cast, ties too, which a benchmark of comparisons leaves out."""

    id: str
    """That of the comparison, where the vote is one."""
    voter: str
    side: str
    prompt: str
    responses: tuple[str, str]
    choice: int
    """1 for the first, -1 for the second, 0 for equally convincing."""


class _Tally(msgspec.Struct):
    equal: int = 0
    same_text: int = 0
    below: int = 0


def read_convarg(folder: Path, *, votes: str, name: str, least: int = 0) -> BenchmarkDraft:
    """Strict votes as comparisons; each voter's history is their votes, dated or in file order."""
    faults: list[Fault] = []
    prompts, texts = _debates(folder, faults)
    voters: dict[str, list[Judgement]] = defaultdict(list)
    about: dict[str, _Vote] = {}
    tally = _Tally()
    for number, vote in enumerate(_votes(folder / votes, faults)):
        responses = texts[vote.debate, vote.arg1], texts[vote.debate, vote.arg2]
        if vote.vote == "0":
            tally.equal += 1
        elif responses[0] == responses[1]:
            tally.same_text += 1
        else:
            judgement = _judgement(vote, prompts[vote.debate], responses, number)
            assert judgement.id is not None
            about[judgement.id] = vote
            voters[vote.worker].append(judgement)
    refuse(faults, name)
    kept = {worker: choices for worker, choices in voters.items() if len(choices) >= least}
    tally.below = len(voters) - len(kept)
    return draft_of(_benchmark(name, kept, about, tally, least), name)


def read_votes(folder: Path, *, votes: str) -> list[Vote]:
    """All votes in the file's order."""
    faults: list[Fault] = []
    prompts, texts = _debates(folder, faults)
    cast = [
        Vote(
            id=_id(vote),
            voter=vote.worker,
            side=vote.debate,
            prompt=prompts[vote.debate],
            responses=(texts[vote.debate, vote.arg1], texts[vote.debate, vote.arg2]),
            choice=int(vote.vote),
        )
        for vote in _votes(folder / votes, faults)
    ]
    refuse(faults, votes)
    return cast


def _debates(folder: Path, faults: list[Fault]) -> tuple[dict[str, str], dict[tuple[str, str], str]]:
    """The prompt of each debate side, and the text of each of its arguments."""
    debates = read_records(folder / "debates.jsonl.gz", _Debate, faults)
    arguments = read_records(folder / "arguments.jsonl.gz", _Argument, faults)
    prompts = {one.debate: one.prompt() for one, _ in debates}
    return prompts, {(one.debate, one.arg): one.text for one, _ in arguments}


def _id(vote: _Vote) -> str:
    return f"{vote.worker}:{vote.debate}:{vote.arg1}:{vote.arg2}"


def _votes(path: Path, faults: list[Fault]) -> Iterator[_Vote]:
    for row, place in read_rows(path, faults):
        try:
            yield msgspec.convert(row, _Vote)
        except msgspec.ValidationError as problem:
            faults.append(explain(problem, place))


def _judgement(vote: _Vote, prompt: str, responses: tuple[str, str], number: int) -> Judgement:
    return Judgement(
        prompt=prompt,
        responses=responses,
        preferred=0 if vote.vote == "1" else 1,
        reason=vote.reason or None,
        id=_id(vote),
        date=normalise_date(vote.time.removesuffix(" UTC")) if vote.time else None,
        sequence=None if vote.time else number,
    )


def _benchmark(
    name: str,
    voters: dict[str, list[Judgement]],
    about: dict[str, _Vote],
    tally: _Tally,
    least: int,
) -> Benchmark:
    comparisons: list[Comparison] = []
    for worker, choices in voters.items():
        for judgement in choices:
            comparison = comparison_of(judgement, worker)
            vote = about[comparison.id]
            comparisons.append(
                msgspec.structs.replace(
                    comparison,
                    category=vote.debate,
                    group=":".join([vote.debate, *sorted((vote.arg1, vote.arg2))]),
                )
            )
    users = {worker: User(id=worker, judgements=tuple(choices)) for worker, choices in voters.items()}
    notes = [
        f"votes for equally convincing, left out: {tally.equal}",
        f"votes on two arguments with the same text, left out: {tally.same_text}",
        "the stance that voters gave is not read; it is about one debate, and voters contradict themselves",
    ]
    if least:
        notes.append(f"voters with fewer than {least} strict votes, left out: {tally.below}")
    description = "Votes of strict preference between two arguments on the same side of a debate."
    return Benchmark(card=card_of(name, "1.0", description, *notes), users=users, comparisons=tuple(comparisons))
