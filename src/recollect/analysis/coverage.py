"""Are made points where real ones are dense, and is there one near every real one? Of features: realism and variety."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from recollect.analysis.distance import distances
from recollect.core import RecollectError


def density_and_coverage(
    made: Float[Tensor, "n f"], real: Float[Tensor, "k f"], neighbours: int = 5
) -> tuple[float, float]:
    """How many made points the balls around real ones hold, and the share of these balls that hold any.

    ``density = 1/(n k) sum_i sum_j [ |m_i - r_j| < R_j ]`` with k neighbours, ``coverage = 1/N sum_j max_i [ ... ]``
    over N real points, ``R_j`` the distance of ``r_j`` to its k-th nearest other (Naeem et al. 2020). Other real points
    have a density of about 1 and cover nearly all. Precision, the share of made points in any ball, is led astray by
    few outliers, whose balls are large. Both depend on which real points there are, coverage on how many made ones.

    >>> line = torch.arange(12.0).unsqueeze(1)
    >>> density_and_coverage(line, line)[1], density_and_coverage(line + 50, line)
    (1.0, (0.0, 0.0))
    """
    if made.ndim != 2 or real.ndim != 2 or made.shape[1] != real.shape[1] or len(real) <= neighbours:
        raise RecollectError(
            f"density needs features of one length, of more than {neighbours} real images, got {list(made.shape)} and "
            f"{list(real.shape)}; take both from the same layer of the same network."
        )
    made, real = made.double(), real.double()
    own = distances(real, real, "l2").fill_diagonal_(torch.inf)
    radius = own.kthvalue(neighbours, dim=1).values
    held = distances(made, real, "l2") < radius
    return float(held.sum(dim=1).double().mean() / neighbours), float(held.any(dim=0).double().mean())
