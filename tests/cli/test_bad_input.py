"""Bad input gets one clear message and exit code 2: no traceback, no silent guess, nothing lost."""

import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from command import Done, palate_process
from command import palate as palate_here
from faulty_server import faulty_server
from palate.cli import main
from tiny_models import TinyModels

USER = {"user_id": "ann", "posts": [{"id": "1", "text": "I like tea."}]}
COMPARISON = {"id": "q", "user_id": "ann", "question": "Drink?", "chosen": "Tea.", "rejected": "Coffee."}

Palate = Callable[..., Done]


@pytest.fixture
def palate(tmp_path: Path) -> Palate:
    """Runs the command in an empty folder."""
    return partial(palate_here, cwd=tmp_path)


def folder(path: Path, users: list[object], comparisons: list[object]) -> Path:
    path.mkdir()
    for name, rows in (("users", users), ("comparisons", comparisons)):
        (path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def expect_refused(done: Done, *words: str) -> None:
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("palate: ")
    for word in words:
        assert word in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("eval", "minni"), ("unknown benchmark 'minni'", "'mini'")),
        (("eval", "./nowhere"), ("no such file or folder",)),
        (("eval", "mini", "--rm", "embeding"), ("Did you mean 'embedding'",)),
        (("eval", "mini", "--rm", "random", "--view", "post:5"), ("Did you mean 'posts'",)),
        (("eval", "mini", "--rm", "random", "--retriever", "bm52"), ("Did you mean 'bm25'",)),
        (("eval", "mini", "--rm", "random", "--budget", "lots"), ("words:300",)),
        (("eval", "mini", "--rm", "random", "--limit", "0"), ("number of items from 1",)),
        (("eval", "mini", "--rm", "random", "--rm", "random"), ("named twice",)),
        (("eval", "mini", "--limit", "many"), ("many",)),
        (("eval",), ("BENCHMARK",)),
        (("evel", "mini"), ("evel",)),
        (("report", "./nowhere"), ("no such folder: nowhere", "palate runs")),
        (("compare", "./nowhere", "./nowhere-else"), ("no such folder",)),
        (("check", "embeding"), ("Did you mean 'embedding'",)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_a_wrong_name_is_met_with_the_nearest_right_one(
    palate: Palate, words: tuple[str, ...], said: tuple[str, ...]
) -> None:
    expect_refused(palate(*words), *said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("train", "mini", "--model", "x"), "Unknown option: --model.\nTry: "),
        (("train", "mini", "--metod=x"), "Unknown option: --metod. Did you mean --method?"),
        (("eval", "nothere"), "unknown benchmark 'nothere'. Known: "),
    ],
)
def test_only_what_is_near_is_suggested(palate: Palate, words: tuple[str, ...], said: str) -> None:
    expect_refused(palate(*words), said)


def test_a_folder_of_runs_is_no_run(palate: Palate) -> None:
    assert palate("eval", "mini", "--rm", "longest", "--view", "none", "--limit", "4").returncode == 0
    for words in (("audit", "runs"), ("report", "runs"), ("compare", "latest", "runs")):
        expect_refused(palate(*words), "it is a folder of runs", "such as runs/latest", "palate runs runs")


def test_broken_json_names_the_file_and_the_line(palate: Palate, tmp_path: Path) -> None:
    rows = [COMPARISON | {"id": f"q{n}"} for n in range(9)]
    held = folder(tmp_path / "mine", [USER], rows)
    lines = (held / "comparisons.jsonl").read_text().splitlines()
    lines[6] = lines[6][:20]
    (held / "comparisons.jsonl").write_text("\n".join(lines) + "\n")
    expect_refused(palate("eval", "mine", "--rm", "random"), "comparisons.jsonl:7")


def test_a_field_of_the_wrong_type_is_named(palate: Palate, tmp_path: Path) -> None:
    folder(tmp_path / "mine", [USER], [COMPARISON, COMPARISON | {"id": "r", "question": 5}])
    expect_refused(palate("eval", "mine", "--rm", "random"), "comparisons.jsonl:2", "question")


def test_an_empty_file(palate: Palate, tmp_path: Path) -> None:
    folder(tmp_path / "mine", [USER], [])
    expect_refused(palate("eval", "mine", "--rm", "random"), "comparisons.jsonl")


def test_one_user_only_has_no_stranger(palate: Palate, tmp_path: Path) -> None:
    folder(tmp_path / "mine", [USER], [COMPARISON])
    expect_refused(palate("eval", "mine", "--rm", "random", "--view", "swapped:posts:1"), "one user only")
    assert palate("eval", "mine", "--rm", "random").returncode == 0


def test_a_plug_in_that_raises_says_where(palate: Palate, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import math\n\nclass Mine:\n    name = 'mine'\n\nmath.sqrt(-1)\n")
    expect_refused(palate("eval", "mini", "--rm", "./mine.py:Mine"), "ValueError", "mine.py, line 6")


def test_a_plug_in_that_raises_while_rating_says_where(palate: Palate, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "class Mine:\n    name = 'mine'\n    def rate(self, asks):\n        return asks[0].nothing\n"
    )
    expect_refused(palate("eval", "mini", "--rm", "./mine.py:Mine"), "AttributeError", "mine.py, line 4", "is kept")


def test_a_folder_that_cannot_be_written(palate: Palate, tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file stands where the folder should be")
    expect_refused(palate("eval", "mini", "--rm", "random"), "cannot write", "--out")


@pytest.mark.skipif(os.name != "posix" or not Path("/proc/1").exists(), reason="needs a read-only file system")
def test_a_read_only_disk(palate: Palate) -> None:
    expect_refused(palate("eval", "mini", "--rm", "random", "--out", "/proc/palate"), "cannot write", "--out")


def test_settings_changed_under_an_interrupted_run(palate: Palate, tmp_path: Path) -> None:
    words = ("eval", "mini", "--rm", "random", "--limit", "4")
    assert palate(*words).returncode == 0
    [settings] = tmp_path.glob("runs/*/settings.json")
    settings.write_text(settings.read_text().replace('"limit": 4', '"limit": 5'))
    expect_refused(palate(*words), "has been changed")


def test_odd_names_are_only_names(palate: Palate, tmp_path: Path) -> None:
    odd = "Zoë/../[red]\u202e<b>\U0001f600"
    held = folder(
        tmp_path / "ma cuisine, été",
        [USER | {"user_id": odd}, USER | {"user_id": "../bob"}],
        [COMPARISON | {"id": f"{odd}?", "user_id": odd, "category": odd}, COMPARISON | {"user_id": "../bob"}],
    )
    done = palate("eval", str(held), "--rm", "longest", "--json")
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)["run"]
    assert Path(run).parent == Path("runs")
    assert palate("eval", str(held), "--rm", "longest").returncode == 0


def test_the_name_of_a_run_is_printed_whole_and_leads_to_its_folder(palate: Palate, tmp_path: Path) -> None:
    held = folder(tmp_path / "a-long-name-of-a-benchmark-of-drinks", [USER], [COMPARISON])
    models = [word for name in ("longest", "shortest", "overlap") for word in ("--rm", name)]
    assert palate("eval", str(held), *models, "--view", "none").returncode == 0
    [run] = (tmp_path / "runs").iterdir()
    assert run.name in palate("runs").stdout
    expect_refused(palate("report", run.name), f"Did you mean runs/{run.name}?")


def test_ten_megabytes_in_one_response(palate: Palate, tmp_path: Path) -> None:
    folder(tmp_path / "mine", [USER], [COMPARISON, COMPARISON | {"id": "long", "chosen": "word " * 2_000_000}])
    expect_refused(palate("eval", "mine", "--rm", "longest"), "comparisons.jsonl:2", "10,000,000 characters")


# Language models.


def rated(path: str) -> tuple[str, ...]:
    return ("eval", "mini", "--limit", "4", "--view", "none", "--rm", path)


@pytest.fixture
def tiny(tiny_models: TinyModels) -> TinyModels:
    pytest.importorskip("transformers")
    return tiny_models


@pytest.mark.parametrize("kind", ["hf", "judge"])
def test_a_model_that_is_nowhere(tiny: TinyModels, tmp_path: Path, kind: str) -> None:
    words = rated(f"{kind}:nobody/nothing")
    done = palate_process(*words, cwd=tmp_path, HF_ENDPOINT="http://127.0.0.1:9", HF_HOME=str(tmp_path))
    expect_refused(done, "cannot get the model 'nobody/nothing' from the hub", "give a local folder")


@pytest.mark.parametrize("kind", ["hf", "likelihood"])
def test_a_folder_without_a_tokenizer(palate: Palate, tiny: TinyModels, tmp_path: Path, kind: str) -> None:
    made = tiny.classifier() if kind == "hf" else tiny.causal()
    for file in ("config.json", "model.safetensors"):
        (tmp_path / "bare").mkdir(exist_ok=True)
        shutil.copy(made / file, tmp_path / "bare" / file)
    expect_refused(palate(*rated(f"{kind}:bare")), "bare: no tokenizer can be loaded", "beside its weights")
    assert not (tmp_path / "runs").exists()


def test_a_folder_that_holds_no_model(palate: Palate, tiny: TinyModels, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    expect_refused(palate(*rated("judge:empty")), "empty: ")


def test_a_classifier_with_several_logits(palate: Palate, tiny: TinyModels) -> None:
    made = tiny.classifier(labels=5)
    expect_refused(palate(*rated(f"hf:{made}")), "gives 5 logits", "LABEL_4", "index=0")


def test_a_language_model_is_no_classifier(palate: Palate, tiny: TinyModels) -> None:
    expect_refused(palate(*rated(f"hf:{tiny.causal()},index=0")), "lack score.weight", "at random")


def test_a_template_that_refuses_the_place_of_the_view(palate: Palate, tiny: TinyModels) -> None:
    made = tiny.classifier(template="no system")
    expect_refused(palate(*rated(f"hf:{made},view=system")), "refuses system turns", "view=user")


def test_what_does_not_fit_the_context_is_unscored_and_no_error(
    palate: Palate, tiny: TinyModels, tmp_path: Path
) -> None:
    """A run goes on: one item that is too long says nothing about the others."""
    folder(tmp_path / "mine", [USER], [COMPARISON, COMPARISON | {"id": "long", "question": "word " * 2000}])
    done = palate("eval", "mine", "--rm", f"hf:{tiny.classifier()}", "--view", "none", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["results"][0]["unscored"] == 1
    ratings = Path(tmp_path, found["run"], "ratings.jsonl").read_text()
    assert "tokens, and the model's context has 512" in ratings


def test_a_key_that_is_missing(palate: Palate) -> None:
    done = palate(*rated("judge:some-model,url=https://api.example.org/v1,key=NO_SUCH_KEY"), NO_SUCH_KEY="")
    expect_refused(done, "api.example.org wants a key", "NO_SUCH_KEY")


@pytest.mark.parametrize("mood", ["page", "nowhere", "locked"])
def test_a_server_that_is_no_chat_server(palate: Palate, mood: str, tmp_path: Path) -> None:
    said = {"page": "is a web page, not an API", "nowhere": "model name 'm' right", "locked": "MY_KEY"}
    with faulty_server() as address:
        spec = f"judge:m,verdict=text,url={address}/{mood}/v1,key=MY_KEY"
        done = palate(*rated(spec), MY_KEY="sk-12345678", PALATE_CACHE=str(tmp_path))
    expect_refused(done, said[mood])
    assert "sk-12345678" not in done.stderr


def test_a_full_gpu_is_told_in_words(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    torch = pytest.importorskip("torch")

    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.25 GiB. GPU 0 has a total capacity of 1")

    monkeypatch.setattr("palate.cli._main.app", full)
    with pytest.raises(SystemExit) as stopped:
        main([])
    assert stopped.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("palate: the GPU is out of memory")
    assert said.endswith("CUDA out of memory. Tried to allocate 2.25 GiB.\n")
