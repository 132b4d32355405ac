"""Guided decoding and policy accuracy with tiny real models, against what the definitions say, computed plainly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from drinks import SMALL, drinks

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from palate import Ask, Rating  # noqa: E402
from palate.data import load_benchmark  # noqa: E402
from palate.downstream import GUIDE, GuideSummary, Guiding, guide  # noqa: E402
from palate.downstream.guide import _results  # noqa: E402
from palate.downstream.guide._guide import Measurement  # noqa: E402
from palate.downstream.guide._run import GENERATIONS, LIKELIHOODS, TOKEN_REWARDS  # noqa: E402
from palate.engine import LocalModel, Sampling, SentenceEncoder, Turn, WriteRequest  # noqa: E402
from palate.records import Comparison, Completion, Draft, Grade, PalateError, RewardModel  # noqa: E402
from palate.rewards import make_reward_model  # noqa: E402
from palate.runs import open_run, write_report  # noqa: E402
from tiny_models import TinyModels, build, save  # noqa: E402

FILES = ("likelihoods.jsonl", "rewards.jsonl", "ratings.jsonl", "generations.jsonl", "outcomes.jsonl", "grades.jsonl")


class Letters:
    """A critic: the share of the letter e."""

    name = "letters"
    fingerprint = "1"

    def require(self, items: Sequence[Comparison | Completion]) -> None:
        return None

    def judge(self, drafts: Sequence[Draft]) -> list[Grade]:
        return [Grade(draft.text.count("e") / max(1, len(draft.text))) for draft in drafts]


class Plainly:
    """The same reward model without its way of following texts: everything is read again at every step."""

    def __init__(self, model: RewardModel) -> None:
        self._model = model
        self.name = model.name
        self.fingerprint = "plainly"

    def rate(self, asks: Sequence[Ask]) -> Sequence[Rating]:
        return self._model.rate(asks)


def texts(summary: GuideSummary) -> dict[tuple[str, float, str], str]:
    run = open_run(Path(summary.run), GUIDE)
    return {(line.rm, line.weight, line.item): line.text for line in run.read(GENERATIONS)}


@pytest.mark.parametrize("kind", ["classifier", "of one's own"])
def test_a_reward_that_is_no_number_guides_nothing(kind: str, tiny_models: TinyModels, tmp_path: Path) -> None:
    """Neither from a follower that keeps what it has read, nor from a model that is asked anew."""
    policy = LocalModel(str(tiny_models.causal()), device="cpu")
    broken = build("llama", labels=1)
    broken.score.weight.data.fill_(math.nan)
    reward = f"classifier:{save(tmp_path / 'broken', broken)}" if kind == "classifier" else NotANumber()
    runs = tmp_path / "runs"
    for _ in range(2):  # a second time there is nothing left to ask
        summary = guide(
            drinks(4), policy, [reward], "reference:chrf,encoder=none", views=["none"], guiding=SMALL, out=runs
        )
        assert summary.complete
    [result] = summary.accuracies
    assert (result.n, result.reward_accuracy) == (0, None) and all("not finite" in why for why in result.reasons)
    guided = [row for row in summary.texts if row.rm]
    assert guided and all((row.n, row.failed) == (0, 4) for row in guided)
    assert len((Path(summary.run) / "rewards.jsonl").read_text().splitlines()) == 4


class NotANumber:
    """What a model that went astray in training says of a text."""

    name, fingerprint = "astray", "1"

    def rate(self, asks: Sequence[Ask]) -> list[Rating]:
        return [Rating([math.nan] * len(ask.responses)) for ask in asks]


@pytest.mark.parametrize("chunk", [1, 3])
@pytest.mark.parametrize("reward", ["classifier", "other tokenizer", "likelihood", "pmi", "dpo"])
def test_what_is_written_is_what_the_plain_way_writes(
    tiny_models: TinyModels, tmp_path: Path, own_cache: Path, reward: str, chunk: int
) -> None:
    specs = {
        "classifier": f"classifier:{tiny_models.classifier()}",
        "other tokenizer": f"classifier:{tiny_models.classifier('qwen2', 'tight', seed=2)}",
        "likelihood": f"likelihood:{tiny_models.causal('qwen2')}",
        "pmi": f"pmi:{tiny_models.causal('qwen2')}",
        "dpo": f"dpo:{tiny_models.causal('qwen2')},reference={tiny_models.causal('llama', seed=4)}",
    }
    policy = LocalModel(str(tiny_models.causal()), device="cpu")
    found = []
    for place, model in enumerate((make_reward_model(specs[reward]), Plainly(make_reward_model(specs[reward])))):
        summary = guide(
            drinks(2),
            policy,
            [model],
            Letters(),
            views=["none"],
            guiding=Guiding(top_k=4, tokens=6, chunk=chunk),
            weights=[3],
            accuracy=False,
            out=tmp_path / str(place),
        )
        assert summary.complete
        found.append(list(texts(summary).items()))
    followed, plain = found
    assert [text for _, text in followed] == [text for _, text in plain]


def test_without_a_guide_the_policy_writes_what_it_writes(tiny_models: TinyModels, tmp_path: Path) -> None:
    policy = LocalModel(str(tiny_models.causal("qwen2")), device="cpu")
    benchmark = drinks(3)
    summary = guide(benchmark, policy, ["longest"], Letters(), views=["none"], guiding=SMALL, weights=[0], out=tmp_path)
    requests = [
        WriteRequest(turns=(Turn("user", item.prompt),), sampling=Sampling(most_tokens=SMALL.tokens))
        for item in benchmark.comparisons
    ]
    plain = [answer[0].text for answer in policy.write(requests) if isinstance(answer, list)]
    assert list(texts(summary).values()) == plain


def test_a_heavier_reward_is_a_higher_reward(tiny_models: TinyModels, tmp_path: Path) -> None:
    summary = guide(
        drinks(6),
        str(tiny_models.causal()),
        ["longest"],
        Letters(),
        views=["none"],
        guiding=Guiding(top_k=20, tokens=8),
        weights=[100],
        accuracy=False,
        out=tmp_path,
    )
    alone, guided = summary.texts
    assert alone.rm == ""
    assert guided.reward_gain is not None
    assert guided.reward_gain.value > 0
    assert guided.log_probability is not None
    assert alone.log_probability is not None
    assert guided.log_probability < alone.log_probability
    assert guided.over_alone is not None
    assert guided.over_alone.n == 6


def test_empty_texts_are_counted(tiny_models: TinyModels, tmp_path: Path) -> None:
    """With the whole vocabulary to choose from, a reward for brevity ends at once."""
    summary = guide(
        drinks(3),
        str(tiny_models.causal()),
        ["shortest"],
        Letters(),
        views=["none"],
        guiding=Guiding(top_k=400, tokens=4),
        weights=[1000],
        accuracy=False,
        out=tmp_path,
    )
    assert summary.texts[1].empty == summary.texts[1].n == 3
    assert any("all 3 texts are empty" in finding.text for finding in summary.findings)


def test_neither_other_items_nor_an_interruption_change_anything(tiny_models: TinyModels, tmp_path: Path) -> None:
    policy = str(tiny_models.causal())
    models = [f"classifier:{tiny_models.classifier()}", "longest"]

    class StoppedError(Exception):
        pass

    def measured(out: str, stop_after: int | None = None, pairs: int = 3) -> GuideSummary:
        told = 0

        def report(what: str, done: float, total: int) -> None:
            nonlocal told
            told += done == int(done)  # not within a text
            assert done <= total
            if stop_after is not None and told > stop_after:
                raise StoppedError

        return guide(
            drinks(pairs),
            policy,
            models,
            Letters(),
            views=["none"],
            guiding=Guiding(top_k=3, tokens=4, temperature=0.7),
            weights=[2],
            seed=5,
            out=tmp_path / out,
            progress=report,
        )

    calm = measured("calm")
    stops, stormy = 0, None
    while stormy is None:
        try:
            stormy = measured("stormy", stop_after=3)
        except StoppedError:
            stops += 1
    assert stops > 5
    assert stormy.complete
    for name in FILES:
        assert (Path(calm.run) / name).read_bytes() == (Path(stormy.run) / name).read_bytes(), name
    fewer = measured("fewer", pairs=2)
    assert texts(fewer).items() <= texts(calm).items()


def test_texts_of_one_batch_do_not_see_each_other(
    tiny_models: TinyModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU, where many are written together: the same texts, and the same numbers but for the last digits."""
    found = []
    for size in (1, 3):
        monkeypatch.setattr(Measurement, "batch_size", size)
        summary = guide(
            drinks(4),
            str(tiny_models.causal()),
            [f"classifier:{tiny_models.classifier('qwen2', 'tight', seed=2)}"],
            Letters(),
            views=["none"],
            guiding=SMALL,
            weights=[3],
            out=tmp_path / str(size),
        )
        run = open_run(Path(summary.run), GUIDE)
        found.append((texts(summary), run.lines(LIKELIHOODS), run.lines(TOKEN_REWARDS)))
    (one_by_one, values, rewards), (together, other_values, other_rewards) = found
    assert one_by_one == together
    for key, line in values.items():
        for own, other in zip(line.answers, other_values[key].answers, strict=True):
            assert own.log_probabilities == pytest.approx(other.log_probabilities, abs=1e-4)
    for name, followed in rewards.items():
        for own_rewards, others in zip(followed.rewards, other_rewards[name].rewards, strict=True):
            for place, other_place in zip(own_rewards, others, strict=True):
                assert place == pytest.approx(other_place, abs=1e-4)


def test_where_memory_runs_out_batches_are_smaller(
    tiny_models: TinyModels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Small:
        """A reward model on a device that has room for two texts."""

        name, fingerprint, batch_size = "small", "1", 1

        def rate(self, asks: Sequence[Ask]) -> list[Rating]:
            if len(asks) > 2:
                raise torch.OutOfMemoryError("out of memory")
            return [Rating([float(len(text)) for text in ask.responses]) for ask in asks]

    found = []
    for size in (1, 5):
        monkeypatch.setattr(Measurement, "batch_size", size)
        summary = guide(
            drinks(5),
            str(tiny_models.causal()),
            [Small()],
            Letters(),
            views=["none"],
            guiding=SMALL,
            weights=[1],
            out=tmp_path / str(size),
        )
        assert summary.complete
        found.append((texts(summary), open_run(Path(summary.run), GUIDE).lines(TOKEN_REWARDS)))
    one_by_one, together = found
    assert one_by_one == together


def test_what_is_only_a_piece_of_a_response_leaves_no_vector_behind(
    tiny_models: TinyModels, tmp_path: Path, minilm: SentenceEncoder
) -> None:
    benchmark, before = drinks(3), len(minilm._store)
    guide(benchmark, str(tiny_models.causal()), ["embedding"], views=["none"], guiding=SMALL, out=tmp_path)
    whole = {text for item in benchmark.comparisons for text in (item.prompt, *item.responses)}
    assert len(minilm._store) - before <= len(whole)


def test_what_cannot_be_rated_is_left_out_with_its_reason(tiny_models: TinyModels, tmp_path: Path) -> None:
    class Picky:
        name = "picky"
        fingerprint = "1"

        def rate(self, asks: Sequence[Ask]) -> list[Rating]:
            return [
                Rating(unscored="no idea")
                if ask.id == "item-1"
                else Rating([float(len(text)) for text in ask.responses])
                for ask in asks
            ]

    summary = guide(
        drinks(3),
        str(tiny_models.causal()),
        [Picky()],
        Letters(),
        views=["none"],
        guiding=SMALL,
        weights=[1],
        out=tmp_path,
    )
    assert summary.complete
    [pairs] = summary.accuracies
    assert (pairs.n, pairs.left_out, pairs.reasons) == (2, 1, {"no idea": 1})
    alone, guided = summary.texts
    assert (alone.n, guided.n, guided.failed) == (3, 2, 1)
    assert guided.over_alone is not None
    assert guided.over_alone.n == 2
    assert any("no idea" in finding.text for finding in summary.findings)


def test_completions_are_written_and_comparisons_alone_are_followed(tiny_models: TinyModels, tmp_path: Path) -> None:
    policy = str(tiny_models.causal())
    with pytest.raises(PalateError, match=r"no comparisons.*--critic"):
        guide(drinks(0, completions=2), policy, ["longest"], views=["none"], out=tmp_path)
    summary = guide(
        drinks(2, completions=3),
        policy,
        ["longest"],
        Letters(),
        views=["none"],
        guiding=SMALL,
        weights=[1],
        out=tmp_path,
    )
    assert (summary.items, summary.pairs) == (5, 2)
    assert summary.accuracies[0].n == 2
    assert all(one.n == 5 for one in summary.texts)


def test_several_views_of_policy_and_guide(tiny_models: TinyModels, tmp_path: Path) -> None:
    benchmark = load_benchmark("mini")
    summary = guide(
        benchmark,
        str(tiny_models.causal()),
        ["overlap"],
        Letters(),
        policy_views=["none", "values"],
        views=["none", "judgements:1"],
        guiding=Guiding(top_k=2, tokens=2),
        weights=[1],
        limit=2,
        out=tmp_path,
    )
    assert summary.complete
    assert len(summary.accuracies) == 4
    assert len(summary.texts) == 6
    run = open_run(Path(summary.run))
    document = write_report(run, summary)
    for file in ("report.html", "report.md"):
        words = (run.folder / file).read_text(encoding="utf-8")
        assert all(name in words for name in ("overlap", "judgements:1", "values"))
    assert {file.name for file in run.folder.iterdir()} == {
        *FILES, "views.jsonl", "parts.jsonl", "items.jsonl", "settings.json", "spent.json",
        "report.html", "report.md", "results.csv", "summary.json",
    }  # fmt: skip
    assert GUIDE.summarise(run) == summary
    pairs, written = ([card for card in document.items if bool(card.ratings) == rated] for rated in (True, False))
    assert len(pairs) == 2
    assert len({card.id for card in written}) == 4
    assert [len(card.texts) for card in written] == [3] * 4
    assert {rating.view for card in pairs for rating in card.ratings} == {"none", "judgements:1"}
    assert not GUIDE.document(run, summary, users=False).items


def test_every_key_of_the_json_stands_on_its_page() -> None:
    page = (Path(__file__).parents[2] / "docs/guided-decoding.md").read_text(encoding="utf-8")
    structs = [one for one in vars(_results).values() if hasattr(one, "__struct_fields__")]
    own = [struct for struct in structs if struct.__module__ == _results.__name__]  # others stand on other pages
    keys = {key for struct in own for key in struct.__struct_fields__}
    assert len(keys) > 40
    assert not {key for key in keys if f"`{key}`" not in page}
