"""From a method's name to a trained model: `per-user`, `lora`, or `per-user,epsilon=3` to learn privately."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from palate.personal._features import Features
from palate.personal._files import describe_model, source_of
from palate.personal._folds import Fold
from palate.personal._lora import LoraModel
from palate.personal._lora_classifier import LoraSettings, base_fingerprint
from palate.personal._method import TUNED, MethodSettings, check_method, method_type, plug_in_source
from palate.personal._model import PersonalModel
from palate.personal._pairs import Known, Pairs, know_all, labelled, make_pairs
from palate.personal._private import PRIVATE_METHODS, PrivacySettings, standardise_publicly
from palate.personal._tuned import TunedModel
from palate.personal._user_tokens import UserTokensModel, UserTokensSettings
from palate.records import Benchmark, Comparison, PalateError, User, parse_spec, unknown_name
from palate.runs import find_in_run


def parse_method(spec: str) -> tuple[str, PrivacySettings | None]:
    """The name, and how private its training is to be; wrong names and numbers are refused here.

    >>> parse_method("per-user,epsilon=3")[1].delta
    1e-05
    """
    parsed = parse_spec(spec)
    name = f"{parsed.name}:{parsed.argument}" if parsed.argument else parsed.name
    check_method(name)
    if not parsed.options:
        return name, None
    known = list(PrivacySettings.__struct_fields__)
    for option in parsed.options:
        if option not in known:
            raise unknown_name("option of a method", option, known)
    if "epsilon" not in parsed.options:
        raise PalateError(f"{spec!r}: how private is said by epsilon, as in {name},epsilon=3")
    if name not in PRIVATE_METHODS:
        raise PalateError(f"{name} cannot be trained privately; {' and '.join(PRIVATE_METHODS)} can")
    try:
        return name, msgspec.convert(dict(parsed.options), PrivacySettings, strict=False)
    except msgspec.ValidationError as error:
        raise PalateError(f"{spec!r}: {error}") from None


def read_choices(
    benchmark: Benchmark, method: str, features: Features, *, public: bool = False
) -> tuple[Pairs, list[Known]]:
    """Everything that `fit` would learn from, in numbers; `public`, as if it were to be learned privately."""
    if public:
        standardise_publicly(features)
    choices = {user: own for user, own in labelled(benchmark.comparisons, benchmark.users).items() if own}
    pairs = make_pairs(choices, features)
    return pairs, know_all(pairs, benchmark.users, features, method_type(method).uses)


TrainedModel = PersonalModel | TunedModel
"""All fit, adapt, rate, save and load."""


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """What models are made of, whatever their methods."""

    features: str = "minilm+traits"
    """What methods over frozen features read."""
    base: str = "smollm2"
    """Which language model is tuned by methods that tune one."""
    seed: int = 0

    def identity(self, method: str) -> dict[str, str]:
        """What, beside the data, decides what a model of this method learns."""
        if method in TUNED:
            return {"method": method, "base": self.base, "base_fingerprint": base_fingerprint(self.base)}
        fingerprint = Features(self.features).fingerprint
        identity = {"method": method, "features": self.features, "features_fingerprint": fingerprint}
        source = plug_in_source(method)
        return identity | {"method_source": source} if source else identity

    def choose(self, method: str, folds: Sequence[Fold]) -> MethodSettings | None:
        """The settings for all of these folds, chosen on what none of them holds out.

        None where `fit` finds them by itself, and where privacy forbids to choose.
        """
        name, privacy = parse_method(method)
        if name in TUNED or privacy is not None:
            return None
        open_items = set.intersection(*({item.id for item in fold.train} for fold in folds))
        users = {}
        for name_of_user, own in folds[0].trained_users.items():
            held = [fold.trained_users[name_of_user] for fold in folds if name_of_user in fold.trained_users]
            if len(held) == len(folds):
                judgements = set.intersection(*(set(user.judgements) for user in held))
                posts = set.intersection(*(set(user.posts) for user in held))
                users[name_of_user] = msgspec.structs.replace(
                    own,
                    judgements=tuple(one for one in own.judgements if one in judgements),
                    posts=tuple(post for post in own.posts if post in posts),
                )
        train = [item for item in folds[0].train if item.id in open_items]
        return PersonalModel(name, features=self.features, seed=self.seed).choose(train, users)

    def fit(
        self,
        method: str,
        comparisons: Sequence[Comparison],
        users: Mapping[str, User],
        settings: MethodSettings | None = None,
        *,
        remember: bool = False,
        report: Callable[[str], None] | None = None,
    ) -> TrainedModel:
        """A trained model. With `remember`, one that reads words keeps those of the users it is trained on."""
        if method == "lora":
            words = LoraSettings(base=self.base, seed=self.seed, remember=remember)
            return LoraModel(words, report=report).fit(comparisons, users)
        if method == "user-tokens":
            tokens = UserTokensSettings(base=self.base, seed=self.seed)
            return UserTokensModel(tokens, report=report).fit(comparisons, users)
        name, privacy = parse_method(method)
        model = PersonalModel(name, features=self.features, seed=self.seed)
        return model.fit(comparisons, users, settings, privacy)


def load_personal(folder: str | Path, *, method: str | None = None) -> TrainedModel:
    """The trained model in a folder, as `--rm personal:FOLDER` calls it; `latest` may stand for the newest run.

    `method` names the method where that is a file of your own.
    """
    folder = find_in_run(folder)
    tuned: dict[str, type[TunedModel]] = {"lora": LoraModel, "user-tokens": UserTokensModel}
    kind = tuned.get(describe_model(Path(folder)).method)
    return PersonalModel.load(folder, method=method) if kind is None else kind.load(folder)


def adapt_users(model: TrainedModel, benchmark: Benchmark, user: str | None = None) -> TrainedModel:
    """Adapt a model to one user of a benchmark, or to all of whom something is known."""
    source = source_of(benchmark)
    model.trained_on = [*(one for one in model.trained_on if one != source), source]
    if user is not None:
        if user not in benchmark.users:
            raise PalateError(f"{benchmark.card.name} has no user {user!r}")
        return model.adapt(benchmark.users[user])
    known = [one for one in benchmark.users.values() if model.can_learn(one)]
    if not known:
        raise PalateError(f"no user of {benchmark.card.name} has anything that {model.name} could learn from")
    for one in known:
        model.adapt(one)
    return model
