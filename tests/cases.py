"""Networks and problems that tests run over: one row per architecture, small enough to differentiate slowly."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

SAMPLE_SHAPE = (3, 2, 2)
NEEDS_CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def chain(widths: tuple[int, ...], biased: tuple[bool, ...], seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    parts: list[nn.Module] = [nn.Flatten()]
    for index, bias in enumerate(biased):
        parts.append(nn.Linear(widths[index], widths[index + 1], bias=bias))
        parts.append(nn.ReLU())
    return nn.Sequential(*parts[:-1]).to(torch.float64)


NETWORKS = {
    "one hidden layer, first bias": lambda: chain((12, 7, 1), (True, False)),
    "two hidden layers, first bias": lambda: chain((12, 7, 5, 1), (True, False, False)),
    "two hidden layers, no bias": lambda: chain((12, 7, 5, 1), (False, False, False)),
    "two hidden layers, all biases": lambda: chain((12, 7, 5, 1), (True, True, True)),
    "four hidden layers, all but the last bias": lambda: chain((12, 9, 8, 7, 6, 1), (True, True, True, True, False)),
    "linear": lambda: chain((12, 1), (True,)),
}


@dataclass(frozen=True)
class Trials:
    """Three trials with settings of their own, some pixels outside the box, some multipliers below the floor."""

    x: Tensor
    duals: Tensor
    labels: Tensor
    smoothing: Tensor
    dual_min: Tensor


def trials(m: int = 6, seed: int = 1) -> Trials:
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    return Trials(
        x=(1.2 * draw(3, m, *SAMPLE_SHAPE)).requires_grad_(),
        duals=draw(3, m).requires_grad_(),
        labels=torch.where(torch.arange(m) < m // 2, 1, -1),
        smoothing=torch.tensor([3.0, 20.0, 150.0], dtype=torch.float64),
        dual_min=torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64),
    )
