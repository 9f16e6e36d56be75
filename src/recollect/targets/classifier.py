"""A trained classifier as an attack by a generator sees it: outputs, features and statistics, weights held fixed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from recollect.calling import Functional
from recollect.core import Pullback, RecollectError
from recollect.features import Tap, Tapped, feature_taps
from recollect.targets.module import ModuleTarget


@dataclass(frozen=True)
class Moments:
    """What enters a batch-norm layer now, per trial, and what entered it in training."""

    mean: Float[Tensor, "T c"]
    variance: Float[Tensor, "T c"]
    trained_mean: Float[Tensor, " c"]
    trained_variance: Float[Tensor, " c"]


@dataclass(frozen=True)
class Observed:
    """What a classifier makes of a batch for each trial."""

    outputs: Float[Tensor, "T m C"]
    """Before the softmax."""
    features: Float[Tensor, "T m f"]
    moments: tuple[Moments, ...] = ()


class ClassifierTarget:
    """Any classifier as `recollect.core.Target`, with its features; all trials share its weights.

    It is a copy in evaluation mode, and no gradient is kept for its weights: the network given stays as it was.

    >>> net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> seen = ClassifierTarget(net, (1, 2, 2)).observe(torch.zeros(5, 7, 1, 2, 2))
    >>> seen.outputs.shape, seen.features.shape
    (torch.Size([5, 7, 2]), torch.Size([5, 7, 3]))
    """

    def __init__(
        self,
        module: nn.Module,
        sample_shape: tuple[int, ...],
        features: str | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
    ) -> None:
        self.sample_shape = tuple(sample_shape)
        norms = {name: part for name, part in module.named_modules() if _has_statistics(part)}
        inputs = {f"norm.{name}": Tap(name, "input") for name in norms}
        self._tapped = Tapped(module, feature_taps(module, self.sample_shape, features) | inputs)
        self._tapped.to(device=device, dtype=dtype)
        self._functional = Functional.of(self._tapped)
        self._norms = {f"norm.{name}": self._tapped.module.get_submodule(name) for name in norms}
        self._differentiable = ModuleTarget(module, self.sample_shape, dtype, device)
        self.classes = self.observe(_one_sample(self._tapped, self.sample_shape)).outputs.shape[2]
        if self.classes < 2:
            raise RecollectError(
                f"the network has {self.classes} output; a conditioned generator needs a classifier with at least two."
            )

    @property
    def params(self) -> Mapping[str, Tensor]:
        return self._differentiable.params

    @property
    def layers(self) -> Sequence[Sequence[str]]:
        return self._differentiable.layers

    @property
    def has_statistics(self) -> bool:
        """Whether there is a batch-norm layer that remembers its training data."""
        return bool(self._norms)

    def linearise(
        self, x: Float[Tensor, "T m ..."], smoothing: Float[Tensor, " T"], taken: Sequence[Tensor] = ()
    ) -> tuple[Float[Tensor, "T m C"], Pullback]:
        return self._differentiable.linearise(x, smoothing, taken)

    def observe(self, x: Float[Tensor, "T m ..."], with_moments: bool = False) -> Observed:
        """Trials share the weights, so they go through the network as one batch."""
        outputs, seen = self._tapped(x.flatten(0, 1))
        outputs, features = seen.get("logits", outputs), seen["features"].flatten(1)
        rows = x.shape[:2]
        moments = [_moments(seen[name].unflatten(0, rows), norm) for name, norm in self._norms.items() if with_moments]
        return Observed(outputs.unflatten(0, rows), features.unflatten(0, rows), tuple(moments))

    def loss_gradients(self, x: Float[Tensor, "T m ..."], labels: Int[Tensor, "T m"]) -> Float[Tensor, "T p"]:
        """``d/dtheta (1/m) sum_i CE(Phi(x_i), y_i)`` over all weights, which can be differentiated once more.

        The derivatives are the network's own, not those of a smooth ReLU. A batch is one gradient, as in training;
        trials take their turns, for what vmap makes of convolutions with weights of their own is slower.
        """
        return torch.stack([self._loss_gradient(rows, own) for rows, own in zip(x, labels, strict=True)])

    def _loss_gradient(self, x: Float[Tensor, "m ..."], labels: Int[Tensor, " m"]) -> Float[Tensor, " p"]:
        with torch.enable_grad():
            weights = {name: value.detach().requires_grad_() for name, value in self._tapped.named_parameters()}
            outputs, seen = self._functional(weights, x)
            loss = F.cross_entropy(seen.get("logits", outputs), labels)
            grads = torch.autograd.grad(loss, list(weights.values()), create_graph=True, materialize_grads=True)
        return torch.cat([grad.flatten() for grad in grads])


def _moments(entering: Float[Tensor, "T m c ..."], norm: nn.Module) -> Moments:
    values = entering.movedim(2, 1).flatten(2)
    variance, mean = torch.var_mean(values, dim=2, correction=0)
    assert isinstance(norm, _BatchNorm)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    # A channel that was constant in training has no variance to measure deviations in.
    return Moments(mean, variance, norm.running_mean, norm.running_var.clamp_min(norm.eps))


def _has_statistics(part: nn.Module) -> bool:
    return isinstance(part, _BatchNorm) and part.running_mean is not None


def _one_sample(tapped: Tapped, sample_shape: tuple[int, ...]) -> Float[Tensor, "1 1 ..."]:
    like = next(tapped.parameters(), torch.zeros(()))
    return torch.zeros(1, 1, *sample_shape).to(like)
