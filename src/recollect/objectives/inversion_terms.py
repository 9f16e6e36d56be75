"""What is asked of generated images, one function per term, each ``[T]`` (TLDR 2024, sections 3.3 and 3.4).

Every term is a mean over the images of a batch, so that its weight does not depend on how many there are.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from recollect.core import per_trial
from recollect.counter_random import TrialStreams
from recollect.priors import squared_differences
from recollect.targets.classifier import ClassifierTarget, Moments


def divergence(outputs: Float[Tensor, "T m N"], distribution: Float[Tensor, "T m N"]) -> Float[Tensor, " T"]:
    """``KL(P || Q) = sum_k P_k log(P_k / Q_k)``, P the condition, Q the classifier's answer.

    With a hot P it is the cross-entropy.

    >>> divergence(torch.tensor([[[0.0, 0.0]]]), torch.tensor([[[1.0, 0.0]]])).round(decimals=4)
    tensor([0.6931])
    """
    answer = outputs.log_softmax(dim=2)
    return (torch.xlogy(distribution, distribution) - distribution * answer).sum(dim=2).mean(dim=1)


def cross_entropy(outputs: Float[Tensor, "T m N"], labels: Int[Tensor, "T m"]) -> Float[Tensor, " T"]:
    """``- log Q_k`` at the hidden label k."""
    return -outputs.log_softmax(dim=2).gather(2, labels.unsqueeze(2)).mean(dim=(1, 2))


def mean_cosine(features: Float[Tensor, "T m f"]) -> Float[Tensor, " T"]:
    """``1 / (m (m - 1)) sum_{i != j} cos(f_i, f_j)``: how alike the images of a batch are to the classifier.

    The sum over all pairs is the squared length of the sum, which needs no table of pairs.
    """
    m = features.shape[1]
    unit = F.normalize(features, dim=2)
    own = unit.square().sum(dim=(1, 2))
    return (unit.sum(dim=1).square().sum(dim=1) - own) / (m * (m - 1))


def class_cosine(features: Float[Tensor, "T m f"], labels: Int[Tensor, "T m"]) -> Float[Tensor, " T"]:
    """The same over pairs of one label alone, which the paper lacks: classes differ anyway, and outnumber these pairs.

    Zero where no two images have the same label.
    """
    unit = F.normalize(features, dim=2)
    pairs = (labels.unsqueeze(2) == labels.unsqueeze(1)).to(features.dtype)
    alike = pairs.sum(dim=(1, 2)) - labels.shape[1]
    own = unit.square().sum(dim=(1, 2))
    return ((torch.bmm(unit, unit.mT) * pairs).sum(dim=(1, 2)) - own) / alike.clamp(min=1)


def orthogonality(features: Float[Tensor, "T m f"]) -> Float[Tensor, " T"]:
    """``1 / m^2 sum_{ij} (G_ij - delta_ij)^2`` with the Gram matrix G of the features, each of length one.

    The paper does not say whether features are normalised; without it the term would mostly fix their length.
    """
    unit = F.normalize(features, dim=2)
    gram = torch.bmm(unit, unit.mT)
    return (gram - torch.eye(gram.shape[1], dtype=gram.dtype, device=gram.device)).square().mean(dim=(1, 2))


def variation(images: Float[Tensor, "T m c h w"]) -> Float[Tensor, " T"]:
    """Squared differences of neighbouring pixels, summed over an image."""
    return squared_differences(images).mean(dim=1)


def pixel_range(images: Float[Tensor, "T m c h w"]) -> Float[Tensor, " T"]:
    """``sum max(0, -x) + max(0, x - 1)`` over the pixels of an image."""
    return (torch.relu(-images) + torch.relu(images - 1)).sum(dim=(2, 3, 4)).mean(dim=1)


def gradient_norm(
    classifier: ClassifierTarget, images: Float[Tensor, "T m c h w"], labels: Int[Tensor, "T m"]
) -> Float[Tensor, " T"]:
    """``|| d/dtheta (1/m) sum_i CE(Phi(x_i), y_i) ||`` over all weights of the classifier: small at training data.

    It is differentiated once more with respect to the images.
    """
    squares = classifier.loss_gradients(images, labels).square().sum(dim=1)
    # The root has no slope at zero, which a classifier that is certain of everything reaches.
    return (squares + torch.finfo(squares.dtype).tiny).sqrt()


def statistics(moments: Sequence[Moments]) -> Float[Tensor, " T"]:
    """Squared deviation of batch-norm statistics from those of training, in units of the latter, summed over layers.

    ``mean_c [(mu - mu_c)^2 / v_c + (v / v_c - 1)^2]``, after DeepInversion (Yin et al. 2020), which the paper lacks.
    """
    layers = [
        (layer.mean - layer.trained_mean).square() / layer.trained_variance
        + (layer.variance / layer.trained_variance - 1).square()
        for layer in moments
    ]
    return torch.stack([layer.mean(dim=1) for layer in layers]).sum(dim=0)


def random_perturbation(
    images: Float[Tensor, "T m c h w"], radius: Float[Tensor, " T"], streams: TrialStreams, step: Int[Tensor, ""]
) -> Float[Tensor, "T m c h w"]:
    """Images moved to a random place in the L-infinity ball of this radius."""
    noise = 2 * streams.uniform("perturbation", step, images.shape[1:], images.dtype) - 1
    return images + per_trial(radius, images) * noise


def adversarial_perturbation(
    images: Float[Tensor, "T m c h w"],
    radius: Float[Tensor, " T"],
    classifier: ClassifierTarget,
    labels: Int[Tensor, "T m"],
) -> Float[Tensor, "T m c h w"]:
    """Images moved to the corner of the ball where the loss grows fastest (Goodfellow et al. 2015).

    The move is held constant when differentiating.
    """
    with torch.enable_grad():
        start = images.detach().requires_grad_()
        loss = cross_entropy(classifier.observe(start).outputs, labels).sum()
    return images + per_trial(radius, images) * torch.autograd.grad(loss, start)[0].sign()
