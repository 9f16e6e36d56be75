"""How matrix products are taken: in the precision of the values, or from half-precision operands with scales.

TF32 rounds the operands of a product to 10 bits of mantissa and sums in float32. Half precision has the same 10 bits;
what it lacks is range. Dividing every candidate's row by a power of two of its own brings it into range and rounds
nothing, so a product of halves summed in float32 is about as accurate as TF32, at twice the rate and half the traffic.
Rows have a norm of at most 1 then, so that nothing built from them can exceed their number (Cauchy-Schwarz): sums over
candidates, and products with such sums, stay below 65,504 for as many candidates.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from recollect.wide_products import times

_MOST_CANDIDATES = 65_504
"""The largest number in half precision."""

_MANTISSA_BITS = 23
"""Of a float32."""


@dataclass(frozen=True)
class Rows:
    """One row per candidate, stored divided by ``scale`` where there is one."""

    stored: Float[Tensor, "T m k"]
    scale: Float[Tensor, "T m 1"] | None = None

    @property
    def values(self) -> Float[Tensor, "T m k"]:
        return self.stored if self.scale is None else self.stored.float() * self.scale


@dataclass(frozen=True)
class Matrix:
    """A matrix that all trials share, or one for each; stored divided by ``scale`` where there is one."""

    stored: Float[Tensor, "*T rows columns"]
    scale: Tensor | None = None

    @property
    def transposed(self) -> Matrix:
        return Matrix(self.stored.mT, self.scale)


def rows(values: Float[Tensor, "T m k"], half: bool) -> Rows:
    if not half:
        return Rows(values)
    scale = _power_of_two((_exponent(values.square().sum(dim=-1, keepdim=True)) + 2) >> 1)
    return Rows((values * _inverse(scale)).half(), scale)


def matrix(values: Float[Tensor, "*T rows columns"], half: bool) -> Matrix:
    if not half:
        return Matrix(values)
    scale = _power_of_two(_exponent(values.abs().amax(dim=-1, keepdim=True).amax(dim=-2, keepdim=True)) + 1)
    return Matrix((values * _inverse(scale)).half(), scale)


@dataclass
class Tape:
    """Products in the order they are taken. A second pass over the same candidates reads them instead."""

    taken: list[Tensor]
    place: int = 0

    def next(self, left: Rows, right: Matrix) -> Tensor:
        if self.place == len(self.taken):
            half = left.scale is not None
            self.taken.append((_product_of_halves if half else times)(left.stored, right.stored))
        self.place += 1
        return self.taken[self.place - 1]


def product(left: Rows, right: Matrix, tape: Tape | None = None) -> Float[Tensor, "T m columns"]:
    """``left @ right`` for every trial; both must be stored alike."""
    tape = Tape([]) if tape is None else tape
    if left.scale is not None and right.scale is not None:
        return tape.next(left, right).float() * (left.scale * right.scale)
    # A column or a row as a matrix is no work for a matrix product, and fuses with what is around it.
    if right.stored.shape[-1] == 1:
        return (left.stored * right.stored.mT).sum(dim=-1, keepdim=True)
    if right.stored.shape[-2] == 1:
        return left.stored * right.stored
    return tape.next(left, right)


def summed(delta: Rows, a: Rows) -> Float[Tensor, "T out in"]:
    """``delta^T a``, summed over candidates. Half-precision rows are first brought to one scale per trial."""
    if delta.scale is None or a.scale is None:
        return times(delta.values.mT, a.values)
    left, right, common = _weighted_alike(delta, a)
    return _summed_in_float(left.mT, right) * common


def summed_matrix(delta: Rows, a: Rows) -> Matrix:
    """The same, ready to be multiplied; half-precision rows give it in half precision at once, which writes less."""
    if delta.scale is None or a.scale is None or delta.stored.shape[1] > _MOST_CANDIDATES:
        return matrix(summed(delta, a), delta.scale is not None)
    left, right, common = _weighted_alike(delta, a)
    return Matrix(_product_of_halves(left.mT, right), common)


def through_pairs(own: Rows, other: Rows) -> Float[Tensor, "T m k"]:
    """``own own^T other`` by way of the products of all pairs of candidates."""
    if own.scale is None or other.scale is None:
        return times(times(own.stored, own.stored.mT), other.stored)
    scale = own.scale * other.scale
    common = scale.amax(dim=1, keepdim=True)
    pairs = _product_of_halves(own.stored, own.stored.mT)
    return _product_of_halves(pairs, _weighted(other.stored, scale * _inverse(common))).float() * (own.scale * common)


def few(candidates: int, inputs: int, outputs: int) -> bool:
    """Whether going by pairs costs less than to sum over candidates and to multiply by the sum."""
    return 2 * candidates * (inputs + outputs) < 3 * inputs * outputs


def _weighted_alike(delta: Rows, a: Rows) -> tuple[Tensor, Tensor, Tensor]:
    """Both as stored, one of them weighted such that products of their rows have one scale per trial; that scale."""
    assert delta.scale is not None
    assert a.scale is not None
    scale = delta.scale * a.scale
    common = scale.amax(dim=1, keepdim=True)
    left, right = delta.stored, a.stored
    if left.shape[-1] < right.shape[-1]:  # the narrower one is less to write again
        return _weighted(left, scale * _inverse(common)), right, common
    return left, _weighted(right, scale * _inverse(common)), common


def _weighted(stored: Float[Tensor, "T m k"], weights: Float[Tensor, "T m 1"]) -> Float[Tensor, "T m k"]:
    return (stored.float() * weights).half()


def column_sums(delta: Rows) -> Float[Tensor, "T k"]:
    """Rows summed over candidates; as a product, which reads them once and at full speed."""
    if delta.scale is None:
        return delta.stored.sum(dim=1)
    common = delta.scale.amax(dim=1, keepdim=True)
    weights = (delta.scale * _inverse(common)).half()
    return (_summed_in_float(weights.mT, delta.stored) * common).squeeze(1)


def _product_of_halves(left: Float[Tensor, "T m k"], right: Tensor) -> Float[Tensor, "T m columns"]:
    """In half precision, summed in float32."""
    if left.device.type == "cpu":  # sums halves in half precision; float32 does what GPUs do
        return times(left.float(), right.float()).half()
    # As a batch even where trials share a matrix: a flattened operand would be written a second time by the compiler.
    return torch.bmm(left, right.expand(len(left), -1, -1))


def _summed_in_float(left: Float[Tensor, "T k m"], right: Float[Tensor, "T m n"]) -> Float[Tensor, "T k n"]:
    """In float32, for sums that others are added to: those of chunks of candidates."""
    if left.device.type == "cpu":
        return times(left.float(), right.float())
    return torch.bmm(left, right, out_dtype=torch.float32)


# Scales come from the bits of numbers: a logarithm and a division for each value would cost more than to write it.


def _exponent(positive: Tensor) -> Tensor:
    """``floor(log2(positive))``; 128 for what is not finite."""
    return (positive.view(torch.int32) >> _MANTISSA_BITS) - 127


def _power_of_two(exponent: Tensor) -> Tensor:
    """Not below 1e-17: the square of a smaller number is lost in float32, and its norm cannot be told."""
    return ((exponent.clamp(-56, 126) + 127) << _MANTISSA_BITS).view(torch.float32)


def _inverse(power_of_two: Tensor) -> Tensor:
    return ((254 << _MANTISSA_BITS) - power_of_two.view(torch.int32)).view(torch.float32)
