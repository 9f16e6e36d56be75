"""How safely the training samples are classified, and how many sit on the margin."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from recollect.core import RecollectError


@dataclass(frozen=True)
class Margins:
    """Only samples on the smallest margin have a multiplier in theory; in practice those near it."""

    samples: int
    error: float
    """Share of samples whose margin is not positive."""
    smallest: float | None
    """Smallest positive margin; None where no sample is classified correctly."""
    median: float
    largest: float
    within_tenth: int
    """Samples whose margin is positive and at most 1.1 times the smallest."""
    within_twice: int


def directions(outputs: Float[Tensor, "n C"], y: Int[Tensor, " n"]) -> Float[Tensor, "n C"]:
    """What the margin is linear in: ``y_i`` for one output, ``e_y - e_j`` with the best wrong class j for several.

    >>> directions(torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([1])).tolist()
    [[-1.0, 1.0, 0.0]]
    """
    C = outputs.shape[1]
    if C == 1:
        return y.to(outputs).unsqueeze(1)
    own = F.one_hot(y, C).to(outputs)
    best_wrong = outputs.masked_fill(own.bool(), -torch.inf).argmax(dim=1)
    return own - F.one_hot(best_wrong, C).to(outputs)


def margins(outputs: Float[Tensor, "n C"], y: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
    """``y Phi(x)`` for labels of +-1 (Haim 2022, section 3), ``Phi_y - max_{j != y} Phi_j`` for classes (Buzaglo 2023).

    >>> margins(torch.tensor([[3.0], [-2.0]]), torch.tensor([1, -1])).tolist()
    [3.0, 2.0]
    """
    return (outputs * directions(outputs, y)).sum(dim=1)


def measure(values: Float[Tensor, " n"]) -> Margins:
    """
    >>> found = measure(torch.tensor([-1.0, 2.0, 2.1, 3.9, 9.0]))
    >>> found.error, found.smallest, found.within_tenth, found.within_twice
    (0.2, 2.0, 2, 3)
    """
    positive = values[values > 0]
    smallest = float(positive.min()) if len(positive) else None
    return Margins(
        samples=len(values),
        error=(len(values) - len(positive)) / len(values),
        smallest=smallest,
        median=float(values.median()),
        largest=float(values.max()),
        within_tenth=0 if smallest is None else int((positive <= 1.1 * smallest).sum()),
        within_twice=0 if smallest is None else int((positive <= 2 * smallest).sum()),
    )


def require_labels(y: Tensor, n: int, outputs: int) -> Int[Tensor, " n"]:
    """Labels that fit the output layer: +-1 for one output, 0 to C - 1 for several."""
    if y.ndim != 1 or len(y) != n:
        raise RecollectError(f"there are {n} samples and labels of shape {list(y.shape)}; give one label per sample.")
    found = y.unique().tolist()
    shown = ", ".join(f"{value:g}" for value in found[:5]) + (", ..." if len(found) > 5 else "")
    if outputs == 1 and not set(found) <= {-1, 1}:
        raise RecollectError(
            f"the network has one output, for labels of +1 and -1, but the data have {shown}; choose a task with two "
            "classes."
        )
    if outputs > 1 and not set(found) <= set(range(outputs)):
        raise RecollectError(
            f"the network has {outputs} outputs, for labels 0 to {outputs - 1}, but the data have {shown}; choose a "
            "task with as many classes."
        )
    return y.long()
