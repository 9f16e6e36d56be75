"""Finite groups that move samples about and never stretch them: orbits, their averages, what leaves a sample fixed.

An element acts on a flattened sample as a permutation, stored as the positions to read from, which is exact and one
gather; or, where no permutation does it, as an orthogonal matrix. Named groups are in `recollect.symmetries`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from recollect.core import RecollectError

Action = Sequence[int] | Tensor | Callable[[Tensor], Tensor]
"""A permutation of the flattened sample, an orthogonal matrix on it, or a function from samples to samples."""

_ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class Group:
    """Elements acting on samples of one shape, the identity first.

    ``actions`` are positions, ``(g x)[p] = x[actions[g, p]]``, or matrices ``[g, d, d]``; ``inverse_actions`` undo
    them, one by one. ``whole`` is False for elements drawn from a group too large to list: identity and inverses are
    among them, products need not be.

    >>> swap = own_group([[0, 1], [1, 0]], (2,))
    >>> swap.orbit(torch.tensor([3.0, 5.0])).tolist(), swap.orbit_average(torch.tensor([3.0, 5.0])).tolist()
    ([[3.0, 5.0], [5.0, 3.0]], [4.0, 4.0])
    """

    name: str
    sample_shape: tuple[int, ...]
    actions: Int[Tensor, "g d"] | Float[Tensor, "g d d"]
    inverse_actions: Int[Tensor, "g d"] | Float[Tensor, "g d d"]
    whole: bool = True
    _orbits: tuple[Tensor, Tensor] | None = field(init=False, repr=False)
    """Where a whole group permutes: what its elements read for one position of each orbit of positions, ``[g, k]``, and
    which of the k orbits a position belongs to."""

    def __post_init__(self) -> None:
        # Found here and not when first needed, which may be within a step that is compiled or recorded.
        orbits = None
        if self.permutes and self.whole:
            chosen, orbit = self.actions.amin(dim=0).unique(return_inverse=True)
            orbits = self.actions[:, chosen], orbit
        object.__setattr__(self, "_orbits", orbits)

    @property
    def size(self) -> int:
        return len(self.actions)

    @property
    def trivial(self) -> bool:
        return self.size == 1

    @property
    def permutes(self) -> bool:
        """Whether elements act as permutations of the values of a sample."""
        return self.actions.ndim == 2

    def to(self, like: Tensor) -> Group:
        """The same group where ``like`` is; matrices in its precision."""
        dtype = None if self.permutes else like.dtype
        moved = (value.to(device=like.device, dtype=dtype) for value in (self.actions, self.inverse_actions))
        return replace(self, actions=next(moved), inverse_actions=next(moved))

    def orbit(self, x: Float[Tensor, "*batch *sample"]) -> Float[Tensor, "*batch g *sample"]:
        """Every sample moved by every element."""
        return moved_by(self.actions, x, self.sample_shape)

    def pull_back(self, moved: Float[Tensor, "*batch g *sample"]) -> Float[Tensor, "*batch *sample"]:
        """``sum_g g^-1 moved_g``: gradients with respect to an orbit become one with respect to its sample."""
        flat = moved.flatten(-len(self.sample_shape))
        if not self.permutes:
            return torch.einsum("gji,...gj->...i", self.actions.to(flat), flat).unflatten(-1, self.sample_shape)
        rows = torch.arange(self.size, device=self.actions.device).unsqueeze(1)
        positions = self.inverse_actions + rows * flat.shape[-1]
        return flat.flatten(-2)[..., positions].sum(dim=-2).unflatten(-1, self.sample_shape)

    def orbit_average(self, x: Float[Tensor, "*batch *sample"]) -> Float[Tensor, "*batch *sample"]:
        """``gbar x = 1/|G| sum_g g x``, the projection on what the group leaves fixed (Elbaz 2024, section 2).

        A whole group of permutations gives all positions of an orbit the same value, which is computed once.
        """
        if self._orbits is None:
            return self.orbit(x).mean(dim=-len(self.sample_shape) - 1)
        read, orbit = self._orbits
        averages = x.flatten(-len(self.sample_shape))[..., read].mean(dim=-2)
        return averages[..., orbit].unflatten(-1, self.sample_shape)

    def asymmetric(self, x: Float[Tensor, "*batch *sample"]) -> Float[Tensor, "*batch *sample"]:
        """``x - gbar x``, what the group does move."""
        return x - self.orbit_average(x)

    def move(self, x: Float[Tensor, "n ..."], element: Int[Tensor, " n"]) -> Float[Tensor, "n ..."]:
        """Each sample by an element of its own."""
        return self._acted(x, self.actions[element])

    def move_back(self, x: Float[Tensor, "n ..."], element: Int[Tensor, " n"]) -> Float[Tensor, "n ..."]:
        """Each sample by the inverse of an element of its own."""
        return self._acted(x, self.inverse_actions[element])

    def stabiliser(self, x: Float[Tensor, "*batch *sample"], tolerance: float = 1e-6) -> Bool[Tensor, "*batch g"]:
        """Which elements move a sample by no more than ``tolerance`` times its length."""
        flat = x.flatten(-len(self.sample_shape)).unsqueeze(-2)
        moved = self.orbit(x).flatten(-len(self.sample_shape))
        return (moved - flat).norm(dim=-1) <= tolerance * flat.norm(dim=-1)

    def within(self, basis: Float[Tensor, "d r"]) -> Group:
        """How the elements act on coefficients of an orthonormal basis whose span they leave: ``V^T g V``."""
        moved = self.orbit(basis.T.unflatten(1, self.sample_shape)).flatten(2)
        matrices = torch.einsum("di,jgd->gij", basis, moved)
        return Group(self.name, (basis.shape[1],), matrices, matrices.mT, self.whole)

    def products(self) -> Int[Tensor, "g g"]:
        """``products[a, b]`` is the element that acts as b followed by a."""
        return _products(self.actions, self.name)

    def _acted(self, x: Tensor, actions: Tensor) -> Tensor:
        flat = x.flatten(1)
        moved = flat.gather(1, actions) if self.permutes else torch.einsum("nij,nj->ni", actions.to(flat), flat)
        return moved.reshape(x.shape)


def moved_by(
    actions: Int[Tensor, "g d"] | Float[Tensor, "g d d"], x: Float[Tensor, "*batch *sample"], shape: tuple[int, ...]
) -> Float[Tensor, "*batch g *sample"]:
    """Every sample of this shape moved by every one of a group's actions."""
    flat = x.flatten(-len(shape))
    if actions.ndim == 2:
        return flat[..., actions].unflatten(-1, shape)
    return torch.einsum("gij,...j->...gi", actions.to(flat), flat).unflatten(-1, shape)


def own_group(actions: Sequence[Action], sample_shape: tuple[int, ...], name: str = "own") -> Group:
    """A user's own group, checked: every action orthogonal, the identity, inverses and all products among them.

    >>> own_group([lambda x: x, lambda x: x.flip(-1)], (1, 2, 2)).actions.tolist()
    [[0, 1, 2, 3], [1, 0, 3, 2]]
    """
    d = math.prod(sample_shape)
    read = [_read(action, index, sample_shape) for index, action in enumerate(actions)]
    if not read:
        raise RecollectError("a group needs at least the identity, got no actions; give a list of them.")
    if any(action.ndim == 2 for action in read):
        eye = torch.eye(d, dtype=torch.float64)
        stacked = torch.stack([action if action.ndim == 2 else eye[action] for action in read])
    else:
        stacked = torch.stack(read)
    stacked = _identity_first(stacked, name)
    products = _products(stacked, name)
    inverses = (products == 0).int().argmax(dim=1)
    return Group(name, tuple(sample_shape), stacked, stacked[inverses])


def _read(action: Action, index: int, sample_shape: tuple[int, ...]) -> Tensor:
    """Positions ``[d]``, or a matrix ``[d, d]`` in float64."""
    d = math.prod(sample_shape)
    if callable(action) and not isinstance(action, Tensor):
        action = _probed(action, sample_shape)
    action = torch.as_tensor(action)
    if action.shape == (d,) and not action.is_floating_point():
        if not torch.equal(action.sort().values, torch.arange(d)):
            raise RecollectError(f"action {index} is no permutation of 0, ..., {d - 1}; name every position once.")
        return action.long()
    if action.shape != (d, d):
        raise RecollectError(
            f"action {index} has shape {list(action.shape)}, samples have {d} values; give a permutation [{d}], an "
            f"orthogonal matrix [{d}, {d}] or a function of a sample."
        )
    action = action.double()
    if not torch.allclose(action @ action.T, torch.eye(d, dtype=torch.float64), atol=_ROUNDING):
        raise RecollectError(f"action {index} is not orthogonal: it changes lengths; groups here only move samples.")
    return action


def _probed(action: Callable[[Tensor], Tensor], sample_shape: tuple[int, ...]) -> Tensor:
    """What a function does, found by trying: where it sends numbered values, or each unit vector."""
    d = math.prod(sample_shape)
    numbered = action(torch.arange(d, dtype=torch.float64).reshape(sample_shape)).flatten()
    if numbered.shape == (d,) and torch.equal(numbered.sort().values, torch.arange(d, dtype=torch.float64)):
        return numbered.long()
    units = torch.eye(d, dtype=torch.float64).reshape(d, *sample_shape)
    return torch.stack([action(unit).flatten() for unit in units], dim=1)


def _identity_first(actions: Tensor, name: str) -> Tensor:
    d = actions.shape[-1]
    identity = torch.arange(d) if actions.ndim == 2 else torch.eye(d, dtype=actions.dtype)
    distance = (actions - identity).abs().flatten(1).amax(dim=1)
    if float(distance.min()) > _ROUNDING:
        raise RecollectError(f"the group '{name}' lacks the identity; add the action that changes nothing.")
    first = int(distance.argmin())
    return torch.cat([actions[first : first + 1], actions[:first], actions[first + 1 :]])


def _products(actions: Tensor, name: str) -> Int[Tensor, "g g"]:
    """Which element each product is, told by what it does to a few random samples."""
    d = actions.shape[-1]
    probes = torch.randn(d, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    known = _applied(actions.cpu(), probes)
    table = torch.empty(len(known), len(known), dtype=torch.int64)
    for row, action in enumerate(actions.cpu()):
        # actions[row] after every element: read the results of the others at its positions.
        made = known[:, action] if action.ndim == 1 else torch.einsum("ij,gjk->gik", action.double(), known)
        distance = torch.cdist(made.flatten(1), known.flatten(1)) / known.flatten(1).norm(dim=1).amax()
        nearest = distance.min(dim=1)
        if float(nearest.values.max()) > _ROUNDING:
            other = int(nearest.values.argmax())
            raise RecollectError(
                f"the group '{name}' is not closed: element {other} followed by element {row} is none of its "
                f"{len(known)} elements; add what is missing, or name generators (recollect.symmetries.generated)."
            )
        table[row] = nearest.indices
    if not bool((table == 0).any(dim=1).all()):
        raise RecollectError(f"the group '{name}' lacks inverses; add the action that undoes each.")
    if len(known) > 1 and float(torch.pdist(known.flatten(1)).min()) < _ROUNDING:
        raise RecollectError(f"the group '{name}' has an element twice; give every action once.")
    return table


def _applied(actions: Tensor, values: Float[Tensor, "d k"]) -> Float[Tensor, "g d k"]:
    return values[actions] if actions.ndim == 2 else actions.double() @ values
