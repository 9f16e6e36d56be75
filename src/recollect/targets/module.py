"""Any ``nn.Module`` as a target: functional calls, reverse mode, vmap over trials."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import vmap
from torch.utils.checkpoint import checkpoint

from recollect.calling import Functional
from recollect.core import Pullback, RecollectError
from recollect.loading.usable import in_evaluation_mode, require_weights
from recollect.targets.smooth_relu import SmoothReLUMode

_NO_SECOND_DERIVATIVE = ("is not implemented", "differentiate twice", "Double backward")
"""What PyTorch says of operations whose gradient has no gradient."""


@dataclass(frozen=True)
class ModulePulled:
    """`recollect.core.Pulled` by autograd: the gradient is differentiated once more."""

    x: Tensor
    cotangent: Tensor
    params: Mapping[str, Tensor]
    combined: dict[str, Tensor]

    @property
    def taken(self) -> list[Tensor]:
        return []

    def adjoint(
        self, weights: Mapping[str, float], total: Mapping[str, Tensor] | None = None
    ) -> tuple[Float[Tensor, "T m ..."], Float[Tensor, "T m C"]]:
        total = self.combined if total is None else total
        outer = [2 * weights[name] * (total[name].detach() - self.params[name]) for name in self.combined]
        try:
            x_gradient, cotangent_gradient = torch.autograd.grad(
                list(self.combined.values()), [self.x, self.cotangent], outer, materialize_grads=True
            )
        except RuntimeError as error:
            if not any(words in str(error) for words in _NO_SECOND_DERIVATIVE):
                raise
            raise RecollectError(
                f"the network cannot be differentiated twice, which this attack needs ({_first_line(error)}); replace "
                "that operation by one that can."
            ) from error
        return x_gradient, cotangent_gradient


class ModuleTarget:
    """A network whose gradients come from autograd. Slower than a hand-derived target, and never limited.

    The module is used in evaluation mode and is not changed: parameters and buffers are copied, to one device and in
    float32 at least. Tied weights are one parameter, whose gradient is the sum over the places it is used in. Trials go
    through it together where vmap can follow what it does, one after the other where it cannot. ``recompute`` keeps no
    activations of the forward pass and computes them again when they are needed (gradient checkpointing).

    >>> target = ModuleTarget(nn.Sequential(nn.Flatten(), nn.Linear(4, 1)), (1, 2, 2))
    >>> outputs, pullback = target.linearise(torch.zeros(3, 5, 1, 2, 2), torch.ones(3))
    >>> outputs.shape, pullback(torch.ones(3, 5, 1)).combined["1.bias"].shape
    (torch.Size([3, 5, 1]), torch.Size([3, 1]))
    """

    def __init__(
        self,
        module: nn.Module,
        sample_shape: tuple[int, ...],
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
        recompute: bool = False,
    ) -> None:
        self.sample_shape = tuple(sample_shape)
        self._recompute = recompute
        self._vectorised: bool | None = None
        self._module, self._functional = module, Functional.of(module)
        require_weights(module)
        device = next(module.parameters()).device if device is None else device
        self.params = {name: _copy(value, dtype, device) for name, value in module.named_parameters()}
        self.buffers = {name: _copy(value, dtype, device) for name, value in module.named_buffers()}

    @property
    def layers(self) -> list[list[str]]:
        """Parameters of one submodule form a layer: ``fc1.weight`` and ``fc1.bias`` belong together."""
        grouped: dict[str, list[str]] = {}
        for name in self.params:
            grouped.setdefault(name.rpartition(".")[0], []).append(name)
        return list(grouped.values())

    def linearise(
        self, x: Float[Tensor, "T m ..."], smoothing: Float[Tensor, " T"], taken: Sequence[Tensor] = ()
    ) -> tuple[Float[Tensor, "T m C"], Pullback]:
        del taken
        trials, x = x.shape[0], _recording(x)
        # One copy of the parameters per trial, as a view: gradients then come out per trial.
        params = {name: p.expand(trials, *p.shape).requires_grad_() for name, p in self.params.items()}
        with torch.enable_grad():
            outputs = self._outputs(params, x, smoothing)

        def pullback(cotangent: Tensor, names: Collection[str] | None = None) -> ModulePulled:
            wanted = list(params) if names is None else [name for name in params if name in names]
            cotangent = _recording(cotangent)
            with torch.enable_grad():
                grads = torch.autograd.grad(
                    outputs,
                    [params[name] for name in wanted],
                    cotangent,
                    create_graph=True,
                    materialize_grads=True,
                )
            return ModulePulled(x, cotangent, self.params, dict(zip(wanted, grads, strict=True)))

        return outputs, pullback

    def _outputs(self, params: dict[str, Tensor], x: Tensor, smoothing: Tensor) -> Tensor:
        if self._vectorised is None:
            self._vectorised = self._can_be_vectorised(params, x, smoothing)
        if self._recompute:
            outputs = checkpoint(self._all_trials, params, x, smoothing, use_reentrant=False)
        else:
            outputs = self._all_trials(params, x, smoothing)
        assert isinstance(outputs, Tensor)
        if outputs.ndim == 2:
            outputs = outputs.unsqueeze(-1)
        if outputs.ndim != 3 or outputs.shape[:2] != x.shape[:2]:
            shape = list(outputs.shape[1:])
            raise RecollectError(
                f"the network returns {shape} for {x.shape[1]} inputs; it must return one row of outputs per input."
            )
        return outputs

    def _all_trials(self, params: dict[str, Tensor], x: Tensor, smoothing: Tensor) -> Tensor:
        if self._vectorised:
            return vmap(self._one_trial)(params, x, smoothing)
        return self._trial_by_trial(params, x, smoothing)

    @torch.no_grad()
    def _can_be_vectorised(self, params: dict[str, Tensor], x: Tensor, smoothing: Tensor) -> bool:
        try:
            vmap(self._one_trial)(params, x, smoothing)
        except Exception:  # vmap refuses what depends on values, and says so in many ways
            self._trial_by_trial(params, x, smoothing)  # a network that fails here too fails for its own reasons
            return False
        return True

    def _trial_by_trial(self, params: dict[str, Tensor], x: Tensor, smoothing: Tensor) -> Tensor:
        rows = range(x.shape[0])
        own = [{name: value[trial] for name, value in params.items()} for trial in rows]
        return torch.stack([self._one_trial(own[trial], x[trial], smoothing[trial]) for trial in rows])

    def _one_trial(self, params: dict[str, Tensor], x: Tensor, smoothing: Tensor) -> Tensor:
        # Set here, since checkpointing calls this again later.
        with in_evaluation_mode(self._module), SmoothReLUMode(smoothing):
            outputs = self._functional({**params, **self.buffers}, x)
        if not isinstance(outputs, Tensor):
            raise RecollectError(
                f"the network returns {type(outputs).__name__} instead of one tensor; wrap it in a module that returns "
                "the logits alone."
            )
        return outputs


def _copy(value: Tensor, dtype: torch.dtype | None, device: torch.device) -> Tensor:
    """Gradients of gradients need float32 at least."""
    own = torch.promote_types(value.dtype, torch.float32) if dtype is None else dtype
    return value.detach().clone().to(device=device, dtype=own if value.is_floating_point() else None)


def _recording(value: Tensor) -> Tensor:
    """A leaf of its own where the caller records no gradients; ``adjoint`` differentiates with respect to it."""
    return value if value.requires_grad else value.detach().requires_grad_()


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:200].rstrip(".")
