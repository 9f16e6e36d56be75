"""What can be seen of a trial without the training data: numbers that a score may combine, each ``[T]``.

Residuals say how much of the network the candidates explain; multipliers and the candidates themselves say how.
A trial that recovers nothing often explains as much as one that does, with candidates that are noise or all alike.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from recollect.core import Variables
from recollect.problem import Problem, State
from recollect.sweep.score import layer_residual

_SEEN = 256
"""Candidates, those with the largest multipliers, whose likeness is looked at: all pairs of all would be too many."""


@torch.no_grad()
def traits(problem: Problem, state: State) -> dict[str, Float[Tensor, " T"]]:
    """All of them, by name."""
    layers = range(len(problem.target.layers))
    residuals = {f"residual_{place}": layer_residual(problem, state, place) for place in layers}
    return residuals | multipliers(state.variables["duals"]) | _seen(problem, state.variables)


def multipliers(duals: Float[Tensor, "T m"]) -> dict[str, Float[Tensor, " T"]]:
    """Their relative spread, and the share of candidates that carries them (participation ratio)."""
    size = duals.abs()
    mean = size.mean(dim=1)
    return {
        "dual_spread": size.std(dim=1) / mean,
        "dual_share": mean.square() / size.square().mean(dim=1),
    }


def _seen(problem: Problem, variables: Variables) -> dict[str, Float[Tensor, " T"]]:
    samples, duals = problem.candidates.decode(variables), variables["duals"].abs()
    most = duals.topk(min(_SEEN, duals.shape[1]), dim=1).indices
    rows = torch.arange(len(samples), device=samples.device).unsqueeze(1)
    heavy = samples[rows, most]
    found = likeness(heavy) | {"size": heavy.flatten(1).square().mean(dim=1).sqrt()}
    return found | (picture(heavy) if heavy.ndim == 5 else {})


def likeness(samples: Float[Tensor, "T m ..."]) -> dict[str, Float[Tensor, " T"]]:
    """Mean absolute correlation of different candidates, and how many independent ones there are (participation)."""
    flat = F.normalize(samples.flatten(2) - samples.flatten(2).mean(dim=2, keepdim=True), dim=2)
    gram = flat @ flat.transpose(1, 2)
    m = gram.shape[1]
    off = gram.abs().sum(dim=(1, 2)) - gram.diagonal(dim1=1, dim2=2).abs().sum(dim=1)
    squares = gram.square().sum(dim=(1, 2))
    nearest = (gram - 2 * torch.eye(m, dtype=gram.dtype, device=gram.device)).amax(dim=2).mean(dim=1)
    return {"alike": off / (m * (m - 1)), "independent": m**2 / squares / m, "nearest_other": nearest}


def picture(images: Float[Tensor, "T m c h w"]) -> dict[str, Float[Tensor, " T"]]:
    """How smooth the candidates are: correlation of neighbouring pixels, near 1 for pictures and 0 for noise."""
    centred = images - images.mean(dim=(-1, -2), keepdim=True)
    energy = centred.square().mean(dim=(-1, -2, -3))
    down = (centred[..., 1:, :] * centred[..., :-1, :]).mean(dim=(-1, -2, -3))
    across = (centred[..., 1:] * centred[..., :-1]).mean(dim=(-1, -2, -3))
    smooth = 0.5 * (down + across) / energy.clamp_min(torch.finfo(energy.dtype).tiny)
    peak = centred.abs().amax(dim=(-1, -2, -3)) / energy.sqrt().clamp_min(1e-30)
    return {"smooth": smooth.mean(dim=1), "smooth_low": smooth.quantile(0.1, dim=1), "peaked": peak.mean(dim=1)}
