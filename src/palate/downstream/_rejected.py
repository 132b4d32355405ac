"""Texts that stand against a user's own where nobody else answered the same prompt: a policy writes them."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from palate.data import pairs_from_completions
from palate.downstream._policy import Drawing, open_policy
from palate.downstream._samples import SampleLine, SampleSet, SampleSettings
from palate.engine import LanguageModel
from palate.records import Benchmark, Completion, PalateError
from palate.runs import Progress, sample_items
from palate.views import ViewBuilder, resolve_views

_ANNOUNCED = re.compile(
    r"(?:(?:here(?: is|'s)|sure|certainly)\b[^\n:]*:\s*)?"
    r"(?:[^\w\n]*(?:the |its |a )?(?:title|answer)(?: (?:of|for) (?:the|this) (?:paper|abstract))?"
    r"\s*(?::|\b(?:is|would be|could be)\b:?)\W*?(?=[\w\"“'‘*«`])"
    r"|[^\n\"“]*\b(?:title|titled|entitled)\b:?\s*(?=[\"“][^\n\"”]*[\"”]\.?\s*$))?",
    re.IGNORECASE,
)
"""`Here is the title: ...`, `Title: ...`, `The title of the paper is ...`, `The abstract has the title "..."`."""
_WRAPPING = {'"': '"', "“": "”", "'": "'", "‘": "’", "*": "*", "«": "»", "`": "`"}


def pairs_against_policy(
    benchmark: Benchmark,
    policy: str | LanguageModel,
    *,
    drawing: Drawing | None = None,
    limit: int | None = None,
    seed: int = 0,
    out: str | Path = "runs",
    progress: Progress | None = None,
) -> Benchmark:
    """The benchmark's completions as pairs with what the policy writes for the same prompt, seeing nothing of the user.

    What is drawn is kept under `samples` in the folder of runs, so that the same call resumes.
    """
    drawing = drawing or Drawing(samples=8, temperature=0.7)
    drawing.check()
    if limit is not None and limit < 1:
        raise PalateError(f"the limit is a number of items from 1; {limit} was given")
    items = sample_items([item for item in benchmark.completions if item.text], limit, seed)
    if not items:
        raise PalateError(f"{benchmark.card.name} has no completion with a text of the user's own to make a pair of")
    model, [nothing] = open_policy(policy, drawing), resolve_views(["none"])
    samples = SampleSet(
        Path(out),
        SampleSettings(
            benchmark=benchmark.card,
            content_hash=benchmark.content_hash,
            policy=model.name,
            policy_fingerprint=model.fingerprint,
            view=nothing,
            drawing=drawing,
            seed=seed,
        ),
    )
    report = progress or (lambda what, done, total: None)
    own = {item.id: item for item in items}
    texts: dict[str, list[str]] = {}
    report(f"{model.name} writes", 0, len(items))
    for lines in samples.draw(model, ViewBuilder(benchmark), items):
        texts |= {line.item: bare_texts(line, own[line.item]) for line in lines}
        report(f"{model.name} writes", len(texts), len(items))
    made = pairs_from_completions(benchmark, texts, items=items)
    sampled = f"rejected texts: {drawing.samples} samples of {model.name} a prompt, temperature {drawing.temperature:g}"
    if limit is not None and limit < len(benchmark.completions):
        sampled += f"; {len(items)} of {len(benchmark.completions)} completions, drawn by seed {seed}"
    return msgspec.structs.replace(made, card=msgspec.structs.replace(made.card, notes=(*made.card.notes, sampled)))


def bare_texts(line: SampleLine, item: Completion) -> list[str]:
    """The samples without what would give them away for nothing: words of announcement, quotation marks, a torn end.

    Where the user's own text is one line, only the first line of a sample counts.
    """
    one_line = "\n" not in (item.text or "").strip()
    texts = []
    for index, text in enumerate(line.texts):
        bare = _unannounced(text)
        first, ended, _ = bare.partition("\n")
        whole = index not in line.unfinished or (one_line and bool(ended))
        texts += [_unwrapped(first if one_line else bare)] if whole else []
    return texts


def _unannounced(text: str) -> str:
    """Without the words that announce it.

    >>> _unannounced("Here is a title for this abstract:\\n\\n**Title:** Paper Cups and What They Hold")
    'Paper Cups and What They Hold'
    >>> _unannounced("The paper presents a cup.")
    'The paper presents a cup.'
    """
    stripped = text.strip()
    opening = _ANNOUNCED.match(stripped)
    return stripped[opening.end() if opening else 0 :].removeprefix("**").strip()


def _unwrapped(text: str) -> str:
    """Without the quotation marks around it.

    >>> _unwrapped('"Tea at Noon: A Study."'), _unwrapped("'Tea' and 'noon'")
    ('Tea at Noon: A Study', "'Tea' and 'noon'")
    """
    inner = text.strip().removesuffix(".")
    mark = _WRAPPING.get(inner[:1])
    if mark is None or len(inner) < 3 or not inner.endswith(mark) or mark in inner[1:-1]:
        return text.strip()
    return inner[1:-1].strip().removesuffix(".")
