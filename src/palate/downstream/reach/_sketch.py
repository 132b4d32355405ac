"""The same slopes from sketches of the texts' own gradients: every text is read once, however many rewards there are.

The slope of a text along a gradient is a product of gradients: w of y = sum over x of A(x) <grad log pi(x), grad log
pi(y)> / n. So the products between texts are all that is needed, and a product survives a random projection: each
matrix of gradients G becomes P G Q', with random signs in P and Q. The product of two such sketches is the product of
the gradients in the mean, with an error that falls with their size. (Johnson and Lindenstrauss 1984; Park et al. 2023,
"TRAK", for gradients of texts.)

The gradient of a layer is a sum over tokens of what came out of it times what went in, so both are projected before
they are multiplied, for each text of a batch apart, and no gradient is ever held in full.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod, sqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vjp, vmap

from palate.downstream.ppo._pieces import Pieces
from palate.downstream.ppo._policy_model import PolicyModel, TokenBatch
from palate.downstream.ppo._ppo import log_probabilities
from palate.downstream.ppo._training import Training
from palate.downstream.reach._gradient import TOO_MUCH, ReadText, tensor_cores
from palate.engine import steady_attention
from palate.stats import Floats

_LAST: dict[tuple[str, float, int, str], Tensor] = {}
"""The products between the texts that were read last: another reward model's run on the same texts has the same."""


class SketchedGradient:
    """Stands in for `PolicyGradient`; the weights are never moved."""

    def __init__(self, policy: PolicyModel, texts: Sequence[ReadText], temperature: float, size: int) -> None:
        training = Training(algorithm="rloo", temperature=temperature).resolved(policy.device)
        policy.begin(training, seed=0)
        self.policy, self.texts, self._size = policy, texts, size
        self._pieces = Pieces(min(training.batch_tokens, policy.logits_at_once), self._clear)
        read = repr([(list(text.prompt), list(text.response)) for text in texts])
        self._key = (policy.fingerprint, temperature, size, hashlib.sha256(read.encode()).hexdigest())

    def slopes(
        self, source: Sequence[int], advantages: Floats, target: Sequence[int], tell: Callable[[float], None]
    ) -> Floats:
        """How fast log pi of the target texts rises along the gradient of the source texts, about."""
        if self._key not in _LAST:
            _LAST.clear()
            sketches = self._read(tell)
            _LAST[self._key] = (sketches @ sketches.T).cpu()
        weights = torch.from_numpy(advantages / len(source))
        slopes: Floats = (_LAST[self._key][list(target)][:, list(source)].double() @ weights).numpy()
        return slopes

    def _read(self, tell: Callable[[float], None]) -> Tensor:
        """(texts, numbers of a sketch)."""
        sketcher = _Sketcher(self.policy, self._size)
        rows = torch.zeros(len(self.texts), sketcher.length, device=self.policy.torch_device)
        done = 0

        def read(places: list[int]) -> None:
            nonlocal done
            batch = self.policy.texts([(self.texts[place].prompt, self.texts[place].response) for place in places])
            rows[places] = sketcher.sketch(batch)
            done += len(places)
            tell(done / len(self.texts))

        with tensor_cores(self.policy.torch_device), sketcher.listening():
            self._pieces.each(self.texts, range(len(self.texts)), lambda place: place, read, TOO_MUCH)
        return rows

    def _clear(self) -> None:
        """Nothing is left of a batch that did not fit."""


class _Sketcher:
    """Listens to what goes into each layer, and to the gradient of what comes out of it."""

    def __init__(self, policy: PolicyModel, size: int) -> None:
        self._policy, self._device = policy, policy.torch_device
        self._names: dict[Tensor, str] = {parameter: name for name, parameter in policy.network.named_parameters()}
        self._signs: dict[str, list[Tensor | None]] = {}
        self._places: dict[str, slice] = {}
        self.length = 0
        for parameter, name in self._names.items():
            shape = list(parameter.shape)
            if parameter.ndim == 2:
                self._signs[name] = [
                    _signs(f"{name} {side}", long, size, self._device) for side, long in enumerate(shape)
                ]
                shape = [min(long, size) for long in shape]
            self._places[name] = slice(self.length, self.length + prod(shape))
            self.length += prod(shape)
        self._rows, self._mask = torch.empty(0, 0), torch.empty(0)
        self._adding = False

    def sketch(self, batch: TokenBatch) -> Tensor:
        """A row for each text."""
        self._rows = torch.zeros(len(batch.responses), self.length, device=self._device)
        self._mask = batch.mask
        logs = self._policy.measure(self._policy.read_apart(batch), batch, log_probabilities)
        with steady_attention():
            logs.sum().backward()  # type: ignore[no-untyped-call]
        return self._rows

    @contextmanager
    def listening(self) -> Iterator[None]:
        """While batches are read. The weights themselves need no gradient."""
        layers = [layer for layer in self._policy.network.modules() if list(layer.parameters(recurse=False))]
        hooks = [layer.register_forward_hook(self._listen) for layer in layers]
        wanted = [parameter for parameter in self._names if parameter.requires_grad]
        try:
            for parameter in wanted:
                parameter.requires_grad_(False)
            yield
        finally:
            for parameter in wanted:
                parameter.requires_grad_(True)
            for hook in hooks:
                hook.remove()

    def _listen(self, layer: nn.Module, given: tuple[Tensor, ...], output: Tensor) -> None:
        if self._adding:  # the layer is called once more, for its own gradient
            return
        if not output.requires_grad:  # the first layer: all that follows has a gradient with respect to this
            output.requires_grad_(True)
        [taken] = given
        output.register_hook(lambda gradient: self._add(layer, taken.detach(), gradient))  # type: ignore[no-untyped-call]

    @torch.no_grad()
    def _add(self, layer: nn.Module, given: Tensor, gradient: Tensor) -> None:
        """What these tokens add to the sketches of their texts."""
        if isinstance(layer, nn.Embedding):
            name = self._names[layer.weight]
            left, right = self._signs[name]
            known = nn.functional.one_hot(given, layer.num_embeddings).float() if left is None else left.T[given]
            self._put(name, torch.einsum("btk,btl->bkl", known, _projected(gradient, right)))
        elif isinstance(layer, nn.Linear):
            given, gradient = self._by_text(given.float()), self._by_text(gradient.float())
            name = self._names[layer.weight]
            left, right = self._signs[name]
            self._put(name, torch.einsum("btk,btl->bkl", _projected(gradient, left), _projected(given, right)))
            if layer.bias is not None:
                self._put(self._names[layer.bias], gradient.sum(1))
        else:
            own = dict(layer.named_parameters(recurse=False))

            def gradients(one: Tensor, of_output: Tensor) -> dict[str, Tensor]:
                backwards: Any = vjp(lambda weights: functional_call(layer, weights, (one,)), own)[1]
                found: dict[str, Tensor] = backwards(of_output)[0]
                return found

            self._adding = True
            each = vmap(gradients)(self._by_text(given), self._by_text(gradient))
            self._adding = False
            for own_name, found in each.items():
                name = self._names[own[own_name]]
                if found.ndim == 3:
                    left, right = self._signs[name]
                    found = _projected(_projected(found, right).mT, left).mT
                self._put(name, found)

    def _by_text(self, rows: Tensor) -> Tensor:
        """(texts, tokens, size), where the last layer was given the tokens of all responses in one row."""
        if rows.ndim == 3:
            return rows
        return rows.new_zeros(*self._mask.shape, rows.shape[-1]).index_put((self._mask,), rows)

    def _put(self, name: str, sketch: Tensor) -> None:
        """A weight that stands in two layers has the gradients of both."""
        self._rows[:, self._places[name]] += sketch.flatten(1)


def _projected(rows: Tensor, signs: Tensor | None) -> Tensor:
    """The last dimension made shorter."""
    return rows if signs is None else rows @ signs.T


def _signs(name: str, length: int, size: int, device: torch.device) -> Tensor | None:
    """Random signs, the same for the same name; nothing where there is nothing to shorten."""
    if length <= size:
        return None
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8])
    signs = np.random.default_rng(seed).integers(0, 2, (size, length), dtype=np.int8) * 2 - 1
    return torch.from_numpy(signs).float().to(device) / sqrt(size)
