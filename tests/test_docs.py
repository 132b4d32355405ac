"""The examples in the README and the documentation: they run, load and parse, and name what exists."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from palate.cli._main import app
from palate.evaluation import _results as results
from palate.records import Ask, Part, View
from palate.rewards import REWARD_MODELS, check_reward_model, make_reward_model
from palate.rewards._prompts import conversation, grader_conversation, judge_conversation
from palate.views import RETRIEVERS
from palate.views._spec import PLAIN, WRITTEN
from palate.views._written import BORROWED, OWN, PERSONA, PLAN

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r'^```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    language: str
    title: str | None
    text: str


def blocks(page: Path) -> list[Block]:
    return [Block(**match.groupdict()) for match in FENCE.finditer(page.read_text(encoding="utf-8"))]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def with_blocks(*languages: str) -> list[Path]:
    return [page for page in PAGES if any(block.language in languages for block in blocks(page))]


def write_files(page: Path, folder: Path) -> None:
    for block in blocks(page):
        if block.title:
            file = folder / block.title
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text, encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_fence_is_closed_and_understood(page: Path) -> None:
    fences = re.findall(r"^ *```", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(fences) == 2 * len(blocks(page)), "a fence that this test does not read: give it a language"


@pytest.mark.parametrize("page", with_blocks("python"), ids=name)
def test_python_runs_in_order(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    write_files(page, tmp_path)
    scope: dict[str, object] = {"__name__": page.stem}
    examples = [block for block in blocks(page) if block.language == "python"]
    for block in examples:
        if not block.title:
            exec(compile(block.text, name(page), "exec"), scope)
    sys.modules.pop("mine", None)
    assert examples and all((tmp_path / block.title).is_file() for block in examples if block.title)


@pytest.mark.parametrize("page", with_blocks("json", "jsonl"), ids=name)
def test_json_parses(page: Path) -> None:
    for block in blocks(page):
        if block.language == "json":
            json.loads(block.text)
        if block.language == "jsonl":
            assert all(isinstance(json.loads(line), dict) for line in block.text.splitlines())


@pytest.mark.parametrize("page", with_blocks("bash"), ids=name)
def test_commands_exist(page: Path) -> None:
    text = "\n".join(block.text for block in blocks(page) if block.language == "bash")
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words and words[0] == "palate":
            command, *_ = app.parse_args(words[1:], exit_on_error=False, print_error=False)
            assert callable(command), line


@pytest.mark.parametrize("page", ["README.md", "docs/reward-models.md"])
def test_the_reward_model_of_twenty_lines_keeps_the_contract(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(ROOT / page, tmp_path)
    lines = [line for line in Path("mine.py").read_text().splitlines() if line.strip()]
    assert len(lines) <= 20
    assert check_reward_model(make_reward_model("./mine.py:KnownWords"))


def test_every_key_of_the_json_is_documented() -> None:
    page = (ROOT / "docs/command-line.md").read_text(encoding="utf-8")
    structs = [getattr(results, word) for word in dir(results) if hasattr(getattr(results, word), "__struct_fields__")]
    keys = {key for struct in structs for key in struct.__struct_fields__}
    assert len(keys) > 30
    assert not {key for key in keys if f"`{key}`" not in page}


def test_every_built_in_name_is_documented() -> None:
    models = (ROOT / "docs/reward-models.md").read_text(encoding="utf-8")
    concepts = (ROOT / "docs/concepts.md").read_text(encoding="utf-8")
    assert not {one for one in REWARD_MODELS if f"`{one}`" not in models}
    assert not {one for one in RETRIEVERS if f"`{one}`" not in concepts}
    assert not {one for one in (*PLAIN, *WRITTEN) if f"`{one}`" not in concepts}


def test_every_prompt_is_documented_word_for_word() -> None:
    page = (ROOT / "docs/language-models.md").read_text(encoding="utf-8")
    view = View(name="posts:1", parts=(Part(kind="post", text="{view}"),))
    ask = Ask(id="1", prompt="{prompt}", responses=("{one response}", "{other response}"), view=view)
    shown = [
        conversation(ask)[0].content,
        judge_conversation(ask, 0, 1)[0].content,
        grader_conversation(ask, 0)[0].content,
        *(text.replace("{history}", f"{OWN}\n\n{{history}}") for text in (PERSONA, PLAN)),
        BORROWED,
    ]
    assert not [text for text in shown if f"```text\n{text}\n```" not in page]
    assert "Look only at this: {aspect}\n\nHow well" in grader_conversation(ask, 0, "{aspect}")[0].content
    assert "```text\nLook only at this: {aspect}\n```" in page


def test_the_site_builds_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    commands = pytest.importorskip("mkdocs.commands.build")
    config = pytest.importorskip("mkdocs.config")
    settings = config.load_config(str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path), strict=True)
    settings.plugins.on_startup(command="build", dirty=False)
    commands.build(settings)
    for page in tmp_path.rglob("*.html"):
        loaded = re.findall(r"<(?:script|link|img|iframe)[^>]*?(?:src|href)=\"?([^\s\">]+)", page.read_text())
        assert not [address for address in loaded if re.match(r"(https?:)?//", address)], page
