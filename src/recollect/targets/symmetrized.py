"""A target averaged over the orbits of its inputs: derivatives of the inner network carry over by the chain rule."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from recollect.core import Pullback, Pulled, Target
from recollect.groups import Group
from recollect.targets.mlp import MLPTarget


class SymmetrisedTarget:
    """``Phi_G(x) = 1/|G| sum_g Phi(g x)`` (Elbaz 2024, appendix E) for any target of ``Phi``.

    Candidates become their orbits, ``|G|`` rows each, cotangents are divided among them, and gradients come home by
    the inverse actions. Whatever is fast for the inner target is fast here; memory is that of ``|G| m`` candidates.
    """

    def __init__(self, inner: Target, group: Group) -> None:
        self.inner = inner
        self.group = group.to(next(iter(inner.params.values())))

    def in_subspace(self, basis: Float[Tensor, "d r"]) -> SymmetrisedTarget:
        """The same network on coefficients of a basis whose span the group moves into itself; of an average of MLPs."""
        assert isinstance(self.inner, MLPTarget)
        return SymmetrisedTarget(self.inner.in_subspace(basis), self.group.within(basis))

    @property
    def params(self) -> Mapping[str, Tensor]:
        return self.inner.params

    @property
    def sample_shape(self) -> tuple[int, ...]:
        return self.inner.sample_shape

    @property
    def layers(self) -> Sequence[Sequence[str]]:
        return self.inner.layers

    def linearise(
        self, x: Float[Tensor, "T m ..."], smoothing: Float[Tensor, " T"], taken: Sequence[Tensor] = ()
    ) -> tuple[Float[Tensor, "T m C"], Pullback]:
        rows = (x.shape[1], self.group.size)
        outputs, pullback = self.inner.linearise(self.group.orbit(x).flatten(1, 2), smoothing, taken)

        def averaged_pullback(cotangent: Tensor, names: Collection[str] | None = None) -> SymmetrisedPulled:
            shares = (cotangent / self.group.size).repeat_interleave(self.group.size, dim=1)
            return SymmetrisedPulled(pullback(shares, names), self.group)

        return outputs.unflatten(1, rows).mean(dim=2), averaged_pullback


def inside(target: Target) -> tuple[Target, int]:
    """What an average over a group averages, and how many rows it makes of a candidate."""
    return (target.inner, target.group.size) if isinstance(target, SymmetrisedTarget) else (target, 1)


@dataclass(frozen=True)
class SymmetrisedPulled:
    """`recollect.core.Pulled` of an average over orbits."""

    inner: Pulled
    group: Group

    @property
    def combined(self) -> dict[str, Tensor]:
        return self.inner.combined

    @property
    def taken(self) -> list[Tensor]:
        return self.inner.taken

    def adjoint(
        self, weights: Mapping[str, float], total: Mapping[str, Tensor] | None = None
    ) -> tuple[Float[Tensor, "T m ..."], Float[Tensor, "T m C"]]:
        moved, cotangent = self.inner.adjoint(weights, total)
        rows = (-1, self.group.size)
        return self.group.pull_back(moved.unflatten(1, rows)), cotangent.unflatten(1, rows).mean(dim=2)
