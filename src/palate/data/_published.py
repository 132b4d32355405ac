"""Preference data that others published on the hub, each in its own fields, as comparisons of people.

A reader takes a row of the upstream file and gives the choices that it holds. Rows that hold none (ties, missing
answers) are counted by reason, and the card says how many.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

import msgspec

from palate.data._draft import BenchmarkDraft, FieldError, Location, explain
from palate.data._exchange import comparison_of
from palate.data._files import Row, read_rows
from palate.data._tables import NOBODY, Message, render_turns, turns_of
from palate.records import Card, Completion, Judgement, PalateError, Post, User

_TURNS = ("first", "second", "third", "fourth")


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """One choice, as a published row tells it."""

    prompt: str
    responses: tuple[str, ...]
    preferred: int
    user: str | None = None
    """None where the data name nobody."""
    id: str | None = None
    category: str | None = None
    group: str | None = None
    shown: tuple[int, ...] | None = None
    reason: str | None = None
    sequence: int | None = None
    posts: tuple[str, ...] = ()
    """What the user wrote or said of themself, where it comes with the row."""
    earlier: tuple[tuple[str, str, str], ...] = ()
    """Prompt, chosen and rejected of earlier choices that come with the row."""
    demographics: Mapping[str, str] = {}
    values: tuple[str, ...] = ()


class LeftOut(msgspec.Struct, frozen=True):
    """Why a row, or a part of one, holds no choice."""

    reason: str


Reader = Callable[[Row], Iterable[Choice | LeftOut]]


def read_published(files: Iterable[Path], card: Card, source: str, reader: Reader) -> BenchmarkDraft:
    """Choices in the order of the files; a user's history is what the rows before tell."""
    draft = BenchmarkDraft(card=card, source=source, unordered=True)
    rows = (read for path in files for read in read_rows(path, draft.faults))
    return _gather(draft, ((reader(row), place) for row, place in rows))


def _gather(draft: BenchmarkDraft, parts: Iterable[tuple[Iterable[Choice | LeftOut], Location]]) -> BenchmarkDraft:
    left_out: Counter[str] = Counter()
    users: dict[str, tuple[Location, User]] = {}
    history: dict[str, list[Judgement]] = defaultdict(list)
    for choices, place in parts:
        try:
            for choice in choices:
                if isinstance(choice, LeftOut):
                    left_out[choice.reason] += 1
                else:
                    _add(draft, choice, place, users, history)
        except FieldError as problem:
            draft.faults.append(explain(problem, place))
    draft.users = [
        (msgspec.structs.replace(user, judgements=(*user.judgements, *history[id])), place)
        for id, (place, user) in users.items()
    ]
    notes = tuple(f"{reason}, left out: {count:,}" for reason, count in left_out.items())
    draft.card = msgspec.structs.replace(draft.card, notes=(*draft.card.notes, *notes))
    return draft


def _add(
    draft: BenchmarkDraft,
    choice: Choice,
    place: Location,
    users: dict[str, tuple[Location, User]],
    history: dict[str, list[Judgement]],
) -> None:
    number = len(draft.comparisons)
    id = choice.user or f"{NOBODY}{number}"
    judgement = Judgement(
        id=choice.id or f"{id}-{number}",
        prompt=choice.prompt,
        responses=choice.responses,
        preferred=choice.preferred,
        reason=choice.reason,
        sequence=number + 1 if choice.sequence is None else choice.sequence,
    )
    comparison = comparison_of(judgement, id, category=choice.category, group=choice.group)
    draft.comparisons.append((msgspec.structs.replace(comparison, shown=choice.shown), place))
    if choice.user is not None:
        history[id].append(judgement)
    if id not in users:
        users[id] = (place, _user(id, choice))


def _user(id: str, choice: Choice) -> User:
    return User(
        id=id,
        demographics=dict(choice.demographics),
        values=choice.values,
        posts=tuple(Post(id=f"{id}-post-{number}", text=text) for number, text in enumerate(choice.posts)),
        judgements=tuple(
            Judgement(id=f"{id}-earlier-{number}", prompt=prompt, responses=(chosen, rejected), preferred=0, sequence=0)
            for number, (prompt, chosen, rejected) in enumerate(choice.earlier)
        ),
    )


def _text(row: Mapping[str, object], field: str) -> str:
    value = row.get(field)
    if value is None or value == "":
        raise FieldError(field, "is missing")
    if not isinstance(value, str | int):
        raise FieldError(field, "expected a string")
    return str(value)


def _list(row: Mapping[str, object], field: str) -> list[object]:
    """A list, or a list that was written into a cell."""
    value = _written(row.get(field))
    if not isinstance(value, list | tuple):
        raise FieldError(field, "expected a list")
    return list(value)


def _written(value: object) -> object:
    """A list or an object that a cell holds as JSON, or as Python prints it; anything else as it is."""
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{")):
        return value
    try:
        return cast("object", msgspec.json.decode(value))
    except msgspec.DecodeError:
        pass
    try:
        return cast("object", ast.literal_eval(value.strip()))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return value


def _object(value: object, field: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise FieldError(field, "expected an object")
    return value


def _texts(row: Mapping[str, object], *fields: str) -> dict[str, str]:
    """The fields that are there, as demographics."""
    found = {field: row.get(field) for field in fields}
    return {field: str(value) for field, value in found.items() if isinstance(value, str | int) and value != ""}


def read_table_row(row: Row, *, user: str | None = None, category: str | None = None) -> Iterator[Choice | LeftOut]:
    """Prompt, chosen and rejected, each a text or messages; several of either are each compared."""
    prompt = render_turns(turns_of(row.get("prompt", row.get("context")), "prompt"))
    chosen, rejected = (_answers(row.get(field), field) for field in ("chosen", "rejected"))
    for number, text in enumerate(chosen):
        others = tuple(other for other in rejected if other != text)
        if not others:
            yield LeftOut("rows whose chosen and rejected texts are the same")
            continue
        own = str(row["id"]) if row.get("id") is not None and user is None else None
        yield Choice(
            user=_text(row, user) if user else None,
            prompt=prompt,
            responses=(text, *others),
            preferred=0,
            category=str(row[category]) if category and row.get(category) else None,
            id=f"{own}-{number}" if own and len(chosen) > 1 else own,
            group=own if len(chosen) > 1 else None,
        )


def _answers(value: object, field: str) -> list[str]:
    if isinstance(value, list) and value and all(isinstance(text, str) for text in value):
        return [str(text) for text in value]
    if isinstance(value, Mapping):
        value = [value]
    return [render_turns(turns_of(value, field), "assistant")]


def read_community_alignment(row: Row) -> Iterator[Choice | LeftOut]:
    """`facebook/community-alignment-dataset`: up to four turns, each with four responses to choose from."""
    user = _text(row, "annotator_id")
    said: list[Message] = []
    for turn in _TURNS:
        prompt = row.get(f"{turn}_turn_prompt")
        if not isinstance(prompt, str) or not prompt:
            return
        said.append(Message("user", prompt))
        responses = [row.get(f"{turn}_turn_response_{letter}") for letter in "abcd"]
        letter = str(row.get(f"{turn}_turn_preferred_response") or "").strip().lower()[-1:]
        if letter not in ("a", "b", "c", "d") or not isinstance(responses["abcd".index(letter)], str):
            yield LeftOut("turns without a preferred response")
            return
        present = [(place, text) for place, text in enumerate(responses) if isinstance(text, str)]
        preferred = [place for place, _ in present].index("abcd".index(letter))
        texts = tuple(text for _, text in present)
        if texts.count(texts[preferred]) > 1 or len(texts) < 2:
            yield LeftOut("turns with the same text twice")
        else:
            yield Choice(
                user=user,
                prompt=render_turns(tuple(said)),
                responses=texts,
                preferred=preferred,
                group=str(row["conversation_id"]) if row.get("conversation_id") else None,
                shown=tuple(range(len(texts))),
                reason=str(row.get(f"{turn}_turn_feedback") or "") or None,
                category=str(row["assigned_lang"]) if row.get("assigned_lang") else None,
                demographics=_texts(row, *(f"annotator_{name}" for name in _TRAITS)),
            )
        said.append(Message("assistant", texts[preferred]))


_TRAITS = ("age", "gender", "education_level", "political", "ethnicity", "country")


def read_arena(row: Row) -> Iterator[Choice | LeftOut]:
    """`lmsys/chatbot_arena_conversations` and `lmarena-ai/arena-human-preference-140k`: two conversations, a winner.

    The person is the judge or, in the second, the session, in which somebody may have come back as somebody else.
    """
    winner = str(row.get("winner") or "")
    if winner not in ("model_a", "model_b"):
        yield LeftOut("ties in which both are bad" if "bad" in winner else "ties")
        return
    one, other = (_conversation(row, f"conversation_{side}") for side in "ab")
    if one[0] != other[0] or min(len(one), len(other)) < 2:
        yield LeftOut("conversations that do not begin with the same question")
        return
    texts = tuple(render_turns(turns[1:], "assistant") for turns in (one, other))
    if texts[0] == texts[1]:
        yield LeftOut("pairs with the same text twice")
        return
    order = row.get("evaluation_order")
    yield Choice(
        user=_text(row, "judge" if "judge" in row else "evaluation_session_id"),
        prompt=one[0].content,
        responses=texts,
        preferred=int(winner == "model_b"),
        shown=(0, 1),
        category=str(row["language"]) if row.get("language") else None,
        id=str(row.get("question_id") or row.get("id") or "") or None,
        sequence=order if isinstance(order, int) else None,
    )


def _conversation(row: Row, field: str) -> tuple[Message, ...]:
    """Messages whose content is a text, or a list of parts of which the texts are kept."""
    turns = []
    for value in _list(row, field):
        message = _object(value, field)
        content = message.get("content")
        if isinstance(content, list):
            parts = [part.get("text") for part in content if isinstance(part, Mapping)]
            content = "\n".join(str(text) for text in parts if text)
        turns.append(Message(str(message.get("role")), str(content or "")))
    if not turns:
        raise FieldError(field, "holds no message")
    return tuple(turns)


def read_multipref(row: Row) -> Iterator[Choice | LeftOut]:
    """`allenai/multipref`: every pair judged by several people, crowd workers and experts."""
    responses = (_text(row, "completion_a"), _text(row, "completion_b"))
    for kind in ("normal", "expert"):
        for value in _list(row, f"{kind}_worker_annotations") if row.get(f"{kind}_worker_annotations") else []:
            judged = _object(value, f"{kind}_worker_annotations")
            side = str(judged.get("overall_pref") or "")[:2].upper()
            if side not in ("A-", "B-"):
                yield LeftOut("ties")
                continue
            user = _text(judged, "evaluator")
            yield Choice(
                user=user,
                prompt=_text(row, "text"),
                responses=responses,
                preferred="AB".index(side[0]),
                shown=(0, 1),
                category=str(row["category"]) if isinstance(row.get("category"), str) else None,
                id=f"{_text(row, 'comparison_id')}-{user}",
                demographics={"worker": kind},
            )


def read_summaries(row: Row) -> Iterator[Choice | LeftOut]:
    """`openai/summarize_from_feedback`, comparisons: which of two summaries of a post."""
    info = _object(row.get("info"), "info")
    texts = tuple(_text(_object(one, "summaries"), "text").strip() for one in _list(row, "summaries"))
    chosen = row.get("choice")
    if not isinstance(chosen, int) or not 0 <= chosen < len(texts):
        raise FieldError("choice", f"expected a number from 0 to {len(texts) - 1}")
    if len(set(texts)) < len(texts):
        yield LeftOut("pairs with the same text twice")
        return
    yield Choice(
        user=_text(row, "worker"),
        prompt=_text(info, "post" if info.get("post") else "article"),
        responses=texts,
        preferred=chosen,
        shown=tuple(range(len(texts))),
        category=str(info["subreddit"]) if info.get("subreddit") else None,
        reason=str(row.get("note") or "") or None,
    )


def read_personal_llm(row: Row) -> Iterator[Choice | LeftOut]:
    """`namkoong-lab/PersonalLLM`: eight responses, scored by reward models. Each of them stands for a person here."""
    responses = tuple(_text(row, f"response_{number}") for number in range(1, 9))
    fields = {found[1] for field in row if (found := re.fullmatch(r"response_1_(.+)", field))}
    scorers = sorted(fields - {"model"})  # `response_1_model` names what wrote the response
    if not scorers:
        raise FieldError("response_1_MODEL", "is missing: no reward model scored the responses")
    for scorer in scorers:
        scores = [row.get(f"response_{number}_{scorer}") for number in range(1, 9)]
        if not all(isinstance(score, int | float) for score in scores):
            yield LeftOut("responses that a reward model did not score")
            continue
        best = max(range(8), key=lambda place: float(scores[place]))  # type: ignore[arg-type]
        if responses.count(responses[best]) > 1:
            yield LeftOut("prompts whose best response is there twice")
            continue
        yield Choice(user=scorer, prompt=_text(row, "prompt"), responses=responses, preferred=best)


def read_persona_mem(row: Row) -> Iterator[Choice | LeftOut]:
    """`bowen-upenn/PersonaMem-v2`: the right answer for a persona among wrong ones. The right one comes first here."""
    query = _written(row.get("user_query"))
    prompt = _text(query, "content") if isinstance(query, Mapping) else _text(row, "user_query")
    right = _text(row, "correct_answer")
    wrong = [str(text) for text in _list(row, "incorrect_answers") if str(text) != right]
    if not wrong:
        yield LeftOut("questions without another answer")
        return
    yield Choice(
        user=f"persona-{_text(row, 'persona_id')}",
        prompt=prompt,
        responses=(right, *wrong),
        preferred=0,
        category="updated" if str(row.get("updated")).lower() == "true" else "not updated",
    )


def read_pref_eval(row: Row) -> Iterator[Choice | LeftOut]:
    """PrefEval: a stated preference, a question, and options of which the first respects it.

    Options are put into an order of their own, so that the place of the right one tells nothing.
    """
    options = tuple(str(text) for text in _list(row, "classification_task_options"))
    if len(set(options)) < max(2, len(options)):
        yield LeftOut("questions with the same option twice, or with one")
        return
    stated, question = _text(row, "preference"), _text(row, "question")
    shuffled = tuple(sorted(options, key=lambda text: _hash(stated, question, text)))
    yield Choice(
        user=f"states-{_hash(stated)}",
        prompt=question,
        responses=shuffled,
        preferred=shuffled.index(options[0]),
        posts=(stated,),
    )


def _hash(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def read_align_x(row: Row) -> Iterator[Choice | LeftOut]:
    """`JinaLeejnl/AlignX`: a pair with what the person wrote and chose before. Each row is a person of its own."""
    posts, pairs = (
        [_object(one, field) for one in (_list(row, field) if row.get(field) else [])]
        for field in ("User-Generated Content", "Pair-wise Comparative Feedback")
    )
    prompt, chosen, rejected = (_text(row, field) for field in ("prompt", "chosen", "rejected"))
    if chosen == rejected:
        yield LeftOut("pairs with the same text twice")
        return
    yield Choice(
        user=f"row-{_hash(prompt, chosen, rejected)}",
        prompt=prompt,
        responses=(chosen, rejected),
        preferred=0,
        posts=tuple(str(post["comment"]) for post in posts if post.get("comment")),
        earlier=tuple((_text(pair, "prompt"), _text(pair, "chosen"), _text(pair, "rejected")) for pair in pairs),
        demographics=_texts(row, "Demographic Information"),
    )


def read_collective_alignment(row: Row, *, blocks: Sequence[str] = ("personal",)) -> Iterator[Choice | LeftOut]:
    """`openai/collective-alignment-1`: rankings by each annotator, for themself (`personal`) or for the `world`."""
    messages = _object(row.get("prompt"), "prompt").get("messages")
    prompt = render_turns(_conversation({"messages": messages}, "messages"))
    texts: dict[str, str] = {}
    for value in _list(row, "responses"):
        response = _object(value, "responses")
        turns = _conversation({"messages": response.get("messages")}, "messages")
        texts[_text(response, "response_index")] = turns[-1].content
    assessments = _list(_object(row.get("metadata"), "metadata"), "assessments")
    for judged, block in ((_object(one, "metadata.assessments"), block) for one in assessments for block in blocks):
        found = _object(judged.get("ranking_blocks"), "ranking_blocks").get(block) or []
        ranked = [_object(one, "ranking_blocks") for one in (found if isinstance(found, list) else [found])]
        best = str(ranked[0].get("ranking") or "").split(">")[0].strip() if ranked else ""
        if best not in texts or len(texts) < 2:
            yield LeftOut(f"{block} rankings without one best response")
            continue
        order = sorted(texts)
        yield Choice(
            user=_text(judged, "annotator_id"),
            prompt=prompt,
            responses=tuple(texts[index] for index in order),
            preferred=order.index(best),
            reason=str(ranked[0].get("rationale") or "") or None,
            category=block,
        )


def read_lamp(files: Sequence[Path], card: Card, source: str) -> BenchmarkDraft:
    """LaMP and LongLaMP: an input, the profile of who wrote the output, and the output. Each row is a person.

    LaMP keeps outputs in a file of their own (`golds`), which are found by id; LongLaMP has them in the row.
    """
    draft = BenchmarkDraft(card=card, source=source, unordered=True)
    rows = [(path, row, place) for path in files for row, place in read_rows(path, draft.faults)]
    golds: dict[str, str] = {}
    for _, row, place in rows:
        try:
            for gold in _list(row, "golds") if "golds" in row else []:
                golds[_text(_object(gold, "golds"), "id")] = _text(_object(gold, "golds"), "output")
        except FieldError as problem:
            draft.faults.append(explain(problem, place))
    without = 0
    for path, row, place in rows:
        if "golds" in row:
            continue
        try:
            id = str(row["id"]) if row.get("id") is not None else f"{path.parent.name}-{len(draft.users)}"
            output = row.get("output") or golds.get(id)
            if not isinstance(output, str):
                without += 1
                continue
            entries = _list(row, "profile") if row.get("profile") else []
            texts = [_entry(one) for one in entries]
            posts = [Post(id=f"{id}-{number}", text=text) for number, text in enumerate(texts) if text]
            item = Completion(id=id, user_id=f"row-{id}", prompt=_text(row, "input"), text=output)
        except FieldError as problem:
            draft.faults.append(explain(problem, place))
            continue
        draft.users.append((User(id=f"row-{id}", posts=tuple(posts)), place))
        draft.completions.append((item, place))
    if without:
        note = f"questions without an output, left out: {without:,}"
        draft.card = msgspec.structs.replace(draft.card, notes=(*draft.card.notes, note))
    return draft


def _entry(value: object) -> str:
    """A profile entry as a text: what its fields say, a field a line, without its id."""
    if isinstance(value, str):
        return value
    fields = _object(value, "profile").items()
    return "\n".join(str(text) for name, text in fields if name != "id" and isinstance(text, str | int) and text != "")


def read_prism(files: Sequence[Path], card: Card, source: str) -> BenchmarkDraft:
    """`HannahRoseKirk/prism-alignment`: utterances by turn, with what the survey says of each person."""
    draft = BenchmarkDraft(card=card, source=source, unordered=True)
    by_name = {path.name.split(".")[0]: path for path in files}
    if "utterances" not in by_name:
        raise PalateError(f"{source}: no file utterances.jsonl; PRISM has survey, conversations and utterances")
    people: dict[str, Row] = {}
    for row, _ in read_rows(by_name["survey"], draft.faults) if "survey" in by_name else ():
        people[str(row.get("user_id"))] = row
    begun: dict[str, str] = {}
    for row, _ in read_rows(by_name["conversations"], draft.faults) if "conversations" in by_name else ():
        begun[str(row.get("conversation_id"))] = str(row.get("generated_datetime") or "")
    turns: dict[str, list[Row]] = defaultdict(list)
    places: dict[str, Location] = {}
    listed: dict[str, int] = {}
    for row, place in read_rows(by_name["utterances"], draft.faults):
        interaction = str(row.get("interaction_id"))
        turns[interaction].append(row)
        places.setdefault(interaction, place)
        listed.setdefault(str(row.get("conversation_id")), len(listed))

    def when(interaction: str) -> tuple[str, int, int]:
        """One conversation after the other, as they were held; in each, one turn after the other."""
        first = turns[interaction][0]
        talk = str(first.get("conversation_id"))
        return begun.get(talk, ""), listed[talk], int(str(first.get("turn") or 0))

    talks: dict[str, list[Message]] = defaultdict(list)
    in_order = sorted(turns, key=when)
    return _gather(draft, ((_interaction(turns[name], people, talks), places[name]) for name in in_order))


def _interaction(
    rows: Sequence[Row], people: Mapping[str, Row], talks: dict[str, list[Message]]
) -> Iterator[Choice | LeftOut]:
    """The responses to one turn; `talks` holds what was said before, with the responses that were chosen."""
    first = rows[0]
    user, talk = _text(first, "user_id"), talks[_text(first, "conversation_id")]
    talk.append(Message("user", _text(first, "user_prompt")))
    texts = tuple(_text(row, "model_response") for row in rows)
    taken = [place for place, row in enumerate(rows) if str(row.get("if_chosen")).lower() == "true"]
    prompt = render_turns(tuple(talk))
    talk.append(Message("assistant", texts[taken[0]] if taken else texts[0]))
    if len(taken) != 1 or len(texts) < 2 or texts.count(texts[taken[0]]) > 1:
        yield LeftOut("turns without one chosen response among several")
        return
    survey = people.get(user, {})
    lives = survey.get("location")
    where = {f"location.{name}": value for name, value in lives.items()} if isinstance(lives, Mapping) else {}
    yield Choice(
        user=user,
        prompt=prompt,
        responses=texts,
        preferred=taken[0],
        id=_text(first, "interaction_id"),
        group=_text(first, "conversation_id"),
        posts=tuple(filter(None, [str(survey.get("self_description") or "")])),
        values=_stated(survey.get("stated_prefs")),
        demographics=_texts({**survey, **where}, "age", *where),
    )


def _stated(ratings: object) -> tuple[str, ...]:
    """What matters to a person of PRISM: what they rated above the middle of 0 to 100, the most important first.

    `order_stated_prefs` is only the order in which the survey showed the questions.
    """
    if not isinstance(ratings, Mapping):
        return ()
    names = {"other": str(ratings.get("other_text") or "")}
    rated = {str(name): value for name, value in ratings.items() if isinstance(value, int | float) and value > _MIDDLE}
    ranked = sorted(rated, key=lambda name: -rated[name])
    return tuple(filter(None, (names.get(name, name) for name in ranked)))


_MIDDLE = 50


def is_nobody(user_ids: Iterable[str]) -> bool:
    """Whether these are the users of data that name nobody."""
    return all(id.startswith(NOBODY) for id in user_ids)
