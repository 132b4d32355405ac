"""Shadow models: the same method trained on random halves of the users, each kept as soon as it is done."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from palate.personal import (
    Features,
    Known,
    Method,
    MethodSettings,
    Pairs,
    PrivacySettings,
    describe_model,
    learn_privately,
    method_of_file,
    method_type,
    read_choices,
    refuse_code_of_members,
)
from palate.privacy._membership import Floats, Leak, Truth, likelihood_ratios, measure
from palate.records import Benchmark, PalateError
from palate.runs import Progress, file_name, write_whole

if TYPE_CHECKING:
    import torch

FEWEST_USERS = 8
STATES_FROM = 2
"""Shadow models whose stored states are looked at; it takes no more to see whether they give their users away."""


class _Shadow(msgspec.Struct, frozen=True):
    """One shadow model, on the disk: which users it was trained on, and what it says of each."""

    member: list[bool]
    statistic: list[float]
    distance: list[float] | None
    """From what the model would keep of each user to the nearest that it does keep."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What kind of model is attacked."""

    method: str
    features: str = "minilm+traits"
    settings: dict[str, object] | None = None
    """Of the method; the default ones where not given. Nothing is tuned, so that a shadow takes little."""
    privacy: PrivacySettings | None = None


def attack(
    benchmark: Benchmark,
    target: Target,
    *,
    shadows: int = 16,
    seed: int = 0,
    out: Path = Path("runs"),
    progress: Progress | None = None,
) -> list[Leak]:
    """Train the shadows that are not there yet, and say how well members can be told.

    The folder holds one number for each user and shadow, in the order of the benchmark and without names; it tells
    of them what the attack tells, so delete it when you are done.
    """
    if shadows < 4 or shadows % 2:
        raise PalateError(f"shadow models come in couples, four or more; {shadows} was asked for")
    features = Features(target.features)
    pairs, known = read_choices(benchmark, target.method, features, public=target.privacy is not None)
    if len(pairs.users) < FEWEST_USERS:
        raise PalateError(f"{benchmark.card.name} has {len(pairs.users)} users with choices; it takes {FEWEST_USERS}")
    folder = _folder(out, benchmark, target, features, shadows, seed)
    members = _halves(len(pairs.users), shadows, seed)
    done: list[_Shadow] = []
    for number, member in enumerate(members):
        if progress:
            progress(f"shadow model {number + 1} of {shadows}", number, shadows)
        file = folder / f"shadow-{number:03d}.json"
        if not file.is_file():
            write_whole(file, msgspec.json.encode(_shadow(number, member, pairs, known, target, features, seed)))
        done.append(msgspec.json.decode(file.read_bytes(), type=_Shadow))
    if progress:
        progress("resampling users", shadows, shadows)
    return _leaks(done, target.privacy, seed)


def _leaks(done: Sequence[_Shadow], privacy: PrivacySettings | None, seed: int) -> list[Leak]:
    member = np.array([shadow.member for shadow in done])
    statistic = np.array([shadow.statistic for shadow in done])
    bound = None if privacy is None else (privacy.epsilon, privacy.delta)
    found = [measure("shared part", likelihood_ratios(statistic, member), member, seed, bound)]
    held = [(shadow.distance, shadow.member) for shadow in done if shadow.distance is not None]
    if held:
        distances = -np.array([distance for distance, _ in held])
        found.append(measure("stored states", distances, np.array([own for _, own in held]), seed))
    return found


def _folder(out: Path, benchmark: Benchmark, target: Target, features: Features, shadows: int, seed: int) -> Path:
    settings = [benchmark.content_hash, target, features.fingerprint, shadows, seed]
    name = hashlib.sha256(msgspec.json.encode(settings, order="deterministic")).hexdigest()[:10]
    folder = out / f"attack-{file_name(benchmark.card.name)}-{name}"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise PalateError(f"cannot write to {folder}: {error.strerror or error}. Choose another --out.") from error
    return folder


def _halves(users: int, shadows: int, seed: int) -> list[Truth]:
    """Random halves, each followed by the other half: every user is in just as many models as not."""
    draw = np.random.default_rng(seed)
    found: list[Truth] = []
    for _ in range(shadows // 2):
        half = np.zeros(users, bool)
        half[draw.permutation(users)[: users // 2]] = True
        found += [half, ~half]
    return found


def _shadow(
    number: int, member: Truth, pairs: Pairs, known: Sequence[Known], target: Target, features: Features, seed: int
) -> _Shadow:
    import torch

    kind = method_type(target.method)
    settings: MethodSettings = msgspec.convert(target.settings or {"seed": seed}, kind.settings_type)
    method = kind(settings, features.blocks)
    own_pairs, own_known = _of_members(pairs, member), [one for one, own in zip(known, member, strict=True) if own]
    if target.privacy is None:
        method.learn(own_pairs, own_known)
    else:
        # A seed is no danger here: a shadow is thrown away, and the attack can be made again.
        drawn = msgspec.structs.replace(target.privacy, noise_seed=1_000_003 * seed + number)
        learn_privately(method, own_pairs, drawn)
    with torch.no_grad():
        statistic = _mean_log_likelihood(method, pairs)
        distance = _distances(method, own_known, known) if kind.uses and number < STATES_FROM else None
    return _Shadow(member.tolist(), statistic.tolist(), distance)


def _of_members(pairs: Pairs, member: Truth) -> Pairs:
    """The pairs of these users, as if there were no others."""
    import torch

    place = torch.from_numpy(np.cumsum(member) - 1)
    own = pairs.only(torch.from_numpy(member)[pairs.user])
    users = tuple(name for name, is_member in zip(pairs.users, member, strict=True) if is_member)
    return replace(own, user=place[own.user], users=users)


def _mean_log_likelihood(method: Method, pairs: Pairs) -> Floats:
    """Of each user's choices, under the model as it is for nobody in particular."""
    import torch

    rewards = method.reward(pairs.rows, method.nobody()).double()
    likelihood = torch.nn.functional.logsigmoid(rewards[pairs.better] - rewards[pairs.worse])
    total = torch.zeros(len(pairs.users), dtype=torch.double).index_add_(0, pairs.user, pairs.weight * likelihood)
    count = torch.zeros(len(pairs.users), dtype=torch.double).index_add_(0, pairs.user, pairs.weight.double())
    return np.asarray((total / count).numpy())


def _distances(method: Method, members: Sequence[Known], everybody: Sequence[Known]) -> list[float] | None:
    """None where states are of different shapes."""
    import torch

    kept, asked = method.users(members), method.users(everybody)
    shapes = {tuple(state.shape) for state in (*kept, *asked)}
    if len(shapes) != 1:
        return None

    def flat(states: Sequence[torch.Tensor]) -> torch.Tensor:
        return torch.stack([state.flatten().double() for state in states])

    nearest = torch.cdist(flat(asked), flat(kept)).min(dim=1).values
    found: list[float] = nearest.tolist()
    return found


def target_of(folder: Path, named: str | None = None) -> Target:
    """The kind of a trained model: its method, features, settings and privacy.

    `named` is its method where that is a file of code, which is not run because a model says so.
    """
    kept = describe_model(folder)
    method = method_of_file(folder, kept.method, named)
    refuse_code_of_members(folder, msgspec.convert(kept.settings, method_type(method).settings_type))
    told = kept.about.get("privacy")
    privacy = None
    if isinstance(told, dict):
        chosen = {name: told[name] for name in ("epsilon", "delta", "clip", "rate", "steps") if name in told}
        privacy = msgspec.convert(chosen, PrivacySettings)
    return Target(method=method, features=kept.features, settings=kept.settings, privacy=privacy)
