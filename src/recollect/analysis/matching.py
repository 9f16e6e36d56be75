"""Which candidate belongs to which reference sample, and how good the reconstruction is.

Haim et al. 2022, appendix B.3, and Buzaglo et al. 2023, appendix A.1: for each reference sample the nearest
candidates vote, their average is the reconstruction. Reference samples and candidates have the training mean
removed; the original image is ``x + mean``, and so is that of a reconstruction, unless another mean is said to be
``added`` to it (`recollect.analysis.calibration`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from recollect.analysis.distance import Blocks, Distance, Pool, distance_blocks, orbit_points, pool, row_blocks
from recollect.analysis.metrics import SCALINGS, ncc, psnr, ssim
from recollect.analysis.voting import average
from recollect.core import RecollectError
from recollect.groups import Group

WINDOWS = (3, 11)
"""Of SSIM: the published one, and the one that Wang et al. 2004 use."""


@dataclass(frozen=True)
class MatchRule:
    """The choices that a count depends on, and which must be stated beside it."""

    distance: Distance = "ncc"
    """Normalised L2 (Buzaglo Eq. 16), which ranks as NCC does, or "l2", plain Euclidean, for points."""
    vote_ratio: float = 1.1
    """Average all candidates within this multiple of the smallest distance (1.5 for convolutions)."""
    each_candidate_once: bool = True
    """A candidate may serve only the reference sample nearest to it (the first of equals)."""
    ssim_window: int = 3
    scaling: Literal["stretch", "clamp"] = "stretch"
    per_channel: bool = True
    """Normalise each channel of an image by itself; samples that are not images are normalised whole."""
    radius: float = 0.05
    """Only for the score "distance": how near a candidate must come to a sample."""
    group: Group | None = None
    """Samples that this group moves into one another are one sample: candidates are turned to fit before they vote."""
    variants: bool = True
    """Whether SSIM is taken under both scalings and two windows: no score changes, and most of the time goes there."""

    def __post_init__(self) -> None:
        if self.distance not in ("ncc", "l2"):
            raise RecollectError(f"distance is {self.distance!r}; choose 'ncc' or 'l2'")
        if self.scaling not in SCALINGS:
            raise RecollectError(f"scaling is {self.scaling!r}; choose 'stretch' or 'clamp'")
        if not 1 <= self.vote_ratio < torch.inf:
            raise RecollectError(f"vote_ratio is {self.vote_ratio}; choose a number from 1 upwards")
        if self.ssim_window < 1 or self.ssim_window % 2 == 0:
            raise RecollectError(f"ssim_window is {self.ssim_window}; choose an odd number such as 3")
        if not 0 < self.radius < torch.inf:
            raise RecollectError(f"radius is {self.radius}; choose a number above 0")


@dataclass(frozen=True)
class Matches:
    """What became of each reference sample: row i is about sample i. Unmatched rows say so as stated."""

    reconstruction: Float[Tensor, "n ..."]
    """Average of the voting candidates, each moved to fit the sample, mean not yet added; 0 where unmatched."""
    candidate: Int[Tensor, " n"]
    """Nearest candidate, an index into the candidates given; -1 where unmatched."""
    votes: Int[Tensor, " n"]
    """How many candidates were averaged."""
    distance: Float[Tensor, " n"]
    """To the nearest candidate that may serve this sample; infinite where unmatched."""
    ncc: Float[Tensor, " n"]
    """Of the reconstruction with the mean-removed sample; -1, the lowest value, where unmatched."""
    ssim: Float[Tensor, " n"] | None
    """Of the scaled reconstruction with the original image; 0 where unmatched, None without images."""
    psnr: Float[Tensor, " n"] | None
    """Like ``ssim``, in decibels; infinite where the reconstruction is exact."""
    rule: MatchRule
    variants: dict[str, Float[Tensor, " n"]] = field(default_factory=dict)
    """SSIM under both scalings and two windows, by names such as "clamp_11": a count depends on them."""

    @property
    def matched(self) -> Bool[Tensor, " n"]:
        return self.candidate >= 0


def match(
    candidates: Float[Tensor, "k ..."] | Pool,
    x: Float[Tensor, "n ..."],
    mean: Float[Tensor, "*sample"],
    rule: MatchRule,
    added: Float[Tensor, "n ..."] | None = None,
) -> Matches:
    """Assign candidates to reference samples, let them vote, and score the result.

    Candidates that are not finite (from trials that diverged) or, for "ncc", constant, are never matched.
    To match the same candidates many times, prepare them once with ``candidate_pool``. What is ``added`` to the
    reconstruction of each sample to make an image of it is the mean, where nothing else is given. It is scaled as with
    the mean, so that stretching does not grey images of black and white.

    >>> x = torch.tensor([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]])
    >>> result = match(2 * x.flip(0), x, torch.zeros(3), MatchRule())
    >>> result.candidate, result.votes
    (tensor([1, 0]), tensor([1, 1]))
    """
    if not isinstance(candidates, Pool):
        candidates = candidate_pool(candidates, rule)
    x = _checked(x, mean, candidates)
    mean = mean.to(x)
    n = len(x)
    nearest = torch.full((n,), -1, dtype=torch.long, device=x.device)
    votes = torch.zeros_like(nearest)
    smallest = torch.full((n,), torch.inf, dtype=x.dtype, device=x.device)
    reconstruction = torch.zeros_like(x)
    for rows, block, element in _allowed_distances(candidates, _orbit_points(x, rule), rule):
        first = block.argmin(dim=1)
        smallest[rows] = block.gather(1, first[:, None])[:, 0]
        nearest[rows] = torch.where(smallest[rows].isfinite(), first, -1)
        voting = (block <= rule.vote_ratio * smallest[rows, None]) & block.isfinite()
        votes[rows] = voting.sum(dim=1)
        reconstruction[rows] = average(candidates.samples, voting, element, rule.group)
    usual = reconstruction + mean
    shown = usual if added is None else reconstruction + added.to(x)
    pictures = {name: scale(shown, usual) for name, scale in SCALINGS.items()} if x.ndim == 4 else {}
    variants = _variants(pictures, x + mean, nearest >= 0, rule)
    scores = _scores(reconstruction, pictures, x, mean, nearest >= 0, rule, variants)
    return Matches(reconstruction, nearest, votes, smallest, *scores, rule, variants)


def candidate_pool(candidates: Float[Tensor, "k ..."], rule: MatchRule) -> Pool:
    """Candidates prepared for matching: normalised once, however many sets they are matched with."""
    if len(candidates) == 0:
        raise RecollectError("got no candidates to match; at least one is needed, so run the search first")
    return pool(candidates, rule.distance, rule.per_channel)


def nearest_distance(
    candidates: Float[Tensor, "k ..."] | Pool, x: Float[Tensor, "n ..."], rule: MatchRule
) -> Float[Tensor, " n"]:
    """Distance from each sample to the nearest usable candidate, whomever else that candidate serves.

    >>> points = torch.tensor([[0.0, 1.0], [3.0, 5.0]])
    >>> nearest_distance(torch.zeros(1, 2), points, MatchRule(distance="l2")).round(decimals=3)
    tensor([1.0000, 5.8310])
    """
    if not isinstance(candidates, Pool):
        candidates = candidate_pool(candidates, rule)
    x = _checked(x, x[:1].sum(dim=0), candidates)
    return torch.cat([block.amin(dim=1) for _, block, _ in distance_blocks(_orbit_points(x, rule), candidates)])


def scaled_reconstruction(matches: Matches, mean: Float[Tensor, "*sample"]) -> Float[Tensor, "n ..."]:
    """Reconstructions as images in [0, 1]: mean added, scaled by the rule; middle grey where unmatched."""
    scaled = SCALINGS[matches.rule.scaling](matches.reconstruction + mean.to(matches.reconstruction))
    scaled[~matches.matched] = 0.5
    return scaled


def _checked(x: Tensor, mean: Tensor, candidates: Pool) -> Tensor:
    shape = candidates.samples.shape[1:]
    if x.shape[1:] != shape or mean.shape != shape:
        raise RecollectError(
            f"candidates have shape {list(shape)}, reference samples {list(x.shape[1:])} and their mean "
            f"{list(mean.shape)}; all three must agree, so pass the data that the network was trained on"
        )
    if len(x) == 0 or not bool(x.isfinite().all()):
        raise RecollectError(
            f"got {len(x)} reference samples, of which {int((~x.isfinite()).flatten(1).any(1).sum())} are "
            "not finite; at least one sample is needed and all must be finite, so check the data"
        )
    return x.to(candidates.samples)


def _orbit_points(x: Float[Tensor, "n ..."], rule: MatchRule) -> Float[Tensor, "n g d"]:
    return orbit_points(x, rule.distance, rule.per_channel, rule.group)


def _allowed_distances(candidates: Pool, reference: Float[Tensor, "n g d"], rule: MatchRule) -> Blocks:
    """Distances from reference samples to candidates, infinite where a candidate may not serve."""
    if not rule.each_candidate_once:
        yield from distance_blocks(reference, candidates)
        return
    owner = torch.zeros_like(candidates.usable, dtype=torch.long)
    moved_by = torch.zeros_like(owner)
    nearest = torch.full_like(owner, torch.inf, dtype=reference.dtype)
    for rows, block, element in distance_blocks(reference, candidates):
        value, row = block.amin(dim=0), block.argmin(dim=0)
        nearer = value < nearest
        owner = torch.where(nearer, row + rows.start, owner)
        if element is not None:
            moved_by = torch.where(nearer, element.gather(0, row[None])[0], moved_by)
        nearest = torch.minimum(value, nearest)
    numbers = torch.arange(len(reference), device=owner.device)
    for rows in row_blocks(len(numbers), len(owner)):
        own = owner == numbers[rows, None]
        element = None if reference.shape[1] == 1 else moved_by.expand_as(own)
        yield rows, torch.where(own, nearest, torch.inf), element


def _scores(
    reconstruction: Tensor,
    pictures: Mapping[str, Tensor],
    x: Tensor,
    mean: Tensor,
    matched: Tensor,
    rule: MatchRule,
    variants: Mapping[str, Tensor],
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """NCC, SSIM and PSNR; the last two for images only."""
    images = x.ndim == 4
    correlation = ncc(reconstruction, x, rule.per_channel and images)
    correlation = torch.where(matched, correlation, -1)
    if not images:
        return correlation, None, None
    scaled = pictures[rule.scaling]
    similarity = variants.get(f"{rule.scaling}_{rule.ssim_window}")
    if similarity is None:
        similarity = torch.where(matched, ssim(scaled, x + mean, rule.ssim_window), 0)
    return correlation, similarity, torch.where(matched, psnr(scaled, x + mean), 0)


def _variants(pictures: Mapping[str, Tensor], images: Tensor, matched: Tensor, rule: MatchRule) -> dict[str, Tensor]:
    return {
        f"{scaling}_{window}": torch.where(matched, ssim(scaled, images, window), 0)
        for scaling, scaled in pictures.items()
        for window in WINDOWS
        if rule.variants and window <= min(images.shape[2:])
    }
