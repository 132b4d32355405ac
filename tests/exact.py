"""Bradley-Terry with a Gaussian prior solved exactly, for methods that solve it otherwise to be held against."""

import torch
from torch import Tensor


def shared_weights(differences: Tensor, weight: Tensor, precision: float) -> Tensor:
    """Newton's method; each step is halved until the objective falls, so it converges from anywhere."""
    x, counted = differences.double(), weight.double()
    weights = torch.zeros(x.shape[1], dtype=torch.double)
    eye = precision * torch.eye(x.shape[1], dtype=torch.double)

    def objective(candidate: Tensor) -> Tensor:
        loss = -(counted * torch.nn.functional.logsigmoid(x @ candidate)).sum()
        return loss + precision / 2 * candidate @ candidate

    value = objective(weights)
    for _ in range(50):
        won = torch.sigmoid(x @ weights)
        gradient = x.T @ (counted * (won - 1)) + precision * weights
        curvature = x.T @ (x * (counted * won * (1 - won))[:, None]) + eye
        step = torch.cholesky_solve(gradient[:, None], torch.linalg.cholesky(curvature))[:, 0]
        size = 1.0
        while size > 1e-6 and objective(weights - size * step) > value:
            size /= 2
        weights = weights - size * step
        before, value = value, objective(weights)
        if before - value <= 1e-6 * (1 + value.abs()):
            break
    return weights.float()
