"""How alike two images are: NCC, SSIM, DSSIM, PSNR, and the scalings that come before them.

Every function takes batches and returns one number per row. Images for SSIM and PSNR lie in [0, 1].
"""

from __future__ import annotations

from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from recollect.core import RecollectError

_SSIM_ROWS = 1024  # images per call: the SSIM maps of a large set at once would fill the memory


def normalise(x: Float[Tensor, "n ..."], per_channel: bool) -> Float[Tensor, "n d"]:
    """Each sample minus its mean, divided by its deviation: the dot product of two rows is their NCC.

    ``(x - mu_x) / (sqrt(d) sigma_x)``, that is Buzaglo et al. 2023, Eq. 16, with the factor ``sqrt(d)`` moved
    in, so that rows have length one. With ``per_channel`` (images only) each channel is normalised by itself,
    as the published code does, and the dot product is the mean of the channels' NCC. A constant sample has
    no direction and becomes zero: its NCC with anything is 0. A sample that is not finite becomes NaN.

    >>> rows = normalise(torch.tensor([[1.0, 2.0, 3.0], [6.0, 4.0, 2.0]]), per_channel=False)
    >>> round(float(rows[0] @ rows[1]), 4)
    -1.0
    """
    if per_channel and x.ndim != 4:
        raise RecollectError(
            f"normalising each channel needs images [n, c, h, w], got shape {list(x.shape)}; "
            "use per_channel=False for samples that are not images"
        )
    values = x.flatten(2) if per_channel else x.flatten(1).unsqueeze(1)
    # Dividing by the largest value first keeps the squares of very small or large samples in range.
    largest = values.abs().amax(dim=-1, keepdim=True)
    values = values / torch.where(largest == 0, 1, largest)
    centred = values - values.mean(dim=-1, keepdim=True)
    length = torch.linalg.vector_norm(centred, dim=-1, keepdim=True)
    # A constant sample keeps the rounding error of its mean; that is not contrast.
    rounding = 8 * torch.finfo(x.dtype).eps * values.shape[-1] ** 0.5
    unit = torch.where(length <= rounding, 0, centred / length)
    return unit.flatten(1) / values.shape[1] ** 0.5


def ncc(a: Float[Tensor, "n ..."], b: Float[Tensor, "n ..."], per_channel: bool = False) -> Float[Tensor, " n"]:
    """Normalised cross-correlation of each row of ``a`` with the same row of ``b``, in [-1, 1].

    >>> ncc(torch.tensor([[0.0, 1.0, 0.0]]), torch.tensor([[5.0, 7.0, 5.0]])).round(decimals=4)
    tensor([1.])
    """
    return (normalise(a, per_channel) * normalise(b, per_channel)).sum(dim=1).clamp(-1, 1)


def pairwise_ncc(
    a: Float[Tensor, "n ..."], b: Float[Tensor, "k ..."], per_channel: bool = False
) -> Float[Tensor, "n k"]:
    """Normalised cross-correlation of every row of ``a`` with every row of ``b``."""
    return (normalise(a, per_channel) @ normalise(b, per_channel).T).clamp(-1, 1)


def ssim(a: Float[Tensor, "n c h w"], b: Float[Tensor, "n c h w"], window: int = 3) -> Float[Tensor, " n"]:
    """Structural similarity (Wang et al. 2004) of images in [0, 1], averaged over pixels and channels.

    The window is a Gaussian of deviation 1.5 cut to ``window`` pixels; the publications on reconstruction
    use 3. Borders are mirrored, so that every pixel counts.

    >>> picture = torch.rand(2, 3, 8, 8)
    >>> ssim(picture, picture).round(decimals=3)
    tensor([1., 1.])
    """
    if a.ndim != 4 or a.shape != b.shape:
        raise RecollectError(
            f"SSIM needs two sets of images of one shape [n, c, h, w], got {list(a.shape)} and "
            f"{list(b.shape)}; use NCC for samples that are not images"
        )
    if window < 1 or window % 2 == 0 or window > min(a.shape[2:]):
        raise RecollectError(
            f"SSIM window {window} does not fit images of {a.shape[2]} x {a.shape[3]} pixels; "
            "choose an odd number from 1 up to the shorter side"
        )
    from kornia.metrics import ssim as ssim_map  # here, because the import alone takes a noticeable time

    parts = zip(a.split(_SSIM_ROWS), b.split(_SSIM_ROWS), strict=True)
    return torch.cat([ssim_map(left, right, window).flatten(1).mean(dim=1) for left, right in parts])


def dssim(a: Float[Tensor, "n c h w"], b: Float[Tensor, "n c h w"], window: int = 3) -> Float[Tensor, " n"]:
    """Structural dissimilarity ``(1 - SSIM) / 2``: 0 for equal images, 0.5 for unrelated ones."""
    return (1 - ssim(a, b, window)) / 2


def psnr(a: Float[Tensor, "n ..."], b: Float[Tensor, "n ..."]) -> Float[Tensor, " n"]:
    """Peak signal-to-noise ratio in decibels for values in [0, 1]: ``-10 log10(mean (a - b)^2)``.

    Equal images give infinity.

    >>> psnr(torch.zeros(1, 4), torch.full((1, 4), 0.1)).round(decimals=3)
    tensor([20.])
    """
    return -10 * (a - b).flatten(1).square().mean(dim=1).log10()


def stretch(x: Float[Tensor, "n ..."], like: Float[Tensor, "n ..."] | None = None) -> Float[Tensor, "n ..."]:
    """Each sample stretched linearly so that its smallest value is 0 and its largest 1 (Haim 2022, B.3).

    All channels of an image share one stretch. A constant sample becomes 0.5, the middle grey: it has no
    contrast to stretch, and neither black nor white would be right. With ``like`` the stretch is the one that suits
    that, and what it leaves outside of [0, 1] is clamped.

    >>> stretch(torch.tensor([[-1.0, 0.0, 3.0], [7.0, 7.0, 7.0]]))
    tensor([[0.0000, 0.2500, 1.0000],
            [0.5000, 0.5000, 0.5000]])
    """
    lowest, highest = (x if like is None else like).flatten(1).aminmax(dim=1, keepdim=True)
    span = highest - lowest
    return torch.where(span == 0, 0.5, (x.flatten(1) - lowest) / span).clamp(0, 1).reshape(x.shape)


def clamp01(x: Float[Tensor, "n ..."], like: Float[Tensor, "n ..."] | None = None) -> Float[Tensor, "n ..."]:
    """Values below 0 become 0, values above 1 become 1; contrast and brightness stay as they are."""
    del like
    return x.clamp(0, 1)


class Scaling(Protocol):
    """How a reconstruction, mean added, becomes an image in [0, 1] before SSIM and PSNR."""

    def __call__(self, x: Tensor, like: Tensor | None = None, /) -> Tensor: ...


SCALINGS: dict[str, Scaling] = {"stretch": stretch, "clamp": clamp01}
