"""Settings of methods that have some of their own: sections inside ``[attack]``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from recollect.config.section import Section
from recollect.symmetries import checked_name


def _group_or_model(name: str) -> str:
    return name if name == "model" else checked_name(name)


GroupChoice = Annotated[str, AfterValidator(_group_or_model)]
"""``model``, the group that the network says it is invariant to, or the name of one."""


class SameGDConfig(Section):
    """SAME-GD (Elbaz 2024, algorithm 1), for ``attack.optimiser = "same_gd"``. Symbols of the paper in brackets."""

    update_every: int = Field(default=100, ge=1)
    """[T_update] steps from one mix with the remembered asymmetry to the next."""
    save_every: int = Field(default=50, ge=1)
    """[T_save] steps from one remembered point to the next."""
    alpha: float = Field(default=0.9, ge=0, le=1)
    """[alpha_t] share of the candidate in a mix; the rest is remembered asymmetry."""
    beta: float = Field(default=0.9, ge=0, le=1)
    """[beta_t] share of the candidate in what is remembered; the rest is its gradient."""
    schedule: Literal["constant", "to_one"] = "constant"
    """``to_one``: both shares grow linearly to 1 at the last step."""
    memory: Literal["squared_gradient", "gradient"] = "squared_gradient"
    """``squared_gradient``: elementwise, as printed."""


class DeepPriorConfig(Section):
    """Deep image prior (Ulyanov 2020; Elbaz 2024), for ``attack.space = "dip"``."""

    networks: Literal["one", "each"] = "one"
    """``one`` network for all candidates of a trial, each with noise of its own; or one network for ``each``."""
    channels: int = Field(default=32, ge=1)
    offset: Literal["learned", "half", "mean"] = "learned"
    """What stands for the mean of the training set: an image to be found, 0.5 everywhere, or that of the data named."""


class AsymmetryConfig(Section):
    """Against candidates that collapse to the average of their orbit; all off unless set."""

    unfold: bool = False
    """Attack the network inside the average: each element of an orbit becomes a candidate of its own, and gradient
    descent no longer preserves a symmetry. For networks averaged over a group."""
    weight: float = Field(default=0.0, ge=0)
    """Of a prior that repels candidates from what the group leaves fixed."""
    share: float = Field(default=0.3, gt=0, le=1)
    """The prior acts on candidates with a smaller share of their squared length outside of what the group fixes."""
    init: float = Field(default=1.0, ge=0)
    """Factor on the asymmetric part of the initial candidates."""
