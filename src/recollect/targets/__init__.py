"""Trained networks, seen from the attack. Several targets, one contract (`recollect.core.Target`)."""

from __future__ import annotations

from typing import Literal, TypeGuard

import torch
from torch import nn

from recollect.core import Target
from recollect.loading.usable import require_weights
from recollect.targets.chain import is_chain
from recollect.targets.classifier import ClassifierTarget
from recollect.targets.mlp import MLPTarget
from recollect.targets.module import ModuleTarget
from recollect.targets.symmetrized import SymmetrisedTarget, inside
from recollect.zoo.symmetrised import Symmetrised

__all__ = [
    "ClassifierTarget",
    "MLPTarget",
    "ModuleTarget",
    "SymmetrisedTarget",
    "as_target",
    "inside",
    "is_perceptron",
]


def as_target(
    module: nn.Module,
    sample_shape: tuple[int, ...],
    kind: Literal["auto", "mlp", "module"] = "auto",
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
    recompute: bool = False,
    half: bool = False,
) -> Target:
    """The fastest target that computes what ``module`` computes, or the one asked for.

    >>> type(as_target(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)), (2,))).__name__
    'MLPTarget'
    """
    require_weights(module)
    if isinstance(module, Symmetrised):
        inner = as_target(module.net, sample_shape, kind, dtype, device, recompute, half)
        return SymmetrisedTarget(inner, module.group)
    if kind == "mlp" or (kind == "auto" and is_chain(module, sample_shape)):
        return MLPTarget.from_module(module, sample_shape, dtype, device, half)
    return ModuleTarget(module, sample_shape, dtype, device, recompute)


def is_perceptron(target: Target) -> TypeGuard[MLPTarget]:
    """Whether the first layer sees whole samples and all layers are known: what the row space is defined for."""
    return isinstance(target, MLPTarget) and target.patches.kernel is None
