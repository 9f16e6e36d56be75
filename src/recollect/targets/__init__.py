"""Trained networks, seen from the attack. Two targets, one contract (`recollect.core.Target`)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

from recollect.core import RecollectError, Target
from recollect.targets.mlp import MLPTarget, is_mlp
from recollect.targets.module import ModuleTarget

__all__ = ["MLPTarget", "ModuleTarget", "as_target"]


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
    bad = [name for name, p in module.named_parameters() if not bool(p.isfinite().all())]
    if bad:
        raise RecollectError(
            f"the weights in '{bad[0]}' are not finite; the checkpoint is damaged or training diverged."
        )
    if kind == "mlp" or (kind == "auto" and is_mlp(module)):
        return MLPTarget.from_module(module, sample_shape, dtype, device, half)
    return ModuleTarget(module, sample_shape, dtype, device, recompute)
