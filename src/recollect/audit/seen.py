"""How a network saw its samples: with the mean image removed, as they are, or scaled. Declared, or measured.

The NCC is blind to a shift and a scale of each image (and channel), SSIM and pictures are not: candidates for images
are brought back to what the file holds. Standardised vectors, of which every value has a scale of its own, are matched
as they were seen. What the network says of a sample, and so the check of assumptions, depends on every bit of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from recollect.data import TaskData
from recollect.outputs import error_rate, network_outputs
from recollect.zoo.losses import margins

WORDS = {
    "centred": "with the mean of the training samples removed",
    "raw": "as they are in the file",
    "signed": "scaled to 2 x - 1",
    "standardised": "with mean and deviation of each channel of the training samples brought to 0 and 1",
}


@dataclass(frozen=True)
class Seen:
    """``input = scale * sample + shift``, where the shift of ``centred`` is an image."""

    name: str
    scale: Float[Tensor, " ..."]
    shift: Float[Tensor, " ..."]

    def inputs(self, images: Float[Tensor, "n ..."]) -> Float[Tensor, "n ..."]:
        return self.scale * images + self.shift

    def matched(self, samples: TaskData) -> TaskData:
        """Samples as they are matched: less their mean image, as they are, or as the network saw them."""
        if not self._scales_values(samples):
            return samples
        inputs = self.inputs(samples.images)
        return replace(samples, x=inputs, images=inputs, mean=torch.zeros_like(samples.mean), own_mean=None)

    def samples(self, candidates: Float[Tensor, "k ..."], data: TaskData) -> Float[Tensor, "k ..."]:
        """Candidates, which are inputs, as samples that are matched: what ``inputs`` made of them is undone."""
        if self.name in ("centred", "raw") or self._scales_values(data):
            return candidates
        return (candidates - self.shift.to(candidates)) / self.scale.to(candidates)

    def wrapped(self, net: nn.Module, samples: TaskData) -> nn.Module:
        """The network as it answers to samples that are matched."""
        return net if self.name in ("centred", "raw") or self._scales_values(samples) else _Prepared(net, self)

    def _scales_values(self, samples: TaskData) -> bool:
        return self.name == "standardised" and samples.images.ndim != 4

    def box(self, images: Float[Tensor, "n ..."]) -> tuple[float, float] | None:
        """Where inputs lie, when samples that lie in [0, 1] are seen this way; None where nobody knows."""
        unit = bool(images.min() >= 0) and bool(images.max() <= 1)
        return {"centred": (-1.0, 1.0), "raw": (0.0, 1.0), "signed": (-1.0, 1.0)}.get(self.name) if unit else None


class _Prepared(nn.Module):
    def __init__(self, net: nn.Module, seen: Seen) -> None:
        super().__init__()
        self.net, self._seen = net, seen

    def forward(self, x: Tensor) -> Tensor:
        return self.net(self._seen.inputs(x))


def seen_as(name: str, data: TaskData) -> Seen:
    """One of ``WORDS``, as the training samples define it."""
    one, zero = torch.ones(()), torch.zeros(())
    if name == "centred":
        return Seen(name, one, -data.mean)
    if name == "signed":
        return Seen(name, 2 * one, -one)
    if name == "standardised":
        axes = (0, *range(2, data.images.ndim))
        mean, deviation = data.images.mean(axes, keepdim=True), data.images.std(axes, keepdim=True)
        scale = 1 / deviation.clamp(min=1e-6)
        return Seen(name, scale[0], (-mean * scale)[0])
    return Seen("raw", one, zero)


def likeliest(net: nn.Module, data: TaskData) -> tuple[Seen, dict[str, tuple[float, float]]]:
    """The way of seeing under which the network makes the fewest errors on the data, at the most even margins.

    Training brings the margins of its samples close to each other; a loss would favour whatever makes inputs larger.
    Beside it, error and spread of margins under each: the user should see how clear the case is.
    """
    measured = {}
    for name in WORDS:
        seen = replace(data, x=seen_as(name, data).inputs(data.images))
        outputs = network_outputs(net, seen.x).double()
        values = outputs[:, 0] * data.y if data.classes is None else margins(outputs, data.y)
        spread = float(values.std() / values.mean().clamp(min=1e-12)) if len(values) > 1 else 0.0
        measured[name] = (error_rate(net, seen), spread)
    return seen_as(min(measured, key=lambda name: measured[name]), data), measured
