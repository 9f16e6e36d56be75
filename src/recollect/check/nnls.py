"""Least squares over multipliers, from inner products alone: non-negative, or of free sign."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from recollect.core import RecollectError

_RIDGE = 1e-13
"""Added to the unit diagonal, so that samples that occur twice leave a positive definite matrix."""
_TOLERANCE = 1e-11


def non_negative(products: Float[Tensor, "n n"], target: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """``argmin_{lambda >= 0} lambda' K lambda - 2 b' lambda``, by active sets.

    Lawson and Hanson 1974, chapter 23, on the normal equations. We deviate in one thing: every variable that would
    lower the objective enters the free set at once, not the best one alone. Those that come out negative leave again,
    at least one stays, so that the objective still falls in every round.

    >>> found = non_negative(torch.eye(3).double(), torch.tensor([2.0, -1.0, 0.5]).double())
    >>> [round(value, 6) for value in found.tolist()]
    [2.0, 0.0, 0.5]
    """
    scale = _unit_scale(products)
    K, b = products * scale * scale.unsqueeze(1), target * scale
    floor = _TOLERANCE * float(b.abs().max())
    values, free = torch.zeros_like(b), torch.zeros_like(b, dtype=torch.bool)
    for _ in range(10 * len(b) + 10):
        entering = ~free & (b - K @ values > floor)
        if not bool(entering.any()):
            return values * scale
        before = free
        values, free = _feasible_minimum(K, b, values, free | entering)
        if bool((free == before).all()):  # what entered left again: only rounding is left to gain
            return values * scale
    raise RecollectError(
        "the multipliers did not settle, the samples' gradients are too nearly dependent; give fewer samples with --n."
    )


def free_sign(products: Float[Tensor, "n n"], target: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """``argmin_lambda lambda' K lambda - 2 b' lambda``, the smallest one where several do.

    >>> free_sign(torch.eye(2).double(), torch.tensor([2.0, -1.0]).double()).tolist()
    [2.0, -1.0]
    """
    scale = _unit_scale(products)
    spectrum, vectors = torch.linalg.eigh(products * scale * scale.unsqueeze(1))
    kept = spectrum > 1e-12 * spectrum[-1]
    inverse = torch.where(kept, 1 / spectrum.where(kept, torch.ones_like(spectrum)), 0)
    return scale * (vectors @ (inverse * (vectors.mT @ (target * scale))))


def _feasible_minimum(
    K: Tensor, b: Tensor, values: Float[Tensor, " n"], free: Bool[Tensor, " n"]
) -> tuple[Float[Tensor, " n"], Bool[Tensor, " n"]]:
    """Go towards the minimum over the free variables; whatever would turn negative on the way is fixed at zero."""
    while bool(free.any()):
        aim = torch.zeros_like(values)
        aim[free] = _solve(K[free][:, free], b[free])
        falling = free & (aim <= 0)
        if not bool(falling.any()):
            return aim, free
        way = torch.where(falling & (values > 0), values / (values - aim).where(falling, torch.ones_like(aim)), 0)
        step = way[falling].min()
        free = free & ~(falling & (way <= step))
        values = torch.where(free, values + step * (aim - values), 0).clamp(min=0)
    return values, free


def _solve(K: Float[Tensor, "k k"], b: Float[Tensor, " k"]) -> Float[Tensor, " k"]:
    ridge = _RIDGE
    eye = torch.eye(len(K), dtype=K.dtype, device=K.device)
    factor, failed = torch.linalg.cholesky_ex(K + ridge * eye)
    while bool(failed):
        ridge *= 10
        factor, failed = torch.linalg.cholesky_ex(K + ridge * eye)
    return torch.cholesky_solve(b.unsqueeze(1), factor).squeeze(1)


def _unit_scale(products: Float[Tensor, "n n"]) -> Float[Tensor, " n"]:
    """Gives every sample's gradient length 1; a sample without any gradient gets no multiplier."""
    lengths = products.diagonal().clamp(min=0).sqrt()
    return torch.where(lengths > 0, 1 / lengths.where(lengths > 0, torch.ones_like(lengths)), 0)
