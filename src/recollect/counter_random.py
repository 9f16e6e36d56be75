"""Random numbers that are a function of where they are used: seed, trial, purpose, step and position.

There is no state to keep, save or pass on: a resumed run draws what an uninterrupted one draws, and a trial alone draws
what it draws in a batch. The bits come from 32-bit integer operations on tensors alone, so that they are the same on
every device, and the step may be a counter that lives on the device: nothing is read back to the host, and a CUDA graph
or torch.compile can record a draw like any other operation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from recollect.core import TrialRng

_BITS_OF_A_FLOAT = 23
"""With half a unit added they fit a float32 exactly: float32 and float64 see the same numbers, never 0 and never 1."""


@dataclass(frozen=True)
class TrialStreams:
    """Draws for T trials; ``bits`` hashes ``(seed, trial, purpose, step, position)``, all others are made of it.

    >>> streams = TrialStreams(seed=0, trials=torch.arange(3, dtype=torch.int32))
    >>> alone = streams.for_trials(torch.tensor([2]))
    >>> step = torch.tensor(7)
    >>> bool((streams.normal("latent", step, (4,))[2] == alone.normal("latent", step, (4,))[0]).all())
    True
    """

    seed: int
    trials: Int[Tensor, " T"]

    @classmethod
    def of(cls, rng: TrialRng) -> TrialStreams:
        """The streams of the trials whose start ``rng`` draws."""
        return cls(rng.seed, torch.tensor(rng.trials, dtype=torch.int32, device=rng.device))

    def bits(self, purpose: str, step: Int[Tensor, ""], shape: Sequence[int]) -> Int[Tensor, "T ..."]:
        """32 random bits for every position, as signed integers."""
        first, second = self._keys(purpose, step)
        position = torch.arange(math.prod(shape), dtype=torch.int32, device=self.trials.device)
        return _scrambled(position + first.unsqueeze(1), second.unsqueeze(1)).unflatten(1, tuple(shape))

    def uniform(
        self, purpose: str, step: Int[Tensor, ""], shape: Sequence[int], dtype: torch.dtype = torch.float32
    ) -> Float[Tensor, "T ..."]:
        """Uniform on (0, 1), both ends left out."""
        top = _shifted(self.bits(purpose, step, shape), 32 - _BITS_OF_A_FLOAT)
        return (top.to(dtype) + 0.5) * 2.0**-_BITS_OF_A_FLOAT

    def normal(
        self, purpose: str, step: Int[Tensor, ""], shape: Sequence[int], dtype: torch.dtype = torch.float32
    ) -> Float[Tensor, "T ..."]:
        """Standard normal, ``sqrt(-2 log u) cos(2 pi v)`` (Box and Muller 1958).

        Uniforms are the same bits on every device; logarithm and cosine may differ in the last place.
        """
        radius, angle = self.uniform(purpose, step, (2, *shape), dtype).unbind(1)
        return (-2 * radius.log()).sqrt() * (2 * math.pi * angle).cos()

    def keep(self, purpose: str, step: Int[Tensor, ""], shape: Sequence[int], dropped: float) -> Bool[Tensor, "T ..."]:
        """False with probability ``dropped``: the mask of dropout."""
        return self.bits(purpose, step, shape) >= min(round(dropped * 2**32), 2**32 - 1) - 2**31

    def labels(self, purpose: str, step: Int[Tensor, ""], shape: Sequence[int], classes: int) -> Int[Tensor, "T ..."]:
        """Classes 0 to ``classes - 1``, equally likely."""
        top = _shifted(self.bits(purpose, step, shape), 32 - _BITS_OF_A_FLOAT).to(torch.int64)
        return (top * classes) >> _BITS_OF_A_FLOAT

    def for_trials(self, chosen: Int[Tensor, " k"]) -> TrialStreams:
        return replace(self, trials=self.trials[chosen])

    def _keys(self, purpose: str, step: Int[Tensor, ""]) -> tuple[Int[Tensor, " T"], Int[Tensor, " T"]]:
        """Two words per trial; for one trial no two steps share the first."""
        one, other = _words(self.seed, purpose)
        step = step.to(torch.int32)
        left, right = _scrambled(self.trials + one, other), _scrambled(self.trials ^ other, one)
        first = _scrambled(left + step, right)
        return first, _scrambled(right ^ step, first)


def _words(seed: int, purpose: str) -> tuple[int, int]:
    """Two signed 32-bit words that stand for a seed and a purpose."""
    mixed = seed
    for number in (*purpose.encode(), 0, 0):  # the zeros carry the last letter into the upper half
        mixed = ((mixed + number + 1) * 6364136223846793005 + 1442695040888963407) % 2**64
        mixed ^= mixed >> 29
    return (mixed >> 32) - 2**31, mixed % 2**32 - 2**31


def _scrambled(x: Int[Tensor, ...], key: Int[Tensor, ...] | int) -> Int[Tensor, ...]:
    """A bijection of 32-bit words for each key: xorshift and multiply, three times, the key added after the first.

    Constants of the integer hash triple32 (Wellons 2018), found by search for the least bias.
    """
    x = x ^ _shifted(x, 17)
    x = x * (0xED5AD4BB - 2**32) + key
    x = x ^ _shifted(x, 11)
    x = x * (0xAC4C1B51 - 2**32)
    x = x ^ _shifted(x, 15)
    x = x * 0x31848BAB
    return x ^ _shifted(x, 14)


def _shifted(x: Int[Tensor, ...], count: int) -> Int[Tensor, ...]:
    """Shifted right with zeros moving in; signed integers would repeat their sign."""
    return (x >> count) & (2 ** (32 - count) - 1)
