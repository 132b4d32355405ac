"""Two ways down a slope: all data at once for smooth convex problems, batches for the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from palate.personal._method import Validate


def optimise(parameters: Sequence[Tensor], loss: Callable[[], Tensor], *, steps: int = 200) -> None:
    """Minimise a smooth loss over all data at once, by L-BFGS with a line search.

    Where the slope is nothing but rounding, the line search may step beyond all numbers. The parameters are then put
    back to where the loss was lowest, which is where the descent had got to.
    """
    descent = torch.optim.LBFGS(list(parameters), max_iter=steps, line_search_fn="strong_wolfe")
    lowest, kept = float("inf"), [one.detach().clone() for one in parameters]

    def closure() -> Tensor:
        nonlocal lowest, kept
        descent.zero_grad()
        value = loss()
        value.backward()  # type: ignore[no-untyped-call]
        if -torch.inf < (found := float(value.detach())) < lowest:
            lowest, kept = found, [one.detach().clone() for one in parameters]
        return value

    astray = False
    try:
        descent.step(closure)  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        if "without overflow" not in str(error):
            raise
        astray = True
    if astray or not all(one.isfinite().all() for one in parameters):
        _put(parameters, kept)


def descend(
    parameters: Sequence[Tensor],
    loss: Callable[[Tensor], Tensor],
    size: int,
    *,
    epochs: int,
    batch: int = 1024,
    rate: float = 1e-2,
    decay: float = 0.0,
    seed: int = 0,
    validate: Validate | None = None,
    patience: int = 5,
) -> int:
    """Minimise a loss of batches of places (0 to `size` - 1) by AdamW; the number of epochs that were worth it.

    With `validate`, training stops when it has not risen for `patience` epochs, and the parameters are put
    back to where it was highest. Learning again with that many epochs and no `validate` repeats the descent.
    """
    generator = torch.Generator().manual_seed(seed)
    descent = torch.optim.AdamW(list(parameters), lr=rate, weight_decay=decay)
    best, best_epoch, kept = -float("inf"), 0, [one.detach().clone() for one in parameters]
    for epoch in range(1, epochs + 1):
        for places in torch.split(torch.randperm(size, generator=generator), batch):
            descent.zero_grad()
            value = loss(places)
            value.backward()  # type: ignore[no-untyped-call]
            descent.step()
        if validate is None:
            continue
        score = validate()
        if score > best:
            best, best_epoch, kept = score, epoch, [one.detach().clone() for one in parameters]
        elif epoch - best_epoch >= patience:
            break
    if validate is None:
        return epochs
    _put(parameters, kept)
    return max(1, best_epoch)


@torch.no_grad()
def _put(parameters: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    for one, value in zip(parameters, values, strict=True):
        one.copy_(value)
