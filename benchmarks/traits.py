"""What can be seen of a trial without the training data: numbers that a score may combine, each ``[T]``.

Residuals say how much of the network the candidates explain; multipliers and the candidates themselves say how.
A trial that recovers nothing often explains as much as one that does, with candidates that are noise or all alike.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from recollect.core import Variables
from recollect.objectives import KKT
from recollect.problem import Problem, State
from recollect.sweep.score import first_layer_residual, layer_residual, telling_layer

_SEEN = 256
"""Candidates, those with the largest multipliers, whose likeness is looked at: all pairs of all would be too many."""

_IMAGE = 0.2
"""Root mean square of an image with values from 0 to 1 whose mean over the data was taken away, or somewhat less."""

_SMOOTHINGS = (30, 100, 300, 10_000)
"""From softer than any trial searches with to the network's own rectifier."""


@torch.no_grad()
def traits(problem: Problem, state: State) -> dict[str, Float[Tensor, " T"]]:
    """All of them, by name."""
    layers = range(len(problem.target.layers))
    residuals = {f"residual_{place}": layer_residual(problem, state, place) for place in layers}
    residuals = {"residual": residuals[f"residual_{telling_layer(problem.target)}"]} | residuals
    seen = _seen(problem, state.variables)
    alike = {f"residual_at_{smoothing}": _at(problem, state, smoothing) for smoothing in _SMOOTHINGS}
    return residuals | alike | {"sharp": _sharp(problem, state)} | multipliers(state.variables["duals"]) | seen


def _at(problem: Problem, state: State, smoothing: float) -> Float[Tensor, " T"]:
    """The first layer's residual with one derivative of the rectifier for all, whatever each trial searched with."""
    objective = problem.objective
    assert isinstance(objective, KKT)
    same = replace(objective, smoothing=torch.full_like(objective.smoothing, smoothing))
    return first_layer_residual(replace(problem, objective=same), state)


def _sharp(problem: Problem, state: State) -> Float[Tensor, " T"]:
    """Curvature along random directions: how much more a candidate moved by a hundredth leaves of the first layer."""
    x = state.variables["x"]
    size = x.square().mean(dim=tuple(range(2, x.ndim)), keepdim=True).sqrt()
    noise = torch.randn(x.shape, generator=torch.Generator(x.device).manual_seed(0), device=x.device, dtype=x.dtype)
    moved = replace(state, variables={**state.variables, "x": x + 0.01 * size * noise})
    return first_layer_residual(problem, moved) / first_layer_residual(problem, state)


def floor(weight: Float[Tensor, "h d"], rank: int) -> float:
    """What initial noise alone leaves unexplained of the first ``rank`` directions of a layer, relatively.

    Every direction holds as much noise as the median one beyond them does.
    """
    energy = torch.linalg.svdvals(weight.double()).square()
    noise = energy[rank:].median() if rank < len(energy) else energy[-1]
    return float((rank * noise / energy[:rank].sum()).sqrt())


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
    size = heavy.flatten(1).square().mean(dim=1).sqrt()
    found = likeness(heavy) | {"size": size, "size_of_images": size.clamp(max=_IMAGE)}
    found |= {"from_mean": from_mean(samples, problem.labels), "restart": restart(heavy)}
    return found | (picture(heavy) if heavy.ndim == 5 else {})


def restart(heavy: Float[Tensor, "T m ..."]) -> Float[Tensor, " T"]:
    """Trials ``2i`` and ``2i + 1`` have the same settings: how near the nearest candidate of the other one is."""
    flat = directions(heavy)
    other = flat.unflatten(0, (-1, 2)).flip(1).flatten(0, 1)
    return (flat @ other.transpose(1, 2)).amax(dim=2).mean(dim=1)


def from_mean(samples: Float[Tensor, "T m ..."], labels: Int[Tensor, " m"]) -> Float[Tensor, " T"]:
    """Share of the candidates' energy that is not the mean of all of their label."""
    flat = samples.flatten(2)
    of_label = labels.unsqueeze(0) == labels.unique().unsqueeze(1)
    shares = of_label.to(flat) / of_label.sum(dim=1, keepdim=True)
    means = torch.einsum("cm,tmd->tcd", shares, flat)
    rest = flat - torch.einsum("cm,tcd->tmd", of_label.to(flat), means)
    return rest.square().sum(dim=(1, 2)) / flat.square().sum(dim=(1, 2))


def directions(samples: Float[Tensor, "T m ..."]) -> Float[Tensor, "T m d"]:
    """Their inner products are correlations."""
    flat = samples.flatten(2)
    return F.normalize(flat - flat.mean(dim=2, keepdim=True), dim=2)


def likeness(samples: Float[Tensor, "T m ..."]) -> dict[str, Float[Tensor, " T"]]:
    """Mean absolute correlation of different candidates, and how many independent ones there are (participation)."""
    flat = directions(samples)
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
    steps = centred.diff(dim=-1).abs().mean(dim=(-1, -2, -3)) + centred.diff(dim=-2).abs().mean(dim=(-1, -2, -3))
    return {
        "smooth": smooth.mean(dim=1),
        "smooth_low": smooth.quantile(0.1, dim=1),
        "peaked": peak.mean(dim=1),
        "variation": (steps / energy.sqrt().clamp_min(1e-30)).mean(dim=1),
        "slope": spectral_slope(centred),
    }


def spectral_slope(images: Float[Tensor, "T m c h w"]) -> Float[Tensor, " T"]:
    """Of the mean power spectrum against frequency, both as logarithms: about -2 for photographs, 0 for noise."""
    power = torch.fft.fft2(images.float()).abs().square().mean(dim=(1, 2)).flatten(1)
    frequencies = [torch.fft.fftfreq(size, device=images.device) for size in images.shape[-2:]]
    radius = torch.cartesian_prod(*frequencies).square().sum(dim=1).sqrt()
    inside = (radius > 0) & (radius <= 0.5)
    x, y = radius[inside].log(), power[:, inside].clamp_min(1e-30).log()
    x = x - x.mean()
    return (y * x).sum(dim=1) / x.square().sum()
