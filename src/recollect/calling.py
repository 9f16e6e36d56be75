"""A network as a function of its parameters, also where parts of it share weights or are used twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel


@dataclass(frozen=True)
class Functional:
    """``functional(values, x)`` is what ``net`` makes of ``x`` with these parameters and buffers.

    PyTorch's own call finds out by itself which names mean the same tensor. Where they do because a whole part is used
    twice, it replaces the tensors of that part twice and puts the replacement back: the network is broken afterwards.

    >>> import torch
    >>> part = nn.Linear(2, 2, bias=False)
    >>> net = nn.Sequential(part, part)
    >>> Functional.of(net)({"0.weight": 3 * torch.eye(2)}, torch.ones(2)).tolist()
    [9.0, 9.0]
    """

    net: nn.Module
    same: Mapping[str, str]
    """Further names of tensors, and the first name of each."""

    @classmethod
    def of(cls, net: nn.Module) -> Functional:
        first: dict[int, str] = {}
        same: dict[str, str] = {}
        for place, part in net.named_modules():
            for name, tensor in (*part._parameters.items(), *part._buffers.items()):
                full = f"{place}.{name}".lstrip(".")
                if tensor is not None and first.setdefault(id(tensor), full) != full:
                    same[full] = first[id(tensor)]
        return cls(net, same)

    def __call__(self, values: Mapping[str, Tensor], x: Tensor) -> Any:
        shared = {name: values[own] for name, own in self.same.items() if own in values}
        with sdpa_kernel(SDPBackend.MATH):  # fused attention has no second derivative
            return functional_call(self.net, {**values, **shared}, (x,), tie_weights=False)
