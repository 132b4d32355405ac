"""ACL titles: the title that an author gave to the paper with this abstract."""

from __future__ import annotations

from pathlib import Path

import msgspec

from palate.data._cards import card_of
from palate.data._draft import BenchmarkDraft, draft_of
from palate.data._files import read_all
from palate.records import Benchmark, Completion, Post, User


class _Paper(msgspec.Struct):
    id: str
    year: int
    title: str
    abstract: str


class _Author(msgspec.Struct):
    user_id: str
    papers: list[_Paper]


def read_acl_titles(folder: Path) -> BenchmarkDraft:
    """Every paper as a completion; an author's posts are their papers, dated by year."""
    users: dict[str, User] = {}
    completions: list[Completion] = []
    for author in read_all(folder / "authors.jsonl.gz", _Author, "acl-titles"):
        papers = author.papers
        posts = [Post(id=one.id, text=f"{one.title}\n{one.abstract}", date=f"{one.year:04d}") for one in papers]
        users[author.user_id] = User(id=author.user_id, posts=tuple(posts))
        completions += [
            Completion(
                id=paper.id,
                user_id=author.user_id,
                # The task comes last: small models that read it first go on with the abstract instead.
                prompt=f"Here is the abstract of a paper:\n\n{paper.abstract}\n\n"
                "What is its title? Answer with the title only.",
                text=paper.title,
                date=f"{paper.year:04d}",
            )
            for paper in papers
        ]
    card = card_of(
        "acl-titles",
        "1.0",
        "Papers of one first author. Only the year is known, so a view holds the papers of earlier years.",
    )
    return draft_of(Benchmark(card=card, users=users, completions=tuple(completions)), "acl-titles")
