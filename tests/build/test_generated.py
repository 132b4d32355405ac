"""Generated pairs: every branch of the stages, walked with a server that answers by a script."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from dumps import write_dump, write_plan, write_support
from scripted import Script, scripted_server

from command import palate
from palate.build import BuildSummary, build
from palate.data import load_benchmark
from palate.records import PalateError

Rules = dict[str, Callable[[str], str | int | None]]
"""By stage, what the server says there instead of what is good."""


def stage_of(asked: str) -> str:
    for stage, words in {
        "personal": "Would two people",
        "rubric": "Which things would this particular person",
        "serves": "gives the reader all of the following",
        "violates": "does the opposite",
        "avoid": "stays away from",
        "ignores": "for a general reader. Do not",
        "grade": "Grade both answers",
        "judge-with-rubric": "gives this person more",
        "judge": "Which answer is better?",
    }.items():
        if words in asked:
            return stage
    raise AssertionError(asked)


def own_thing(asked: str) -> str:
    """What the person says they own, word for word."""
    return re.search(r"I own a \w+ and a \w+", asked).group()  # type: ignore[union-attr]


def aspects(asked: str) -> str:
    evidence = own_thing(asked)
    return json.dumps(
        [{"aspect": evidence.replace("I own a", "suits"), "reason": "it is theirs", "evidence": evidence}]
    )


def answer(kind: str, asked: str) -> str:
    question = re.search(r"words:\n\n(.*)", asked).group(1)  # type: ignore[union-attr]
    about = re.search(r"- suits (\w+) and a (\w+)", asked)
    tail = f"{kind} {' '.join(about.groups())}" if about else f"{kind} plainly then"
    return f"Regarding {' '.join(question.split()[:5])} try this first and then wait for it {tail}"


def good(asked: str) -> str:
    """A generator, grader and judge that do what they are asked; the blind judge goes by the order alone."""
    stage = stage_of(asked)
    if stage == "personal":
        return "Yes."
    if stage == "rubric":
        return f"Here you are:\n```json\n{aspects(asked)}\n```"
    if stage in ("serves", "violates", "avoid", "ignores"):
        return answer(stage, asked)
    if stage == "grade":
        return "A: 7\nB: 7"
    if stage == "judge":
        return "A"
    wanted = re.search(r"- suits (\w+) and a (\w+)", asked)
    first = asked.partition("Answer B:")[0].partition("Answer A:")[2]
    return "A" if f"serves {' '.join(wanted.groups())}" in first else "B"  # type: ignore[union-attr]


def script(rules: Rules) -> Script:
    def say(asked: str) -> str | int | None:
        return rules.get(stage_of(asked), good)(asked)

    return say


PLAN = """
name = "written"
[source]
kind = "stackexchange"
path = "Posts.xml"
site = "coffee"
[select]
earlier_posts = 1
items = 8
personal = {personal}
[candidates]
kind = "generated"
contrasts = {contrasts}
words = 40
[models]
generator = "{model}"
[gate]
models = []
"""


def generate(
    folder: Path, rules: Rules, *, contrasts: str = '["violates", "ignores", "avoid"]', personal: str = "false",
    more: str = "", **options: str
) -> BuildSummary:  # fmt: skip
    write_dump(folder)
    with scripted_server(script(rules)) as server:
        model = server.spec(**options)
        plan = write_plan(folder / "plan.toml", PLAN.format(model=model, contrasts=contrasts, personal=personal) + more)
        return build(plan, to=folder / "written", out=folder / "runs")[0]


def why(summary: BuildSummary, stage: str) -> dict[str, int]:
    return next(one.why for one in summary.yields if one.stage == stage)


def test_contrasts_are_kept_apart_and_come_from_one_generator(tmp_path: Path) -> None:
    summary = generate(tmp_path, {}, personal="true")
    assert summary.contrasts == {"avoid": 8, "ignores": 8, "violates": 8}
    benchmark = load_benchmark(tmp_path / "written")
    for item in benchmark.comparisons:
        assert " serves " in item.chosen
        assert f" {item.contrast} " in item.rejected[0]
        [aspect] = item.privileged.aspects
        texts = [item.privileged.narrative or "", *(post.text for post in benchmark.users[item.user_id].posts)]
        assert any(aspect.evidence in text for text in texts)  # type: ignore[operator]
    done = palate("eval", tmp_path / "written", "--rm", "longest", "--view", "none", "--json", cwd=tmp_path)
    assert {one["value"] for one in json.loads(done.stdout)["slices"] if one["by"] == "contrast"} == {
        "avoid",
        "ignores",
        "violates",
    }
    card = (tmp_path / "written" / "CARD.md").read_text()
    assert "Model for generator: scripted; fingerprint" in card
    assert "Prompt judge-with-rubric: sha256" in card
    assert "Spent on rubrics:" in card
    assert "127.0.0.1" not in card


def test_twins_mirror_each_other(tmp_path: Path) -> None:
    summary = generate(tmp_path, {}, contrasts='["twins"]')
    benchmark = load_benchmark(tmp_path / "written")
    assert summary.twins == len(benchmark.comparisons) > 0
    items = {item.id: item for item in benchmark.comparisons}
    for item in items.values():
        twin = items[item.twin or ""]
        assert (twin.chosen, twin.rejected[0], twin.prompt) == (item.rejected[0], item.chosen, item.prompt)
        assert twin.user_id != item.user_id


def test_customers_who_ask_the_same_are_twins(tmp_path: Path) -> None:
    write_support(tmp_path / "support.csv", customers=4)

    def rubric(asked: str) -> str:
        quote = re.search(r"How do I set up feature \d\?", asked).group()  # type: ignore[union-attr]
        return json.dumps([{"aspect": "suits one and a two", "evidence": quote}])

    drawn = iter(range(1000))
    rules: Rules = {
        "rubric": rubric,
        "serves": lambda asked: f"Number {next(drawn)} of many ways to do what was asked for here",
        "judge-with-rubric": lambda asked: "A",
    }
    plan = """
name = "support"
[source]
kind = "table"
path = "support.csv"
columns = {user = "customer", date = "asked_at", accepted = "helped"}
[candidates]
kind = "generated"
contrasts = ["twins"]
[filter]
judge = false
[models]
generator = "MODEL"
[gate]
models = []
"""
    with scripted_server(script(rules)) as server:
        file = write_plan(tmp_path / "plan.toml", plan.replace("MODEL", server.spec()))
        summary, _ = build(file, to=tmp_path / "out", out=tmp_path / "runs")
    assert summary.twins == summary.items == 12  # three later questions of four customers
    assert len({item.prompt for item in load_benchmark(tmp_path / "out").comparisons}) == 3


BRANCHES: list[tuple[Rules, str, str]] = [
    ({"rubric": lambda asked: "They would like something nice."}, "rubrics", "no JSON in the answer"),
    ({"rubric": lambda asked: "I'm sorry, I can't help with that."}, "rubrics", "no JSON in the answer"),
    ({"rubric": lambda asked: None}, "rubrics", "the answer was cut off"),
    ({"rubric": lambda asked: "[]"}, "rubrics", "no aspects"),
    (
        {"rubric": lambda asked: '[{"aspect": "x", "evidence": "I never wrote this at all"}]'},
        "rubrics",
        "no aspect has evidence in the user's own texts",
    ),
    ({"avoid": lambda asked: "I'm sorry, but I cannot answer that."}, "candidates", "the generator refused"),
    ({"avoid": lambda asked: None}, "candidates", "the response was cut off"),
    ({"avoid": lambda asked: "word " * 90}, "candidates", "longer than was asked for"),
    ({"avoid": lambda asked: "Too short by far."}, "filter", "the lengths differ too much"),
    ({"avoid": lambda asked: answer("serves", asked)}, "filter", "both responses are the same"),
    (
        {"serves": lambda asked: f"You know {own_aspect(asked)} so here is an answer that fits all of it"},
        "filter",
        "words of the rubric are leaked",
    ),
    ({"grade": lambda asked: "Both are fine."}, "filter", "the grades cannot be read"),
    ({"grade": lambda asked: "A: 9\nB: 5"}, "filter", "the grades turn with the order"),
    (
        {"grade": lambda asked: "A: 9\nB: 5" if "serves" in asked.partition("Answer B:")[0] else "A: 5\nB: 9"},
        "filter",
        "one response is better in general",
    ),
    ({"judge-with-rubric": lambda asked: "A"}, "filter", "the judge with the rubric turns with the order"),
    ({"judge-with-rubric": lambda asked: "tie"}, "filter", "the judge with the rubric does not prefer the chosen one"),
    ({"judge-with-rubric": lambda asked: "Hm."}, "filter", "the judge with the rubric cannot be read"),
    (
        {"judge": lambda asked: "A" if "serves" in asked.partition("Answer B:")[0] else "B"},
        "filter",
        "the judge without the rubric prefers the chosen one",
    ),
    (
        {"judge": lambda asked: "B" if "serves" in asked.partition("Answer B:")[0] else "A"},
        "filter",
        "the judge without the rubric prefers the rejected one",
    ),
    ({"judge": lambda asked: "It depends."}, "filter", "the judge without the rubric cannot be read"),
    ({"personal": lambda asked: "No."}, "personal", "one answer is best for everybody"),
    ({"personal": lambda asked: "Maybe."}, "personal", "neither yes nor no"),
]


def own_aspect(asked: str) -> str:
    return re.search(r"- (suits \w+ and a \w+)", asked).group(1)  # type: ignore[union-attr]


@pytest.mark.parametrize(("rules", "stage", "reason"), BRANCHES, ids=[reason for _, _, reason in BRANCHES])
def test_what_goes_wrong_is_dropped_and_counted(tmp_path: Path, rules: Rules, stage: str, reason: str) -> None:
    """For half of the questions; the others go on, so that something is built."""
    half: Rules = {
        name: (
            lambda asked, rule=rule: (
                rule(asked) if re.search(r"Question \d+ of \d*[13579]:", last(asked)) else good(asked)
            )
        )
        for name, rule in rules.items()
    }

    def last(asked: str) -> str:
        return asked.rpartition("Question ")[1] + asked.rpartition("Question ")[2]

    summary = generate(tmp_path, half, contrasts='["avoid"]', personal="true" if stage == "personal" else "false")
    counts = why(summary, stage)
    assert counts.get(reason, 0) > 0, summary.yields
    assert 0 < summary.items < 8


def test_real_answers_can_be_limited_to_questions_that_are_personal(tmp_path: Path) -> None:
    rules: Rules = {"personal": lambda asked: "yes" if re.search(r"Question \d of \d*[02468]:", asked) else "no"}
    write_dump(tmp_path)
    with scripted_server(script(rules)) as server:
        text = PLAN.format(model=server.spec(), contrasts="[]", personal="true").replace("generated", "accepted")
        summary, _ = build(write_plan(tmp_path / "plan.toml", text), to=tmp_path / "real", out=tmp_path / "runs")
        assert {stage_of(asked) for asked in server.asked} == {"personal"}
    assert why(summary, "personal")["one answer is best for everybody"] > 0
    assert summary.contrasts.keys() == {"accepted"}


def test_invented_evidence_is_dropped_and_the_rest_of_the_rubric_stays(tmp_path: Path) -> None:
    def with_lie(asked: str) -> str:
        lie = {"aspect": "luxury", "evidence": "I always buy the best"}
        return json.dumps([lie, *json.loads(aspects(asked))])

    summary = generate(tmp_path, {"rubric": with_lie}, contrasts='["avoid"]')
    assert why(summary, "evidence") == {"the evidence is not in the user's texts": 8}
    assert all(len(item.privileged.aspects) == 1 for item in load_benchmark(tmp_path / "written").comparisons)


def test_a_failing_server_stops_the_build_and_loses_nothing(tmp_path: Path) -> None:
    broken = True

    def sometimes(asked: str) -> str | int:
        return 400 if broken and "Question 2" in asked.partition("Write")[0] else answer("avoid", asked)

    write_dump(tmp_path)
    with scripted_server(script({"avoid": sometimes})) as server:
        text = PLAN.format(model=server.spec(), contrasts='["avoid"]', personal="false")
        plan = write_plan(tmp_path / "plan.toml", text)
        done = palate("build", plan, cwd=tmp_path)
        assert done.returncode == 2
        assert "the generator failed on" in done.stderr
        assert "Run the same command again to resume" in done.stderr
        rubrics = sum("Which things" in asked for asked in server.asked)
        broken = False
        assert palate("build", plan, cwd=tmp_path).returncode == 0
        assert sum("Which things" in asked for asked in server.asked) == rubrics == 8


def test_failures_can_be_skipped_and_are_counted(tmp_path: Path) -> None:
    rules: Rules = {"avoid": lambda asked: 400 if " of 1" in asked or " of 2" in asked else answer("avoid", asked)}
    write_dump(tmp_path)
    with scripted_server(script(rules)) as server:
        text = PLAN.format(model=server.spec(), contrasts='["avoid"]', personal="false")
        plan = write_plan(tmp_path / "plan.toml", 'on_failure = "skip"\n' + text)
        summary, _ = build(plan, to=tmp_path / "written", out=tmp_path / "runs")
    assert why(summary, "candidates")["the model failed"] > 0


def test_a_budget_that_is_spent_stops_the_build_and_a_larger_one_resumes_it(tmp_path: Path) -> None:
    write_dump(tmp_path)
    with scripted_server(script({})) as server:

        def run(most: str) -> tuple[int, str]:
            model = server.spec(prices="1000/1000", most_spent=most)
            text = PLAN.format(model=model, contrasts='["avoid"]', personal="false")
            done = palate("build", write_plan(tmp_path / "plan.toml", text), cwd=tmp_path)
            return done.returncode, done.stderr

        code, problem = run("2")
        assert code == 2
        assert "Raise most_spent to continue" in problem
        asked = len(server.asked)
        assert run("900")[0] == 0
        assert len(set(server.asked)) == len(server.asked) > asked  # nothing was asked, or paid, twice
    assert len([*tmp_path.glob("runs/written-build-*")]) == 1


def test_a_dry_run_says_what_it_costs_and_asks_nobody(tmp_path: Path) -> None:
    write_dump(tmp_path)
    with scripted_server(script({})) as server:
        text = PLAN.format(model=server.spec(prices="2/8"), contrasts='["violates", "avoid"]', personal="true")
        plan = write_plan(tmp_path / "plan.toml", text)
        cost = json.loads(palate("build", plan, "--dry-run", "--json", cwd=tmp_path).stdout)
        assert [one["stage"] for one in cost["stages"]] == ["personal", "rubrics", "candidates", "grades", "judges"]
        assert [one["calls"] for one in cost["stages"]] == [8, 8, 24, 32, 64]
        assert all(one["cost"] > 0 for one in cost["stages"])
        assert "rubrics" in palate("build", plan, "--dry-run", cwd=tmp_path).stdout
        assert server.asked == []
        assert palate("build", plan, cwd=tmp_path).returncode == 0
        assert len(server.asked) <= sum(one["calls"] for one in cost["stages"])


def test_prompts_and_stages_can_be_replaced(tmp_path: Path) -> None:
    (tmp_path / "rubric.txt").write_text("$history $question Which things would this particular person, IN MY WORDS?")
    (tmp_path / "mine.py").write_text(
        "from palate.build import VerdictLine\n"
        "def keep_all(context, tasks):\n"
        "    return [VerdictLine(item=item.id, contrast=contrast, why='') for item, contrast in tasks]\n"
    )
    more = '[prompts]\nrubric = "rubric.txt"\n[stages]\nfilter = "./mine.py:keep_all"\n'
    write_dump(tmp_path)
    with scripted_server(script({})) as server:
        text = PLAN.format(model=server.spec(), contrasts='["avoid"]', personal="false") + more
        summary, _ = build(write_plan(tmp_path / "plan.toml", text), to=tmp_path / "written", out=tmp_path / "runs")
        assert sum("IN MY WORDS" in asked for asked in server.asked) == 8
        assert not any("Grade both" in asked for asked in server.asked)
    assert summary.items == 8
    assert "Stage filter: sha256:" in (tmp_path / "written" / "CARD.md").read_text()


def test_a_prompt_that_lacks_something_is_refused(tmp_path: Path) -> None:
    for words, problem in (
        ("no placeholders", r"it has no \$question"),
        ("$question $history $tast", r"nothing is known by the name \$tast"),
        ("costs 5$ $question $history", "write a dollar sign as"),
    ):
        (tmp_path / "rubric.txt").write_text(words)
        with pytest.raises(PalateError, match=problem):
            generate(tmp_path, {}, more='[prompts]\nrubric = "rubric.txt"\n')


def test_lamp_qa_brings_rubrics_and_its_askers_are_recovered(tmp_path: Path) -> None:
    own = "I own a kettle and a scale in my flat"
    rows = [
        {
            "id": str(number),
            "question": f"Question {number} of 7: what now?",
            "profile": [{"id": f"p{number // 2}", "text": f"{own} number {number // 2}"}],
            "rubric_aspects": [{"aspect": "suits kettle and a scale", "reason": "theirs", "evidence": own}],
            "narrative": "A long story.",
            "category": "Lifestyle_and_Personal_Development",
        }
        for number in range(8)
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    plan = """
name = "lamp"
[source]
kind = "lamp-qa"
benchmark = "FOLDER/rows.jsonl"
[candidates]
kind = "generated"
contrasts = ["avoid"]
[models]
generator = "MODEL"
[gate]
models = []
"""
    with scripted_server(script({})) as server:
        text = plan.replace("FOLDER", str(tmp_path)).replace("MODEL", server.spec())
        summary, _ = build(write_plan(tmp_path / "plan.toml", text), to=tmp_path / "lamp", out=tmp_path / "runs")
        assert not any("Which things" in asked for asked in server.asked)
    assert (summary.items, summary.users) == (8, 4)
    assert why(summary, "askers") == {"rows of a person who was met before, by a post of theirs": 4}


def test_ledgers_say_why_in_plain_json_lines(tmp_path: Path) -> None:
    rules: Rules = {"grade": lambda asked: "A: 9\nB: 5" if "plainly" in asked else "A: 7\nB: 7"}
    generate(tmp_path, rules, contrasts='["avoid", "ignores"]')
    [run] = tmp_path.glob("runs/written-build-*")
    lines = [msgspec.json.decode(line) for line in (run / "verdicts.jsonl").read_bytes().splitlines()]
    assert {line["why"] for line in lines} == {"", "the grades turn with the order"}
    assert all("grade of chosen" in line["numbers"] for line in lines)
