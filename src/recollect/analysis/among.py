"""Do the points of one set lie among those of another? Of features: are images realistic, and as varied?"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from recollect.core import RecollectError


def share_among(points: Float[Tensor, "n f"], others: Float[Tensor, "k f"], neighbours: int = 3) -> float:
    """``1/n sum_i max_j [ |p_i - o_j| < r_j ]``, with ``r_j`` the distance of ``o_j`` to its k-th nearest other.

    Of generated images among real ones this is the improved precision of Kynkaanniemi et al. 2019: how many could be
    real. Of real images among generated ones it is their recall: how much of what is real is made. Both depend on the
    number of images, so only sets of one size compare.

    >>> line = torch.arange(10.0).unsqueeze(1)
    >>> share_among(line + 0.5, line), share_among(line + 20, line), share_among(torch.tensor([[5.0], [30.0]]), line)
    (1.0, 0.0, 0.5)
    """
    if points.ndim != 2 or others.ndim != 2 or points.shape[1] != others.shape[1] or len(others) <= neighbours:
        raise RecollectError(
            f"points lie among more than {neighbours} others of their own length, got {list(points.shape)} and "
            f"{list(others.shape)}; take both from the same layer of the same network."
        )
    points, others = points.double(), others.double()
    own = _distances(others, others)
    own.fill_diagonal_(torch.inf)
    radius = own.kthvalue(neighbours, dim=1).values
    return float((_distances(points, others) < radius).any(dim=1).double().mean())


def _distances(a: Tensor, b: Tensor) -> Tensor:
    # By differences: products would lose the small distances, between which the nearest are told apart.
    return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")
