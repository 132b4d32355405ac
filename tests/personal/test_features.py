"""Features are standardised on the training texts, and nothing lies beyond their edges."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from palate.data import load_benchmark
from palate.personal import PersonalModel
from palate.personal._features import EDGES, USUAL, Features
from palate.personal._pairs import offered
from palate.personal._private import standardise_publicly
from palate.records import Ask, View
from planted import planted

ODD = "Please" + "..." * 400
"""A text that no person of the training data ever saw the like of."""
TEXTS = ["I went to the lake.", "Do you know 12 or 14 of them? Perhaps!", "It is a long and quiet road, my friend."]


def rows_of(features: Features, texts: list[str]) -> np.ndarray:
    return features.rows([""] * len(texts), texts, [None] * len(texts))


@pytest.fixture
def features() -> Features:
    made = Features("traits")
    made.rows(*offered(load_benchmark("mini").comparisons))
    return made


def test_training_texts_are_taken_as_they_are(features: Features) -> None:
    prompts, responses, places = offered(load_benchmark("mini").comparisons)
    within = features.rows(prompts, responses, places)
    assert np.abs(within.mean(0)).max() < 1e-4
    features.without_edges()
    assert (features.rows(prompts, responses, places) == within).all()


def test_what_lies_beyond_all_training_texts_is_taken_at_the_edge(features: Features) -> None:
    learned = features.rows(*offered(load_benchmark("mini").comparisons))
    deviation = learned.std(0) + 1e-6
    odd = rows_of(features, [ODD])[0]
    assert (odd >= np.minimum(learned.min(0), -USUAL * deviation) - deviation).all()
    assert (odd <= np.maximum(learned.max(0), USUAL * deviation) + deviation).all()
    assert (features.rows_of_posts([ODD]) != odd).any()
    features.without_edges()
    assert (features.rows_of_posts([ODD]) == rows_of(features, [ODD])).all()
    assert np.abs(rows_of(features, [ODD])[0]).max() > 2 * np.abs(odd).max()


def test_no_edge_is_the_value_of_a_training_text(features: Features) -> None:
    raw = features.read(*offered(load_benchmark("mini").comparisons))
    varies = raw.std(0) > 1e-6
    for edge in EDGES:
        assert not (raw == features.tensors()[edge])[:, varies].any()


def test_each_training_has_its_own_standard() -> None:
    short = planted(couples=6).comparisons
    long = [msgspec.structs.replace(one, responses=tuple(text * 40 for text in one.responses)) for one in short]
    once = PersonalModel("bradley-terry", features="traits").fit(long, {})
    again = PersonalModel("bradley-terry", features="traits").fit(short, {}).fit(long, {})
    assert again.fingerprint == once.fingerprint


def test_few_training_texts_do_not_narrow_what_can_be_told() -> None:
    few = Features("traits")
    learned = rows_of(few, TEXTS[:2])
    between = rows_of(few, [TEXTS[2]])
    few.without_edges()
    near = np.abs(rows_of(few, [TEXTS[2]])) <= USUAL * learned.std(0)
    assert near.sum() > near.size / 2
    assert (rows_of(few, [TEXTS[2]])[near] == between[near]).all()


def test_public_texts_set_no_edges_for_private_ones() -> None:
    public, usual = Features("traits"), Features("traits")
    standardise_publicly(public)
    usual.rows(*offered(load_benchmark("mini").comparisons))
    assert np.abs(rows_of(public, [ODD])).max() > np.abs(rows_of(usual, [ODD])).max()


def test_a_model_of_an_earlier_version_rates_as_it_did(tmp_path: Path) -> None:
    benchmark = planted(couples=6, choices=6, history=4)
    model = PersonalModel("per-user", features="traits").fit(benchmark.comparisons, benchmark.users)
    model.save(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    save_file({name: one for name, one in tensors.items() if name not in EDGES}, tmp_path / "model.safetensors")
    earlier = PersonalModel.load(tmp_path)
    known = View(name="user", user_id=benchmark.comparisons[0].user_id, by_name=True)
    usual = Ask(id="usual", prompt="Well?", responses=benchmark.comparisons[0].responses, view=known)
    odd = Ask(id="odd", prompt="Well?", responses=(TEXTS[0], ODD), view=known)
    assert earlier.rate([usual]) == model.rate([usual])
    assert earlier.rate([odd]) != model.rate([odd])
    assert earlier.fingerprint != model.fingerprint
