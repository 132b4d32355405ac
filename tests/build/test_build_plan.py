"""A plan is checked whole before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from dumps import write_dump, write_plan

from command import palate
from palate.build import BuildPlanError, read_plan
from palate.build._tables import Table
from palate.records import PalateError

GOOD = 'name = "x"\n[source]\nkind = "stackexchange"\npath = "Posts.xml"\n'


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    plan = write_plan(
        tmp_path / "plan.toml",
        """
name = "a/b"
sed = 1
[source]
kind = "stackexchange"
path = "nowhere.xml"
sight = "coffee"
[select]
earlier_post = 3
items = 0
[candidates]
kind = "generated"
contrasts = ["violate"]
[models]
writer = "smollm2"
[split]
train = 0.8
[stages]
rubrik = "./x.py:y"
""",
    )
    with pytest.raises(BuildPlanError) as error:
        read_plan(plan)
    told = str(error.value)
    for fault in (
        "unknown key 'sed'. Did you mean 'seed'?",
        "source: unknown key 'sight'. Did you mean 'site'?",
        "select: unknown key 'earlier_post'. Did you mean 'earlier_posts'?",
        "name is the name of a folder",
        "no such file or folder",
        "select: items is 0; it has to be 1 or more",
        "unknown contrast 'violate'. Did you mean 'violates'?",
        "unknown part of [models] 'writer'",
        'kind = "generated" needs a generator',
        "these add up to 0.8",
        "unknown stage 'rubrik'. Did you mean 'rubric'?",
    ):
        assert fault in told
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("name = ", "cannot be read as TOML"),
        ('name = "x"', "there is no source"),
        ('[source]\nkind = "dump"', "source: unknown kind 'dump'"),
        (GOOD + "[select]\nitems = 'many'", "select: Expected `int`, got `str`"),
        (GOOD + '[candidates]\nkind = "real"', "candidates: Invalid enum value 'real'"),
        ('[source]\nkind = "lamp-qa"', "lamp-qa has no real answers"),
        (GOOD + "[select]\npersonal = true", "a language model is needed"),
        (GOOD + '[prompts]\nrubric = "mine.txt"', "prompts: rubric: no such file"),
    ],
)
def test_a_fault_says_where_it_is(tmp_path: Path, text: str, fault: str) -> None:
    write_dump(tmp_path)
    done = palate("build", write_plan(tmp_path / "plan.toml", text), "--check")
    assert done.returncode == 2
    assert fault in done.stderr


def test_a_sound_plan_is_checked_and_not_run(tmp_path: Path) -> None:
    write_dump(tmp_path)
    done = palate("build", write_plan(tmp_path / "plan.toml", GOOD), "--check", cwd=tmp_path)
    assert done.stdout == "The plan is sound: x, accepted candidates. To build it, leave out --check.\n"
    assert not (tmp_path / "runs").exists()
    assert palate("build", "missing.toml", cwd=tmp_path).stderr.count("palate build missing.toml --example") == 1
    assert palate("build").returncode == 2


def test_a_source_that_leaves_nothing_says_why(tmp_path: Path) -> None:
    write_dump(tmp_path, users=3, questions=1)
    plan = write_plan(tmp_path / "plan.toml", GOOD + "[select]\nearlier_posts = 40\n")
    done = palate("build", plan, cwd=tmp_path)
    assert done.returncode == 2
    assert "no question is left to build from. fewer than 40 earlier posts of the asker: 3" in done.stderr


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("user,question\na,b\n", "line 2: no column 'answer'. It has: user, question"),
        ("user,question,answer,accepted\na,b,c,perhaps\n", "accepted is 'perhaps'; write true or false"),
        ("user,question,answer,date\na,b,c,yesterday\n", "'yesterday' is not a date"),
        ("user,question,answer,score\na,b,c,high\n", "score is 'high'; write a number"),
        ("user,question,answer\na,b\n", "another number of columns"),
        ("user,question,answer\na,b,\xff\n", ", line 2: not UTF-8 text"),
    ],
)
def test_a_table_says_which_line_is_wrong(tmp_path: Path, content: str, fault: str) -> None:
    (tmp_path / "table.csv").write_bytes(content.encode("latin-1"))
    with pytest.raises(PalateError, match=fault.replace("?", r"\?")):
        Table(tmp_path / "table.csv", columns={}).read(lambda entry: None, {}, lambda done, total: None)  # type: ignore[arg-type]


def test_a_column_that_palate_does_not_know_is_refused(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("user,question,answer\n")
    with pytest.raises(PalateError, match="unknown column 'customer'"):
        Table(tmp_path / "table.csv", columns={"customer": "user"})


@pytest.mark.parametrize("name", ["a\\u0000b", "..", "a/b", "a\\\\b", "\\u202Ea"])
def test_a_name_that_no_folder_can_have_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "posts.csv").write_text("user,question,answer\n")
    plan = tmp_path / "plan.toml"
    plan.write_text(f'name = "{name}"\n[source]\nkind = "table"\npath = "posts.csv"\n')
    with pytest.raises(PalateError, match="name is the name of a folder"):
        read_plan(plan)
