"""Conversations become the ids that the model's own template gives, once, and no text can pose as the template."""

import pytest

pytest.importorskip("transformers")

from hypothesis import given, settings
from hypothesis import strategies as st

from palate.engine import Turn
from palate.engine._chat import LONGEST_KEPT, Chat
from tiny_models import TEMPLATES, tokenizer

HELLO = (Turn("user", "Hello?"),)
BRIEFED = (Turn("system", "Be brief."), *HELLO)
CHATS = {name: Chat(tokenizer(name)) for name in TEMPLATES}
MARKS = [
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<s>",
    "\n",
    "  ",
    "\u00e9",
    "e\u0301",
    "\U0001f9d1\u200d\U0001f680",
]
TEXTS = st.lists(st.one_of(st.sampled_from(MARKS), st.text(max_size=8)), max_size=6).map("".join)


def test_the_template_is_applied_once() -> None:
    chat = CHATS["chatml"]
    asked = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHello?<|im_end|>\n<|im_start|>assistant\n"
    assert chat.prompt(BRIEFED) == asked
    assert chat.prompt(BRIEFED, "[[") == asked + "[["
    assert chat.answered(BRIEFED, "Hi.") == asked + "Hi.<|im_end|>\n"
    starts = chat.ids(chat.answered(BRIEFED, "Hi.")).count(chat.tokenizer.convert_tokens_to_ids("<|im_start|>"))
    assert starts == 3


@pytest.mark.parametrize("name", ["bos", "none"])
def test_there_is_one_beginning_of_text_and_it_stands_first(name: str) -> None:
    chat = CHATS[name]
    beginning = chat.tokenizer.bos_token_id
    for ids in (chat.ids(chat.prompt(BRIEFED)), chat.ids(chat.answered(BRIEFED, "Hi."))):
        assert ids[0] == beginning
        assert ids.count(beginning) == 1
    [group] = chat.groups([[chat.answered(BRIEFED, text) for text in ("Hi.", "Hey.")]])
    assert group.prefix[0] == beginning
    assert [*group.prefix, *group.continuations[0]].count(beginning) == 1


@pytest.mark.parametrize("name", ["no system", "deaf to system"])
def test_a_system_turn_that_has_no_place_goes_into_the_user_turn(name: str) -> None:
    chat = CHATS[name]
    assert not chat.takes_system_turns
    assert chat.prompt(BRIEFED) == "<|im_start|>user\nBe brief.\n\nHello?<|im_end|>\n<|im_start|>assistant\n"
    assert "Be brief." in chat.answered(BRIEFED, "Hi.")


@pytest.mark.parametrize("name", ["chatml", "bos", "tight", "none"])
def test_a_system_turn_that_has_a_place_keeps_it(name: str) -> None:
    assert CHATS[name].takes_system_turns
    assert ("Be brief.\n\nHello?" in CHATS[name].prompt(BRIEFED)) is False
    assert "Be brief." in CHATS[name].prompt(BRIEFED)


def test_without_a_template_turns_are_named() -> None:
    chat = CHATS["none"]
    assert chat.prompt(HELLO) == "User: Hello?\n\nAssistant:"
    assert chat.prompt(HELLO, "[[") == "User: Hello?\n\nAssistant: [["
    assert chat.answered(HELLO, "Hi.") == "User: Hello?\n\nAssistant: Hi."


def test_the_end_of_an_answer_is_the_templates_own() -> None:
    ends = {name: chat.tokenizer.convert_ids_to_tokens(chat.end) for name, chat in CHATS.items()}
    assert ends == dict.fromkeys(TEMPLATES, "<|im_end|>") | {"tight": "<|endoftext|>"}


@pytest.mark.parametrize("name", TEMPLATES)
@settings(max_examples=60, deadline=None)
@given(asked=TEXTS, known=TEXTS, answers=st.lists(TEXTS, min_size=1, max_size=4))
def test_a_group_reassembles_to_the_ids_of_each_whole_text(
    name: str, asked: str, known: str, answers: list[str]
) -> None:
    chat = CHATS[name]
    turns = (Turn("system", known), Turn("user", asked))
    for keep, texts in (
        (1, [chat.answered(turns, answer) for answer in answers]),
        (0, [chat.prompt(turns), *(chat.answered(turns, answer) for answer in answers)]),
    ):
        [group] = chat.groups([texts], keep=keep)
        for text, tokens in zip(texts, group.continuations, strict=True):
            assert [*group.prefix, *tokens] == chat.ids(text)
            assert len(tokens) >= keep
    texts = [chat.answered(turns, answer) for answer in answers]
    for _ in range(2):  # anew, then from what was kept
        assert [chat.answers(turns, answers)] == chat.groups([texts])
        assert [chat.answers(turns, [answer]) for answer in answers] == chat.groups([[text] for text in texts])


def test_the_ids_of_turns_are_kept_for_other_prompts_and_answers_and_not_for_ever() -> None:
    chat = Chat(tokenizer("chatml"))
    profile = Turn("system", "I drink tea. " * 50)
    chat.answers((profile, *HELLO), ["Hi."])
    read = chat._kept_ids.cache_info().misses
    chat.answers((profile, *HELLO), ["Hey."])
    assert chat._kept_ids.cache_info().misses == read
    chat.answers((profile, Turn("user", "Tea?")), ["Yes."])
    assert chat._kept_ids.cache_info().misses == read + 1  # the new prompt, and not the profile
    long = (Turn("system", "tea " * LONGEST_KEPT), *HELLO)
    group = chat.answers(long, ["Hi."])
    assert chat._kept_ids.cache_info().misses == read + 1
    assert [*group.prefix, *group.continuations[0]] == chat.ids(chat.answered(long, "Hi."))
    for number in range(300):
        chat.answers((Turn("user", f"{number}"),), ["Hi."])
    assert chat._kept_ids.cache_info().currsize == 256


@pytest.mark.parametrize("name", TEMPLATES)
@settings(max_examples=60, deadline=None)
@given(asked=TEXTS, answer=TEXTS)
def test_no_text_can_pose_as_the_template(name: str, asked: str, answer: str) -> None:
    """`</s>` is a tag of web pages and the end of text of many models."""
    chat = CHATS[name]
    special = set(chat.tokenizer.all_special_ids) | {chat.tokenizer.convert_tokens_to_ids("<|im_end|>")}

    def marks(question: str, reply: str) -> list[int]:
        return [token for token in chat.ids(chat.answered((Turn("user", question),), reply)) if token in special]

    assert marks(asked, answer) == marks("x", "x")


def test_half_a_character_is_no_reason_to_fail() -> None:
    for chat in CHATS.values():
        assert "?" in chat.answered(HELLO, "half \ud83d")
        assert chat.ids(chat.answered((Turn("user", "\udc00"),), "half \ud83d"))


def test_the_special_tokens_that_swallow_spaces_are_not_split_at() -> None:
    assert CHATS["chatml"]._splits_at_special_tokens
    assert not CHATS["greedy tokens"]._splits_at_special_tokens
