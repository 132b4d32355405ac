"""A reader that goes on with texts finds for every row what the model finds when it reads the row alone."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from palate.engine import _reader  # noqa: E402
from palate.engine._reader import Reader  # noqa: E402
from tiny_models import CAUSAL, build  # noqa: E402

TEXTS = 5


def asked(seed: int, steps: int) -> Iterator[dict[int, list[list[int]]]]:
    """Rows of tokens for some texts at a time: texts rest and come back, go on by much or little, and take it back."""
    chance = random.Random(seed)

    def some(most: int) -> list[int]:
        return [chance.randrange(5, 300) for _ in range(chance.randint(1, most))]

    texts = [some(40) for _ in range(TEXTS)]
    for _ in range(steps):
        places = chance.sample(range(TEXTS), chance.randint(1, TEXTS))
        rows = {place: [[*texts[place], *some(4)] for _ in range(chance.randint(1, 4))] for place in places}
        yield rows
        for place, own in rows.items():
            taken = chance.choice(own)
            texts[place] = taken[: -chance.randint(1, 3)] if len(taken) > 6 and chance.random() < 0.2 else taken


@pytest.mark.parametrize("budget", [2**12, 40])
@pytest.mark.parametrize("packs", [True, False])
@pytest.mark.parametrize("family", CAUSAL)
def test_rows_are_read_as_if_alone(family: str, packs: bool, budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was read before, beside them and in how many passes; end to end, or laid out as for unknown models."""
    if not packs:
        monkeypatch.setattr(_reader, "PACKED", frozenset())
    model = build(family)
    reader = Reader(model)
    reader.budget = budget
    texts = reader.begin(TEXTS)
    for rows in asked(seed=7, steps=12):
        reader.read(texts, rows)
        for place, own in rows.items():
            for number, row in enumerate(own):
                with torch.inference_mode():
                    alone = model.base_model(input_ids=torch.tensor([row])).last_hidden_state[0]
                found = texts.states(texts.where(place, number, 0, len(row)))
                assert torch.allclose(found, alone, rtol=1e-3, atol=1e-3)


def test_a_text_at_the_end_of_its_context_is_read_beside_one_with_much_to_add() -> None:
    reader = Reader(build("gpt2"))  # its positions are learned, and there is none beyond the last
    context = reader.model.config.max_position_embeddings
    texts = reader.begin(2)
    full, short = [5] * (context - 3), [6, 6, 6]
    reader.read(texts, {0: [full], 1: [short]})
    reader.read(texts, {0: [[*full, 7], [*full, 8, 7]], 1: [[*short, *[9] * 30], [*short, *[8] * 30]]})
    last = texts.states(texts.where(0, 1, context - 2, context - 1))[0]
    with torch.inference_mode():
        alone = reader.model.base_model(torch.tensor([[*full, 8, 7]])).last_hidden_state[0, -1]
    assert torch.allclose(last, alone, atol=1e-4)


def test_only_a_text_that_has_to_moves_in_memory() -> None:
    """When a text ends, the last one takes its row; the others stay where they are."""
    texts = Reader(build("llama")).begin(4)
    texts.bring_forward([0, 2, 3])
    assert texts.places == [0, 3, 2, 1]
    texts.bring_forward([2, 0])
    assert texts.places == [0, 2, 3, 1]
    texts.bring_forward([1, 0, 3, 2])
    assert [texts.row(place) for place in range(4)] == [0, 3, 1, 2]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU that torch can use")
@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "gemma3"])
def test_on_a_gpu_it_is_as_near_as_rounding_lets_it(family: str) -> None:
    exact, model = build(family), build(family).to("cuda", torch.bfloat16)
    reader = Reader(model)
    texts = reader.begin(TEXTS)
    wrong, plainly_wrong, size = 0.0, 0.0, 0.0
    for rows in asked(seed=8, steps=6):
        reader.read(texts, rows)
        for place, own in rows.items():
            for number, row in enumerate(own):
                with torch.inference_mode():
                    right = exact.base_model(input_ids=torch.tensor([row])).last_hidden_state[0]
                    alone = model.base_model(input_ids=torch.tensor([row], device="cuda")).last_hidden_state[0]
                found = texts.states(texts.where(place, number, 0, len(row)))
                wrong += float((found.float().cpu() - right).square().sum())
                plainly_wrong += float((alone.float().cpu() - right).square().sum())
                size += float(right.square().sum())
    assert (wrong / size) ** 0.5 < 1.5 * (plainly_wrong / size) ** 0.5 + 1e-2
