"""What is measured: targets of published sizes, and attacks on them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch

from recollect.zoo import MLP, MLPArchitecture, build_network


@dataclass(frozen=True)
class Case:
    """A target and an attack on it."""

    name: str
    sample_shape: tuple[int, ...]
    hidden: tuple[int, ...]
    m: int
    first_layer_alone: bool = False
    rank: int | None = None
    """Dimensions of the row space that the engine searches; None is full dimension."""
    outputs: int = 1

    @property
    def widths(self) -> tuple[int, ...]:
        return (self.rank or torch.Size(self.sample_shape).numel(), *self.hidden, self.outputs)

    def network(self) -> MLP:
        """Untrained, but with a first layer that has a signal of the rank that training would leave."""
        architecture = MLPArchitecture(hidden=self.hidden, outputs=self.outputs)
        net = build_network(architecture, self.sample_shape, seed=0)
        assert isinstance(net, MLP)
        weight = next(net.parameters())
        if self.rank is not None:
            generator = torch.Generator().manual_seed(0)
            sides = [(weight.shape[0], self.rank), (self.rank, weight.shape[1])]
            left, right = (torch.randn(*side, generator=generator, dtype=weight.dtype) for side in sides)
            with torch.no_grad():
                weight.add_(1e-3 * left @ right)
        return net

    def operations(self) -> int:
        """Per trial-step: ``2 m (5 d h + 7 h^2)`` for d-h-h-1; the first layer alone needs ``4 h^2``, not ``7 h^2``."""
        sizes = [a * b for a, b in pairwise(self.widths)]
        inner = sum(sizes[1:])
        return 2 * self.m * (5 * sizes[0] + (4 if self.first_layer_alone else 7) * inner)


CIFAR, MNIST, TWO = (3, 32, 32), (1, 28, 28), (1000, 1000)
PUBLISHED = Case("CIFAR 3072-1000-1000-1, m 1000", CIFAR, TWO, 1000)
ROW_FIRST = Case("row space of 512, first layer alone", CIFAR, TWO, 1000, True, 512)

CASES = {
    "cuda": [
        PUBLISHED,
        Case("the same, first layer alone", CIFAR, TWO, 1000, first_layer_alone=True),
        Case("row space of 512, all layers", CIFAR, TWO, 1000, rank=512),
        ROW_FIRST,
        Case("MNIST 784-1000-1000-1, m 1000", MNIST, TWO, 1000),
        Case("ten classes: 3072-1000-1000-10, m 1000", CIFAR, TWO, 1000, outputs=10),
        Case("depth 4: 3072-1000-500-100-50-1, m 1000", CIFAR, (1000, 500, 100, 50), 1000),
    ],
    "cpu": [
        Case("MNIST 784-1000-1000-1, m 500", MNIST, TWO, 500),
        Case("row space of 200, all layers", MNIST, TWO, 500, rank=200),
        Case("row space of 200, first layer alone", MNIST, TWO, 500, True, 200),
    ],
}


def wider(width: int) -> Case:
    return Case(f"width {width}, m 1000", CIFAR, (width, width), 1000)


def more(m: int) -> Case:
    return Case(f"1000-1000, m {m}", CIFAR, TWO, m)


LARGE = Case("4000-4000, m 20,000", CIFAR, (4000, 4000), 20_000)
"""What does not fit a small GPU at once: measured in chunks against all at once."""
