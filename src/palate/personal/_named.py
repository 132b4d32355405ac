"""A method as a person writes it: `per-user`, or `per-user,epsilon=3` to learn its shared part privately."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from palate.personal._features import Features
from palate.personal._folds import Fold
from palate.personal._known import Known, know_all
from palate.personal._method import MethodSettings
from palate.personal._methods import check_method, method_type
from palate.personal._model import PersonalModel
from palate.personal._pairs import Pairs, labelled, make_pairs
from palate.personal._private import PRIVATE_METHODS, PrivacySettings, standardise_publicly
from palate.records import Benchmark, Comparison, PalateError, User, parse_spec, unknown_name


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


def fit_method(
    spec: str,
    features: str,
    seed: int,
    comparisons: Sequence[Comparison],
    users: Mapping[str, User],
    settings: MethodSettings | None = None,
) -> PersonalModel:
    """A model of this method, trained."""
    name, privacy = parse_method(spec)
    return PersonalModel(name, features=features, seed=seed).fit(comparisons, users, settings, privacy)


def choose_settings(spec: str, features: str, seed: int, folds: Sequence[Fold]) -> MethodSettings | None:
    """The settings for all of these folds, chosen on what none of them holds out; None where privacy forbids it."""
    name, privacy = parse_method(spec)
    if privacy is not None:
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
    return PersonalModel(name, features=features, seed=seed).choose(train, users)


def read_choices(
    benchmark: Benchmark, method: str, features: Features, *, public: bool = False
) -> tuple[Pairs, list[Known]]:
    """Everything that `fit` would learn from, in numbers; `public`, as if it were to be learned privately."""
    if public:
        standardise_publicly(features)
    choices = {user: own for user, own in labelled(benchmark.comparisons, benchmark.users).items() if own}
    pairs = make_pairs(choices, features)
    return pairs, know_all(pairs, benchmark.users, features, method_type(method).uses)
