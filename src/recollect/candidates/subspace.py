"""Candidates as coefficients on the row space of the first layer: the same search in fewer dimensions.

A candidate that lies in the row space of the first layer's weights never leaves it: its gradient combines rows of the
weights and other candidates. What lies outside only adds to the residual, and a search in full dimension shrinks it.
Trained weights have few directions above the noise they were initialised with; coefficients on those are all that a
search can use.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from recollect.core import TrialRng, Variables, per_trial
from recollect.groups import Group
from recollect.products import matrix, product, rows


@dataclass(frozen=True)
class RowSpace:
    """``x = V c`` with orthonormal columns ``V``; starts where `Pixels` with the same seed starts, projected.

    ``half`` takes the products that the box prior needs from half-precision operands.
    """

    candidates: int
    sample_shape: tuple[int, ...]
    init_scale: Float[Tensor, " T"]
    basis: Float[Tensor, "d r"]
    exposed_share: float = 1.0
    half: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return ("x",)

    def init(self, rng: TrialRng) -> Variables:
        noise = rng.normal("x", (self.candidates, *self.sample_shape)).flatten(2)
        return {"x": per_trial(self.init_scale, noise) * (noise @ self.basis)}

    def inputs(self, variables: Variables) -> Float[Tensor, "T m r"]:
        return variables["x"]

    def decode(self, variables: Variables) -> Float[Tensor, "T m ..."]:
        return (variables["x"] @ self.basis.T).unflatten(2, self.sample_shape)

    def exposed(self, variables: Variables) -> tuple[Float[Tensor, "T k ..."], Int[Tensor, "T k"] | None]:
        """The candidates of largest norm: ``|x_p| <= ||c|| ||V_p||``, so small ones cannot leave the box.

        Taking a fixed share of them needs no decision on the host; 1 takes all, and is exact.
        """
        if self.exposed_share == 1:
            return self.decode(variables), None
        count = max(1, round(self.exposed_share * variables["x"].shape[1]))
        which = variables["x"].square().sum(dim=2).topk(count, dim=1).indices
        chosen = rows(_gathered(variables["x"], which), self.half)
        return product(chosen, matrix(self.basis.T, self.half)).unflatten(2, self.sample_shape), which

    def pull(
        self,
        variables: Variables,
        inputs_gradient: Tensor,
        sample_gradient: Tensor | None = None,
        which: Tensor | None = None,
    ) -> Variables:
        del variables
        if sample_gradient is None:
            return {"x": inputs_gradient}
        from_samples = product(rows(sample_gradient.flatten(2), self.half), matrix(self.basis, self.half))
        if which is None:
            return {"x": inputs_gradient + from_samples}
        index = which.unsqueeze(-1).expand_as(from_samples)
        return {"x": inputs_gradient.scatter_add(1, index, from_samples)}

    def for_trials(self, chosen: Int[Tensor, " k"]) -> RowSpace:
        return replace(self, init_scale=self.init_scale[chosen])


def _gathered(values: Float[Tensor, "T m r"], which: Int[Tensor, "T k"]) -> Float[Tensor, "T k r"]:
    return values.gather(1, which.unsqueeze(-1).expand(-1, -1, values.shape[2]))


def signal_basis(weight: Float[Tensor, "h d"], max_rank: int, multiple: int = 1) -> Float[Tensor, "d r"]:
    """Right singular vectors of the directions above the noise, at most ``max_rank``, strongest first.

    Their number is rounded up to a multiple of ``multiple``: matrix products on GPUs want aligned rows.

    The noise level is read from the spectrum: singular values below ``omega(beta)`` times the median one are what a
    matrix of pure noise would have (Gavish and Donoho 2014, with their approximation of omega).

    >>> signal = torch.outer(torch.ones(50), torch.arange(80.0)) + 0.01 * torch.randn(50, 80)
    >>> signal_basis(signal, max_rank=10).shape
    torch.Size([80, 1])
    """
    values, directions = _singular(weight.double())
    beta = min(weight.shape) / max(weight.shape)
    omega = 0.56 * beta**3 - 0.95 * beta**2 + 1.82 * beta + 1.43
    noise = torch.maximum(omega * values.median(), 1e-7 * values[0])
    above = int((values > noise).sum())
    rank = min(-(-max(above, 1) // multiple) * multiple, max_rank)
    return torch.linalg.qr(directions[:, :rank]).Q.to(weight)


def invariant_basis(
    weight: Float[Tensor, "h d"], group: Group, max_rank: int, multiple: int = 1
) -> Float[Tensor, "d r"]:
    """The same for a network averaged over a group, whose first layer sees a sample moved by every element.

    All of ``W g`` together have a row space that the group moves into itself. Where directions of equal strength are
    cut apart, what belongs to them is added again, so a few directions more than ``max_rank`` may come back.
    """
    basis = signal_basis(
        group.orbit(weight.unflatten(1, group.sample_shape)).flatten(2).flatten(0, 1), max_rank, multiple
    )
    moved = group.orbit(basis.T.unflatten(1, group.sample_shape)).flatten(2).flatten(0, 1)
    outside = moved - moved @ basis @ basis.T
    if float(outside.square().sum(dim=1).max()) < 1e-6:
        return basis
    values, directions = _singular(outside.double())
    further = directions[:, values > 1e-3 * values[0]]
    return torch.linalg.qr(torch.cat([basis.double(), further], dim=1)).Q.to(weight)


def _singular(weight: Float[Tensor, "h d"]) -> tuple[Float[Tensor, " k"], Float[Tensor, "d k"]]:
    """Singular values, largest first, and right singular vectors, from the smaller of both products with itself.

    That is many times faster than a singular value decomposition, and knows values down to 1e-8 of the largest: what is
    smaller is noise to us. Weak directions are not quite orthogonal.
    """
    wide = weight.shape[0] < weight.shape[1]
    squares, vectors = torch.linalg.eigh(weight @ weight.T if wide else weight.T @ weight)
    vectors = vectors.flip(1)
    return squares.flip(0).clamp_min(0).sqrt(), F.normalize(weight.T @ vectors, dim=0) if wide else vectors
