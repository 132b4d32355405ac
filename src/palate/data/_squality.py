"""SQuALITY: what each of four people wrote in answer to the same question about a story."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import msgspec

from palate.data._cards import card_of
from palate.data._draft import BenchmarkDraft, draft_of
from palate.data._files import read_all
from palate.records import Benchmark, Completion, Post, User

_TITLE = re.compile(r"\s*(\S[^\n]{0,60}?)\s*\n\s*by\s", re.IGNORECASE)


class _Response(msgspec.Struct):
    worker: str
    text: str


class _Question(msgspec.Struct):
    q: str
    responses: list[_Response]


class _Story(msgspec.Struct):
    passage: str
    title: str
    questions: list[_Question]


def read_squality(folder: Path) -> BenchmarkDraft:
    """Every answer as a completion; a writer's posts are their answers, in the order of the file."""
    stories = read_all(folder / "responses.jsonl.gz", _Story, "squality")
    posts: dict[str, list[Post]] = defaultdict(list)
    completions: list[Completion] = []
    for story in stories:
        title = story_title(story.title)
        for number, question in enumerate(story.questions):
            prompt = f"{question.q}\nStory: {title}" if title else question.q
            for response in question.responses:
                id = f"{story.passage}:{number}:{response.worker}"
                sequence = len(posts[response.worker])
                text = f"{question.q}\n{response.text}"
                posts[response.worker].append(Post(id=id, text=text, sequence=sequence))
                completions.append(
                    Completion(
                        id=id,
                        user_id=response.worker,
                        prompt=prompt,
                        text=response.text,
                        alternatives=tuple(one.text for one in question.responses if one is not response),
                        group=story.passage,
                        sequence=sequence,
                    )
                )
    untitled = sum(story_title(story.title) is None for story in stories)
    card = card_of(
        "squality",
        "1.3",
        "Long answers to questions about stories; the stories themselves are not included.",
        f"{untitled} of {len(stories)} stories have no recognisable title, and their prompts name none",
    )
    users = {worker: User(id=worker, posts=tuple(own)) for worker, own in posts.items()}
    return draft_of(Benchmark(card=card, users=users, completions=tuple(completions)), "squality")


def story_title(opening: str) -> str | None:
    r"""The title of a story from its first characters, where a line "by ..." follows it.

    >>> story_title("THE RECRUIT\n \n\n BY BRYCE WALTON\n")
    'THE RECRUIT'
    """
    match = _TITLE.match(opening)
    return match[1] if match and not match[1].lower().startswith("produced by") else None
