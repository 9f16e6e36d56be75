"""What a network is made of, as far as the theory minds: biases, normalisation, dropout, activations."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from recollect.check.network import Network

_HOMES = {
    "torch.nn.modules.batchnorm": "normalisation",
    "torch.nn.modules.instancenorm": "normalisation",
    "torch.nn.modules.normalization": "normalisation",
    "torch.nn.modules.dropout": "dropout",
    "torch.nn.modules.activation": "activation",
}
_CALLS = {
    "normalisation": "batch_norm layer_norm group_norm instance_norm rms_norm local_response_norm normalize",
    "dropout": "dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout",
    "activation": "tanh sigmoid gelu silu elu selu celu softplus hardtanh relu6 hardswish hardsigmoid mish softsign "
    "glu logsigmoid softmax log_softmax leaky_relu rrelu prelu threshold tanhshrink softshrink hardshrink softmin erf "
    "scaled_dot_product_attention",
}
_KIND_OF_CALL = {name: kind for kind, names in _CALLS.items() for name in names.split()}
_BIAS = re.compile(r".*bias.*|(b|beta|shift|offset)_?\d*", re.IGNORECASE)
"""Names alone tell: a factor may be a vector too, and without it nothing is left of the network."""
_LEAKY = ("leakyrelu", "prelu", "rrelu")


@dataclass(frozen=True)
class Structure:
    """Names as a person would look for them: ``Tanh at 'net.2'`` for a module, ``tanh()`` for a call."""

    biases: tuple[str, ...]
    normalisation: tuple[str, ...]
    dropout: tuple[str, ...]
    leaky_activations: tuple[str, ...]
    """Homogeneous like ReLU, and given a smooth derivative by the attack, but no published result is about them."""
    other_activations: tuple[str, ...]


def structure(network: Network) -> Structure:
    """Modules by type, and functions that the forward pass calls without a module.

    >>> found = structure(Network.of(nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1, bias=False)), (2,)))
    >>> found.biases, found.other_activations
    (('0.bias',), ("Tanh at '1'",))
    """
    found: dict[str, list[str]] = {"normalisation": [], "dropout": [], "activation": []}
    expected: set[str] = set()
    for name, part in network.module.named_modules():
        kind = _kind(part)
        if kind is not None:
            found[kind].append(f"{type(part).__name__} at '{name}'")
            expected |= {_plain(base.__name__) for base in type(part).__mro__}
    for call in _calls(network):
        if not any(title.startswith(_plain(call)) for title in expected):
            found[_KIND_OF_CALL[call]].append(f"{call}()")
    leaky = [text for text in found["activation"] if _plain(text).startswith(_LEAKY)]
    return Structure(
        biases=tuple(name for name in network.params if _BIAS.fullmatch(name.rpartition(".")[2])),
        normalisation=tuple(found["normalisation"]),
        dropout=tuple(found["dropout"]),
        leaky_activations=tuple(leaky),
        other_activations=tuple(text for text in found["activation"] if text not in leaky),
    )


def _kind(part: nn.Module) -> str | None:
    if isinstance(part, nn.ReLU) and not isinstance(part, nn.ReLU6):
        return None
    homes = {_HOMES.get(base.__module__) for base in type(part).__mro__} - {None}
    if homes:
        return homes.pop()
    # People write normalisation layers of their own; the name gives them away.
    return "normalisation" if "norm" in type(part).__name__.lower() else None


def _plain(name: str) -> str:
    return name.lower().replace("_", "")


class _Recorder(TorchFunctionMode):
    """Notes the names of the functions that are called while it is active."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, None] = {}

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict | None = None
    ) -> Any:
        name = getattr(func, "__name__", "").partition(".")[0]  # ``relu.default`` in a torch.export program
        self.names.setdefault(name.rstrip("_"))
        return func(*args, **(kwargs or {}))


def _calls(network: Network) -> list[str]:
    recorder = _Recorder()
    x = torch.zeros(2, *network.sample_shape)
    with recorder:
        network.outputs(x)
    return [name for name in recorder.names if name in _KIND_OF_CALL]
