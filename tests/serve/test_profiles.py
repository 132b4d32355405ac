"""What the server shows of a user for a prompt of its benchmark: nothing that `palate eval` would not show there."""

from __future__ import annotations

from pathlib import Path

import msgspec

from palate.data import Pseudonyms, load_benchmark, write_benchmark
from palate.privacy import forget
from palate.records import Ask, Benchmark, Card, Comparison, Completion, Judgement, Post, Rating, User, View
from palate.serve import Profiles, trainer_ask
from palate.views import ViewBuilder, parse_view

CARD = Card(name="planted", title="Planted", version="1", licence="none", source="the test")
BREAD, TEA, TRIP = "How do I bake bread?", "How do I make tea?", "Where shall we go in May?"
WARM = "Leave the dough near something warm for an hour."
FLAT = "Buy a flat bread and warm it in the pan for a minute."
NORTH = "Take the night train to the north and walk along the coast."
HERE = "Stay here and see the old town at last, street by street."

ANN = User(
    id="ann",
    posts=(
        Post(id="1", date="2024-01-01", text="I never liked the oven."),
        Post(id="2", date="2024-03-05", text="We went north by night train, and it was the best week of the year."),
        Post(id="3", date="2024-09-01", text="Bread again: near something warm it rises twice as fast."),
    ),
    judgements=(
        Judgement(prompt=TEA, responses=("Boil it.", "Steep it for five minutes."), preferred=1, date="2024-01-02"),
        Judgement(prompt=BREAD, responses=(FLAT, "Ask a baker to do it for you."), preferred=0, date="2024-01-03"),
        Judgement(prompt=TRIP, responses=("To the sea.", "Nowhere."), preferred=0, date="2024-09-04"),
    ),
)
BEN = User(id="ben", posts=(Post(id="4", date="2024-01-01", text="Tea."),))
PLANTED = Benchmark(
    card=CARD,
    users={"ann": ANN, "ben": BEN},
    comparisons=(
        Comparison(id="q1", user_id="ann", prompt=BREAD, responses=(WARM, FLAT), preferred=0, date="2024-06-01"),
    ),
    completions=(Completion(id="c1", user_id="ann", prompt=TRIP, text=NORTH, alternatives=(HERE,), date="2024-02-01"),),
)
VIEW = "posts+judgements"


def seen(profiles: Profiles, prompt: str, *responses: str, user: str = "ann") -> list[str]:
    [ask] = profiles.fill([trainer_ask("1", prompt, responses or ("Yes.", "No."), user_id=user)])
    assert isinstance(ask, Ask), ask
    return [part.text for part in ask.view.parts]


def test_for_a_prompt_of_the_benchmark_nothing_is_shown_from_afterwards_or_of_its_answer(tmp_path: Path) -> None:
    write_benchmark(PLANTED, tmp_path / "planted")
    profiles = Profiles(tmp_path / "planted", VIEW)
    for prompt in (BREAD, f"  {BREAD.upper()} "):
        bread = "\n".join(seen(profiles, prompt))
        assert "oven" in bread and "north" in bread  # from before she was asked
        assert "Bread again" not in bread and "Ask a baker" not in bread
        assert "Steep it" in bread  # of another question
    trip = "\n".join(seen(profiles, TRIP))
    assert "oven" in trip and "Steep it" in trip
    assert "best week" not in trip and "To the sea" not in trip
    other = "\n".join(seen(profiles, "What shall I cook tonight?"))
    assert all(words in other for words in ("oven", "best week", "Bread again", "Steep it", "Ask a baker", "sea"))
    assert seen(profiles, BREAD, user="ben") == seen(profiles, TRIP, user="ben")  # who was not asked


def test_rollouts_that_hold_what_the_user_chose_elsewhere_see_no_more_than_others(tmp_path: Path) -> None:
    write_benchmark(PLANTED, tmp_path / "planted")
    profiles = Profiles(tmp_path / "planted", VIEW)
    repeated = "\n".join(seen(profiles, "Any news?", "Steep it for five minutes, please, and not a minute more."))
    assert "Ask a baker" in repeated
    assert "Steep it" not in "\n".join(seen(profiles, "How do I make tea?", "Something else."))


def test_no_more_is_shown_than_eval_shows() -> None:
    mini = load_benchmark("mini")
    profiles, builder, spec = Profiles("mini", VIEW), ViewBuilder(mini), parse_view(VIEW)
    left_out = 0
    for item, view in zip(mini.comparisons, builder.build(spec, mini.comparisons), strict=True):
        assert isinstance(view, View)
        served = seen(profiles, item.prompt, *item.responses, user=item.user_id)
        assert set(served) <= {part.text for part in view.parts}
        left_out += len(view.parts) - len(served)
    assert left_out < len(mini.comparisons)  # nearly all of it is there


def test_a_prompt_in_the_marks_of_a_chat_template_is_the_same_prompt(tmp_path: Path) -> None:
    short = Judgement(prompt="Tea?", responses=("Green.", "Black."), preferred=0, date="2024-09-05")
    ann = msgspec.structs.replace(ANN, judgements=(*ANN.judgements, short))
    write_benchmark(msgspec.structs.replace(PLANTED, users={**PLANTED.users, "ann": ann}), tmp_path / "planted")
    profiles = Profiles(tmp_path / "planted", VIEW)
    templates = (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n",
        "<s>[INST] {} [/INST]",
        "User: {}\nAssistant:",
    )
    for template in templates:
        for prompt in (BREAD, TEA, TRIP, "Tea?"):
            assert seen(profiles, template.format(prompt)) == seen(profiles, prompt)
        new = seen(profiles, template.format("What shall I read after my tea?"))
        assert any("Bread again" in text for text in new) and any("Green." in text for text in new)


def test_who_is_erased_while_the_server_runs_is_not_shown_any_more(tmp_path: Path) -> None:
    folder = tmp_path / "planted"
    write_benchmark(PLANTED, folder)
    profiles = Profiles(folder, VIEW)
    assert seen(profiles, "What shall I read?")
    receipt = forget("ann", Pseudonyms(b"k" * 32), data=[folder])
    assert any("palate serve" in line for line in receipt.not_erased)
    asks = [trainer_ask("1", "What shall I read?", ["A poem."], user_id=user) for user in ("ann", "ben")]
    ann, ben = profiles.fill(asks)
    assert isinstance(ann, Rating) and "no user 'ann'" in str(ann.unscored)
    assert isinstance(ben, Ask)
