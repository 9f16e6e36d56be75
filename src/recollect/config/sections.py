"""Sections about data: what a network was trained on, where one comes from, how candidates are judged."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from recollect.config.generator import IndependentConfig
from recollect.config.methods import GroupChoice
from recollect.config.section import Section


class DataConfig(Section):
    """Which samples the network was trained on, and which ones of the same kind it never saw."""

    name: str = "sample"
    """A standard name, one of the toy sets ``circle`` and ``clouds``, or a path to the user's own data."""
    task: str = "odd_even"
    classes: int | None = Field(default=None, ge=2)
    """For the task ``classes``: keep the samples of the first so many labels; all labels when left out."""
    n: int | None = Field(default=None, ge=2)
    """Training samples, equally many from each class, in file order; all of them when left out."""
    balanced: bool = True
    """Whether the ``n`` samples are equal shares of the classes; otherwise they are the first in the file."""
    centred: bool | None = None
    """Whether the network sees samples less the mean of its training set. When left out: yes, as published, unless it
    was trained ordinarily or is attacked by a generator, which makes images of [0, 1]."""
    mean_group: GroupChoice = "trivial"
    """The mean is averaged over this group: a network that is invariant to it is then so to images, and not only to
    what is left of them. ``model``: that of ``model.group``."""
    holdout: str | None = None
    """Where held-out samples come from: a path, or by default the test split of a standard name."""
    holdout_count: int | None = Field(default=None, ge=2)

    @model_validator(mode="after")
    def _classes_belong_to_their_task(self) -> DataConfig:
        if self.classes is not None and self.task != "classes":
            raise ValueError(f"classes = {self.classes} needs task = 'classes'; set it, or leave classes out")
        if self.name in ("circle", "clouds") and self.task == "classes":
            raise ValueError(f"the {self.name} has labels of +-1, not classes; leave out task = 'classes'")
        return self


class SourceConfig(Section):
    """A network that exists already: a folder written by ``recollect train``, or Python code and weights."""

    folder: str | None = None
    module: str | None = None
    weights: str | None = None
    sample_shape: tuple[int, ...] | None = None


def _odd(window: int) -> int:
    if window % 2 == 0:
        raise ValueError("a window has a middle; choose an odd number such as 3")
    return window


class MatchConfig(Section):
    """How candidates are compared with reference data, and what counts as recovered."""

    distance: Literal["ncc", "l2"] = "ncc"
    score: Literal["ncc", "ssim", "distance"] = "ncc"
    quantile: float = Field(default=0.99, gt=0, lt=1)
    vote_ratio: float = Field(default=1.1, ge=1, allow_inf_nan=False)
    each_candidate_once: bool = True
    ssim_window: Annotated[int, AfterValidator(_odd)] = Field(default=3, ge=1)
    scaling: Literal["stretch", "clamp"] = "stretch"
    radius: float = Field(default=0.05, gt=0, allow_inf_nan=False)
    group: GroupChoice = "model"
    """Samples that it moves into one another count as one."""
    most: int | None = Field(default=None, ge=2)
    """At most so many training samples are matched one by one, the first of them; all when left out."""
    each_trial: bool = False
    """Judge every trial by itself too, with mean and deviation over trials: how much depends on the start."""
    independent: IndependentConfig = IndependentConfig()
    distil_min_dual: float = Field(default=0.0, ge=0)
    distil_radius: float = Field(default=0.03, ge=0)
