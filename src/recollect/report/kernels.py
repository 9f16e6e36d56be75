"""The kernels of a first layer that is a convolution, for the eye (Buzaglo 2023, Fig. 16)."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from recollect.report.folder import Run
from recollect.report.parsing import read_tensors

KERNEL_LIMIT = 128
_FIRST = "layers.0.weight"
"""Its name in the convolutional networks that ``recollect train`` makes."""


def kernels(run: Run) -> Float[Tensor, "channels c k k"] | None:
    """None for a network that begins otherwise, lies elsewhere, or has kernels that are no pictures."""
    architecture = run.model.get("architecture")
    if not isinstance(architecture, dict) or architecture.get("kind") != "conv":
        return None
    found = (read_tensors(run.path / "model" / "weights.safetensors", (_FIRST,)) or {}).get(_FIRST)
    return found if found is not None and found.ndim == 4 and found.shape[1] in (1, 3) and len(found) else None
