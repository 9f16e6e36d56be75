"""Frechet distance between two sets of features: do generated images have the distribution of real ones?"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from recollect.core import RecollectError


def frechet_distance(a: Float[Tensor, "n f"], b: Float[Tensor, "k f"]) -> float:
    """``|mu_a - mu_b|^2 + tr(S_a + S_b - 2 (S_a S_b)^(1/2))`` of two normal distributions fitted to the features.

    Dowson and Landau 1982; as a score of generated images Heusel et al. 2017, with features of another network and
    hence on another scale. It falls with the number of samples, so only sets of one size compare.

    >>> points = torch.randn(100, 3, generator=torch.Generator().manual_seed(0))
    >>> round(frechet_distance(points, points), 6), round(frechet_distance(points, points + 2), 3)
    (0.0, 12.0)
    """
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1] or min(len(a), len(b)) < 2:
        raise RecollectError(
            f"the Frechet distance needs two sets of at least two features of one length, got {list(a.shape)} and "
            f"{list(b.shape)}; take both from the same layer of the same network."
        )
    a, b = a.double(), b.double()
    covariances = [torch.cov(rows.T).reshape(a.shape[1], a.shape[1]) for rows in (a, b)]
    apart = (a.mean(dim=0) - b.mean(dim=0)).square().sum()
    traces = covariances[0].trace() + covariances[1].trace()
    return max(0.0, float(apart + traces - 2 * _trace_of_root(*covariances)))


def _trace_of_root(a: Float[Tensor, "f f"], b: Float[Tensor, "f f"]) -> Float[Tensor, ""]:
    """``tr (A B)^(1/2)``: A B has the eigenvalues of the symmetric ``A^(1/2) B A^(1/2)``."""
    values, directions = torch.linalg.eigh(a)
    root = (directions * values.clamp(min=0).sqrt()) @ directions.T
    return torch.linalg.eigvalsh(root @ b @ root).clamp(min=0).sqrt().sum()
