"""An ensemble: the average of several methods' rewards.

    r_u(x) = (1 / M) sum over members m of r_mu(x)

Methods err in different ways, so that their average tends to err less than any of them. Every member learns from
the same pairs, with settings chosen on its own grid. Then members are left out as long as that helps, worst first:
a backward search for the members to average, in the spirit of the ensemble selection of Caruana,
Niculescu-Mizil, Crew and Ksikes (2004), who search forward and with repetition. Members weigh the same, since with
few users to choose by, weights between them would be mostly luck.

Members know of a user what the ensemble does, judgements and groups; one that could learn from posts as well goes
without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import torch
from torch import Tensor

from palate.personal._method import Method, MethodSettings, Validate, method_type
from palate.personal._pairs import Known, Pairs
from palate.personal._tune import InnerSplit, tune
from palate.records import PalateError

Members = dict[str, Method]


class EnsembleSettings(MethodSettings, frozen=True, kw_only=True):
    """Settings of `ensemble`."""

    members: tuple[str, ...] = ("bradley-terry", "per-user", "demographic", "crowd-gppl")
    """Names of the methods to average; training leaves out those that do not help."""
    chosen: tuple[str, ...] = ()
    """The settings of each member as JSON, as training chose them; empty for the members' defaults."""


class Ensemble(Method):
    """The average of its members."""

    name = "ensemble"
    settings_type = EnsembleSettings
    settings: EnsembleSettings
    uses = frozenset({"judgements", "groups"})

    def __init__(self, settings: MethodSettings, blocks: dict[str, slice]) -> None:
        super().__init__(settings, blocks)
        names = self.settings.members
        if not names or self.name in names or len(set(names)) < len(names):
            raise PalateError(f"an ensemble needs members, each once and none an ensemble; {list(names)} was given")
        self._members: Members = {}

    @property
    def members(self) -> Members:
        """The methods that are averaged; after loading, they are made of what was saved."""
        if not self._members:
            self._members = self._defined()
            for name, member in self._members.items():
                own = {key: one for key, one in self.shared.items() if key.startswith(f"{name}.")}
                member.shared.update({key.removeprefix(f"{name}."): one for key, one in own.items()})
                about = self.about[name]
                assert isinstance(about, dict)
                member.about.update(about)
        return self._members

    def _defined(self) -> Members:
        """The members that the settings name, before they have learned anything."""
        kinds = [method_type(name) for name in self.settings.members]
        if self.settings.chosen:
            chosen = zip(kinds, self.settings.chosen, strict=True)
            settings = [msgspec.json.decode(text, type=kind.settings_type) for kind, text in chosen]
        else:
            settings = [kind.settings_type(seed=self.settings.seed) for kind in kinds]
        return {kind.name: kind(own, self.blocks) for kind, own in zip(kinds, settings, strict=True)}

    def learn(self, pairs: Pairs, known: Sequence[Known], validate: Validate | None = None) -> None:
        """Each member by itself; with `validate`, the settings of each and then the members are chosen by it."""
        members = self._defined()
        for name, member in members.items():
            if validate is not None:
                alone = _Alone(pairs, list(known), [], self, validate)
                settings, _ = tune(type(member), self.blocks, [alone], self.settings.seed)
                members[name] = type(member)(settings, self.blocks)
            members[name].learn(pairs, known)
        self.keep(members)
        if validate is not None:
            self._leave_out(validate)

    def keep(self, members: Members) -> None:
        """Average these from now on, with everything they have learned."""
        self._members = members
        chosen = tuple(msgspec.json.encode(member.settings).decode() for member in members.values())
        self.settings = msgspec.structs.replace(self.settings, members=tuple(members), chosen=chosen)
        self.about = {name: member.about for name, member in members.items()}
        self.shared = {
            f"{name}.{key}": tensor for name, member in members.items() for key, tensor in member.shared.items()
        }

    def _leave_out(self, validate: Validate) -> None:
        """Drop the member without whom the others do best, as long as they do better than with it."""
        best, kept = validate(), self.members
        while len(kept) > 1:
            fewer = [{name: one for name, one in kept.items() if name != out} for out in kept]
            scores = []
            for members in fewer:
                self.keep(members)
                scores.append(validate())
            if max(scores) <= best:
                break
            best, kept = max(scores), fewer[scores.index(max(scores))]
        self.keep(kept)

    def users(self, known: Sequence[Known]) -> list[Tensor]:
        """Every member's states of these users, side by side."""
        states = [member.users(known) for member in self.members.values()]
        return [pack(own) for own in zip(*states, strict=True)]

    def nobody(self) -> Tensor:
        """No member knows anything."""
        return pack([member.nobody() for member in self.members.values()])

    def reward(self, rows: Tensor, state: Tensor) -> Tensor:
        """The average of the members' rewards."""
        states = unpack(state, len(self.members))
        rewards = [member.reward(rows, own) for member, own in zip(self.members.values(), states, strict=True)]
        return torch.stack(rewards).mean(0)


@dataclass(frozen=True, eq=False)
class _Alone(InnerSplit):
    """Scores a method as the only member of an ensemble, by the ensemble's own validation."""

    ensemble: Ensemble
    by: Validate

    def score(self, method: Method) -> float:
        """As well as the ensemble does with this member and no other."""
        self.ensemble.keep({method.name: method})
        return self.by()


def pack(states: Sequence[Tensor]) -> Tensor:
    """Several states as one column: the shape of each, then the numbers of each.

    >>> pack([torch.zeros(1, 0), torch.tensor([[5.0], [6.0]])]).T
    tensor([[1., 0., 2., 1., 5., 6.]])
    """
    shapes = torch.tensor([list(state.shape) for state in states], dtype=torch.float32)
    return torch.cat([shapes.flatten(), *(state.flatten().float() for state in states)])[:, None]


def unpack(column: Tensor, count: int) -> list[Tensor]:
    """The states that were packed."""
    shapes = [(int(rows), int(width)) for rows, width in column[: 2 * count, 0].reshape(count, 2)]
    numbers = torch.split(column[2 * count :, 0], [rows * width for rows, width in shapes])
    return [own.reshape(shape) for own, shape in zip(numbers, shapes, strict=True)]
