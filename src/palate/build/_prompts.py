"""The words in which language models are asked. Each is a file that a plan can replace with its own."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from string import Template

from palate.build._plan import PROMPTS, Plan
from palate.engine import Sampling, Turn, WriteRequest
from palate.records import Aspect, PalateError

NEEDED: dict[str, tuple[str, ...]] = {
    "personal": ("question",),
    "rubric": ("question", "history"),
    "serves": ("question", "aspects", "words"),
    "violates": ("question", "aspects", "words"),
    "avoid": ("question", "aspects", "words"),
    "ignores": ("question", "words"),
    "grade": ("question", "first", "second"),
    "judge": ("question", "first", "second"),
    "judge-with-rubric": ("question", "first", "second", "aspects"),
}
"""What a prompt has to hold, written `$question`."""
KNOWN = frozenset(word for words in NEEDED.values() for word in words) | {"narrative"}


def read_prompts(plan: Plan, folder: Path) -> dict[str, str]:
    """Every prompt by name: the plan's own file, or the built-in one."""
    built_in = resources.files("palate.build").joinpath("prompts")
    prompts = {name: built_in.joinpath(f"{name}.txt").read_text(encoding="utf-8") for name in PROMPTS}
    for name, file in plan.prompts.items():
        try:
            prompts[name] = (folder / file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise PalateError(f"the prompt {folder / file} cannot be read: {error}") from error
        template = Template(prompts[name])
        if not template.is_valid():
            raise PalateError(f"{folder / file}: write a dollar sign as $$; $ begins the name of what is filled in")
        there = set(template.get_identifiers())
        lacking = [word for word in NEEDED[name] if word not in there]
        unknown = sorted(there - KNOWN)
        if lacking or unknown:
            wrong = f"it has no ${lacking[0]}" if lacking else f"nothing is known by the name ${unknown[0]}"
            raise PalateError(f"{folder / file}: {wrong}. The prompt {name!r} needs ${', $'.join(NEEDED[name])}.")
    return prompts


def fill(prompt: str, **words: str) -> str:
    """The prompt with what belongs in it; nothing in the texts themselves is filled in.

    >>> fill("Ask $question", question="about $words")
    'Ask about $words'
    """
    return Template(prompt).substitute(words).strip()


def request(text: str, sampling: Sampling) -> WriteRequest:
    """One question to a language model."""
    return WriteRequest(turns=(Turn("user", text),), sampling=sampling)


def listed(aspects: list[Aspect] | tuple[Aspect, ...]) -> str:
    """Aspects as the prompts show them: without evidence, which would give the person's own words away."""
    return "\n".join(f"- {one.aspect}{f' ({one.reason})' if one.reason else ''}" for one in aspects)
