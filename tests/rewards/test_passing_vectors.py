"""What the embedding reward reads while texts grow: each piece of text once, whatever it is compared with."""

from __future__ import annotations

from palate.engine import Meter, SentenceEncoder, at_work, metering
from palate.records import Ask, Part, View
from palate.rewards._embedding import EmbeddingReward


def test_a_second_view_and_the_chosen_text_are_not_read_again(minilm: SentenceEncoder) -> None:
    post = View(name="posts", parts=(Part(kind="post", text="I keep bees and take long walks in the rain."),))
    asks = [
        Ask(id="one", prompt="What shall I do today?", responses=(), view=view) for view in (View(name="none"), post)
    ]
    steps = [["Walk", "Sleep", "Read"], ["Walk", "Walk in", "Walk on"]]  # the first of the second ends what was chosen
    reward, read, scores = EmbeddingReward(), [], []
    for ask in asks:
        follower = reward.follow([ask])
        for texts in steps:
            with metering(Meter()) as meter, at_work("reward model", "embedding"):
                scores.append(follower.rate({0: texts})[0].scores)
            read.append(meter.models[0].prompt_tokens)
    each = [len(ids) for texts in steps for ids in minilm._model.tokenizer(texts)["input_ids"]]
    assert read == [sum(each[:3]), sum(each[4:]), 0, 0]
    plain = [EmbeddingReward().follow([ask]).rate({0: texts})[0].scores for ask in asks for texts in steps]
    for own, other in zip(scores, plain, strict=True):
        assert own is not None and other is not None
        assert all(abs(one - two) < 1e-5 for one, two in zip(own, other, strict=True))
    assert scores[0] != scores[2]  # and the view counts
