"""Runs of every kind about the same few people, made once by real use of a tiny policy."""

from __future__ import annotations

from pathlib import Path

import pytest
from people import people

from palate.downstream import Drawing, Guiding, Training, best_of_n, guide, ppo, steer
from palate.evaluation import evaluate, summarise
from palate.runs import open_run, write_report
from tiny_models import TinyModels

CRITIC = "reference:rouge1,encoder=none"


@pytest.fixture(scope="session")
def every_run(tmp_path_factory: pytest.TempPathFactory, tiny_models: TinyModels) -> Path:
    """A folder of runs: `rated`, `best`, `guided`, `table` with its parts, `trained`, and the samples they share."""
    pytest.importorskip("rouge_score", reason="the critic reference needs .[downstream]")
    out = tmp_path_factory.mktemp("every-run") / "runs"
    policy, drawing = f"{tiny_models.causal()},device=cpu", Drawing(samples=2, tokens=4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PALATE_CACHE", str(out.parent / "cache"))
        rated = evaluate(people(), ["overlap"], ["none", "posts:1", "swapped"], out=out).run
        write_report(open_run(Path(rated)), summarise(open_run(Path(rated))))
        best = best_of_n(
            people(),
            policy,
            ["overlap"],
            CRITIC,
            views=["posts:1", "swapped"],
            policy_views=["none", "posts:1"],
            drawing=drawing,
            out=out,
        )
        guided = guide(
            people(),
            policy,
            ["overlap"],
            CRITIC,
            views=["posts:1", "swapped"],
            guiding=Guiding(top_k=2, tokens=3),
            weights=[1.0],
            out=out,
        )
        table = steer(
            people(),
            policy,
            ["overlap"],
            critic=CRITIC,
            views=["posts:1", "swapped"],
            in_context=["posts:1", "swapped:posts:1"],
            drawing=drawing,
            top_k=2,
            out=out,
        )
        training = Training(steps=1, prompts=4, samples=2, tokens=4, minibatches=1, test_share=0.5, test_samples=2)
        trained = ppo(
            people(),
            policy,
            "overlap",
            CRITIC,
            view="posts:1",
            training=training,
            out=out,
        )
        write_report(open_run(Path(best.run)), best)
        write_report(open_run(Path(guided.run)), guided)
        write_report(open_run(Path(table.run)), table)
        write_report(open_run(Path(trained.run)), trained)
    for name, run in {"rated": rated, "best": best.run, "guided": guided.run, "table": table.run}.items():
        Path(run).rename(out / name)
    Path(trained.run).rename(out / "trained")
    return out
