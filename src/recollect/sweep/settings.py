"""``[sweep]`` in a configuration: how settings are proposed and run. The ranges are those of ``attack.search``."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class SweepConfig(BaseModel):
    """With this section the attack is a sweep: ``attack.search.trials`` trials, in batches that are saved each."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sampler: Literal["random", "tpe", "qmc"] = "random"
    """``random`` needs nothing; ``tpe`` learns from finished trials and ``qmc`` fills the ranges evenly, by Optuna."""
    batch: int = Field(default=16, ge=1)
    """Trials that run together; a kill loses at most one batch."""
    storage: str | None = Field(default=None, min_length=1)
    """Where Optuna keeps the study: a URL such as sqlite:///study.db; by default a journal in the run folder."""
    score: Literal["first_layer"] = "first_layer"
    """By which trials are ranked, without training data."""
    keep: int | None = Field(default=None, ge=1)
    """Candidates of so many trials, those with the best scores, are pooled; of all that did not diverge by default."""

    @property
    def by_optuna(self) -> bool:
        return self.sampler != "random" or self.storage is not None
