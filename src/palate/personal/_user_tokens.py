"""`user-tokens`: each user has input tokens of their own, which stand before what a shared language model reads.

After P-RLHF (Li, Zhou, Lipton and Leqi, 2024, "Personalized Language Modeling from Personalized Human Feedback"),
which learns soft tokens of every user, generic ones for strangers, and a loss in which each choice also counts for
the generic user. A head turns the state at the last token into a reward, and the loss is that of Bradley and Terry
(1952), a softmax where more than two responses were offered:

    r_u(response | prompt) = w . h_last(t + s e_u, prompt, response)

    loss = - sum log softmax_i r_u(response_i | prompt) at the response that was taken + penalty / 2 sum_u |e_u|^2

t are the generic tokens, s the standard deviation of the base's word embeddings. Adapter, head, t and all e_u are
learned together; a quarter of the choices are read as nobody's, with e = 0. A user never met gets the e_u of least
loss on the judgements that are shown, with everything else held: with none, they are nobody. Where we differ: a
reward model is learned, not a policy, and a choice is read for its user or for nobody by a draw, not for both.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Self

import msgspec

from palate.personal._lora_classifier import TunedClassifier, TunedSettings
from palate.personal._lora_training import (
    NOBODY,
    Lesson,
    Read,
    Split,
    ask_of,
    batches,
    learn,
    losses,
    read_choice,
)
from palate.personal._method import Validate
from palate.personal._model import states_of
from palate.personal._pairs import Choice, choices_of
from palate.personal._tuned import Learn, TunedModel, rating
from palate.records import Ask, Judgement, PalateError, Rating, User

if TYPE_CHECKING:
    import torch

    from palate.personal._soft_tokens import SoftAdapter, SoftClassifier

MOST_USERS = 24
"""To validate on: each has to be adapted to after every epoch."""


class UserTokensSettings(TunedSettings, frozen=True, kw_only=True):
    """Settings of `user-tokens`."""

    tokens: int = 4
    """How many tokens a user has."""
    token_rate: float = 0.1
    """Of Adam, for tokens, in standard deviations of the base's word embeddings."""
    penalty: float = 0.01
    """How strongly a user's tokens are held to the generic ones: more keeps users nearer to everybody."""
    steps: int = 10
    """The most steps of L-BFGS when a user is adapted to."""


class UserTokensModel(TunedModel):
    """Rates responses after the tokens of the user; the same face as `PersonalModel`.

    A view that shows judgements is adapted to, whatever else it shows. The view `user` calls up the tokens that were
    learned or adapted for that user. Anybody else is read after the generic tokens, and a note says so.

    >>> model = UserTokensModel(UserTokensSettings(base="smollm2"))  # doctest: +SKIP
    >>> model.fit(benchmark.comparisons, benchmark.users).save("mine")  # doctest: +SKIP
    """

    method_name = "user-tokens"
    name = "personal:user-tokens"
    settings_type = UserTokensSettings
    settings: UserTokensSettings
    _classifier: SoftClassifier

    def _open(self, device: str | None) -> TunedClassifier:
        from palate.personal._soft_tokens import SoftClassifier

        return SoftClassifier(self.settings.base, count=self.settings.tokens, device=device)

    def _learner(self, choices: Mapping[str, Sequence[Choice]], users: Mapping[str, User]) -> Learn:
        return self._learn

    def _learn(self, lessons: Sequence[Lesson], split: Split | None) -> tuple[int, float | None]:
        """Train adapter and tokens from nothing on the base from its files, and add the adapter in."""
        import torch

        from palate.personal._soft_tokens import GENERIC, OWN, SoftAdapter, held_losses

        self._classifier = self._classifier.reload()
        settings = self.settings
        counts = Counter(lesson.user for lesson in lessons)
        places = {user: place for place, user in enumerate(sorted(counts), start=1)}
        adapter = SoftAdapter(self._classifier, settings, len(places), settings.token_rate)

        def read(lesson: Lesson, epoch: int) -> Read | None:
            draw = random.Random(f"{settings.seed} {epoch} {lesson.number}").random()
            return self._read(lesson.choice, 0 if draw < settings.impersonal else places[lesson.user])

        share = torch.tensor([0.0, *(settings.penalty / 2 / counts[user] for user in places)])
        found = learn(
            adapter,
            lessons,
            settings,
            read,
            partial(held_losses, self._classifier, adapter, share),
            validate=self._validate(adapter, split) if split else None,
            report=self._report,
        )
        weights = adapter.weights()
        own = weights.pop(OWN)
        self._shared = {"generic": weights.pop(GENERIC)}
        self._states = {user: own[place].clone() for user, place in places.items()}
        self._weights = weights
        adapter.merge()
        return found

    def _validate(self, adapter: SoftAdapter, split: Split) -> Validate | None:
        """How well held-out users' choices are predicted after adapting to what else they chose."""
        import torch

        told, asked = self._by_user(split.told), self._by_user(split.asked)
        users = list(asked)[:MOST_USERS]

        def score() -> float:
            found = []
            for user in users:
                offset = self._offset(told.get(user, []), adapter.generic)
                with torch.no_grad(), self._classifier.reading(adapter.generic, offset[None]):
                    found += [
                        losses(self._classifier, some) for some in batches(asked[user], self.settings.batch_tokens)
                    ]
            return -float(torch.cat(found).mean())

        return score if users else None

    def _by_user(self, lessons: Sequence[Lesson]) -> dict[str, list[Read]]:
        found: dict[str, list[Read]] = {}
        for lesson in lessons:
            if read := self._read(lesson.choice):
                found.setdefault(lesson.user, []).append(read)
        return found

    def _read(self, choice: Choice, place: int = 0) -> Read | None:
        before = self._classifier.numbers(place)
        return read_choice(self._classifier, ask_of(choice), choice.preferred, self.settings, before)

    def _reads(self, choices: Sequence[Choice]) -> list[Read]:
        return [one for one in map(self._read, choices) if one]

    def _offset(self, reads: Sequence[Read], generic: torch.Tensor) -> torch.Tensor:
        """The own tokens of somebody who made these choices, as an offset from the generic ones."""
        from palate.personal._soft_tokens import offset_of

        settings = self.settings
        return offset_of(
            self._classifier,
            generic,
            reads,
            penalty=settings.penalty,
            steps=settings.steps,
            tokens=settings.batch_tokens,
        )

    def adapt(self, user: str | User, judgements: Sequence[Judgement] = ()) -> Self:
        """Fit a user's tokens to these judgements, and those that a given `User` holds; nothing else is trained."""
        if isinstance(user, str):
            user = User(id=user)
        self._require_training()
        choices = choices_of(user, judgements)
        reads = self._reads(choices)
        if not reads:
            raise PalateError(
                f"nothing is known of user {user.id!r} that {self.name} could use; it uses judgements of at most "
                f"{self.settings.most_tokens:,} tokens"
            )
        self._states[user.id] = self._offset(reads, self._shared["generic"])
        self._taught(user.id, choices)
        return self

    def can_learn(self, user: User) -> bool:
        """Whether the user has made judgements."""
        return bool(user.judgements)

    def _rated(self, asks: Sequence[Ask]) -> list[Rating]:
        import torch

        if not asks:
            return []
        generic = self._shared["generic"]
        found = states_of(
            [ask.view for ask in asks],
            self._states,
            torch.zeros_like(generic),
            lambda view: self._reads([part.judgement for part in view.of_kind("judgement") if part.judgement]) or None,
            lambda shown: [self._offset(reads, generic) for reads in shown],
            "judgements",
        )
        offsets = {id(state): state for state, _ in found}
        place = {key: number for number, key in enumerate(offsets)}
        requests = [self._classifier.request(msgspec.structs.replace(ask, view=NOBODY)) for ask in asks]
        with self._classifier.reading(generic, torch.stack(list(offsets.values()))):
            scores = self._classifier.score_after(requests, [place[id(state)] for state, _ in found])
        return [rating(one, note) for one, (_, note) in zip(scores, found, strict=True)]
