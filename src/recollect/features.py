"""What a classifier computes on the way to its outputs: penultimate features, and inputs of any of its layers."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from recollect.core import RecollectError


@dataclass(frozen=True)
class Tap:
    """One side of one layer, by the layer's name within its network."""

    layer: str
    side: Literal["input", "output"]


class Tapped(nn.Module):
    """A network that also returns what passes through some of its layers; its weights are those it had.

    It is a copy in evaluation mode: the network given is never changed. What was tapped travels as an ordinary result,
    so that gradients, ``functional_call`` and ``vmap`` work as for any network. A layer that is called several times
    shows its last call.
    """

    def __init__(self, module: nn.Module, taps: Mapping[str, Tap]) -> None:
        super().__init__()
        self.module = _copied(module).eval().requires_grad_(False)
        self._passing: dict[str, Tensor] = {}
        for name, tap in taps.items():
            self._listen(name, tap)

    def forward(self, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Outputs, and by name what was tapped."""
        self._passing.clear()
        outputs = self.module(x)
        seen = dict(self._passing)
        self._passing.clear()
        return outputs, seen

    def _listen(self, name: str, tap: Tap) -> None:
        def hear(layer: nn.Module, given: tuple[Any, ...], result: Any) -> None:
            del layer
            self._passing[name] = given[0] if tap.side == "input" else result

        self.module.get_submodule(tap.layer).register_forward_hook(hear)


def feature_taps(module: nn.Module, sample_shape: tuple[int, ...], layer: str | None = None) -> dict[str, Tap]:
    """Where ``features`` are found, and ``logits`` where the outputs themselves may be probabilities.

    By default the features are what enters the Linear layer that makes the outputs, up to a softmax; ``layer`` names a
    submodule whose output they are instead.

    >>> net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2), nn.Softmax(dim=1))
    >>> feature_taps(net, (1, 2, 2))["features"]
    Tap(layer='3', side='input')
    """
    if layer is None:
        head = _head(module, sample_shape)
        return {"features": Tap(head, "input"), "logits": Tap(head, "output")}
    names = [name for name, _ in module.named_modules() if name]
    if layer not in names:
        raise RecollectError(
            f"the network has no submodule called '{layer}'; choose one of {', '.join(names) or 'none, it has none'}."
        )
    return {"features": Tap(layer, "output")}


def features_of(
    module: nn.Module, x: Float[Tensor, "n ..."], layer: str | None = None, rows: int = 1024
) -> Float[Tensor, "n f"]:
    """Penultimate features of samples, some rows at a time, without gradients."""
    tapped = Tapped(module, feature_taps(module, tuple(x.shape[1:]), layer))
    like = next(module.parameters())
    with torch.no_grad():
        return torch.cat([tapped(part.to(like))[1]["features"].flatten(1).to(x.device) for part in x.split(rows)])


def _head(module: nn.Module, sample_shape: tuple[int, ...]) -> str:
    linear = {name: Tap(name, "output") for name, part in module.named_modules() if isinstance(part, nn.Linear)}
    outputs, seen = _tried(Tapped(module, linear), sample_shape)
    heads = [name for name, made in seen.items() if _makes(made, outputs)]
    if not heads:
        found = f"none of its Linear layers ({', '.join(linear)}) does" if linear else "it has no Linear layer"
        raise RecollectError(
            f"no Linear layer makes the network's outputs, {found}; name the submodule whose output are the features."
        )
    return heads[-1]


def _tried(tapped: Tapped, sample_shape: tuple[int, ...]) -> tuple[Tensor, dict[str, Tensor]]:
    like = next(tapped.parameters(), torch.zeros(()))
    probe = torch.rand(2, *sample_shape, generator=torch.Generator().manual_seed(0)).to(like)
    try:
        with torch.no_grad():
            return tapped(probe)
    except Exception as error:  # a network of the user's own may raise anything
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise RecollectError(
            f"the network cannot be evaluated on inputs of shape {list(sample_shape)} ({reason}); check --shape."
        ) from error


def _makes(made: object, outputs: object) -> bool:
    """Whether outputs are these values, or their softmax or its logarithm."""
    if not isinstance(made, Tensor) or not isinstance(outputs, Tensor) or made.shape != outputs.shape:
        return False
    readings = (made, made.softmax(dim=-1), made.log_softmax(dim=-1))
    return any(torch.allclose(reading, outputs, rtol=1e-4, atol=1e-6) for reading in readings)


def _copied(module: nn.Module) -> nn.Module:
    try:
        return deepcopy(module)
    except Exception as error:  # a network of the user's own may hold anything
        raise RecollectError(
            f"the network cannot be copied ({str(error).splitlines()[0]}), and its own layers are not to be changed; "
            "detach the tensors that it keeps."
        ) from error
