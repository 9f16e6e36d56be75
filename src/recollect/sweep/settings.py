"""``[sweep]`` in a configuration: how settings are proposed and run. The ranges are those of ``attack.search``."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Pruning = Literal["none", "halving"]


class SweepConfig(BaseModel):
    """With this section the attack is a sweep: ``attack.search.trials`` trials, in batches that are saved each."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sampler: Literal["random", "tpe", "qmc"] = "random"
    """``random`` needs nothing; ``tpe`` learns from finished trials and ``qmc`` fills the ranges evenly, by Optuna."""
    batch: int = Field(default=16, ge=1)
    """Trials that run together; a kill loses at most these."""
    pruning: Pruning = "none"
    """``halving``: trials whose score is in the worse half after an eighth, a quarter or half of all steps stop, and
    others begin in their place."""
    storage: str | None = Field(default=None, min_length=1)
    """Where Optuna keeps the study: a URL such as sqlite:///study.db; by default a journal in the run folder."""
    score: Literal["first_layer"] = "first_layer"
    """By which trials are ranked, without training data."""
    keep: int | None = Field(default=None, ge=1)
    """Candidates of so many trials, those with the best scores, are pooled; of all that came to their end otherwise."""
    executor: Literal["local", "ray"] = "local"
    """``ray``: batches run as tasks of a Ray cluster, on whatever GPU or CPU they get."""
    address: str | None = Field(default=None, min_length=1)
    """Of the Ray cluster, such as auto or ray://host:10001; left out, Ray starts on this machine."""
    tracker: Literal["none", "tensorboard", "wandb", "mlflow"] = "none"
    """Who is told of every trial that ended; needs the package of that name."""

    @model_validator(mode="after")
    def _addresses_are_those_of_clusters(self) -> SweepConfig:
        if self.address is not None and self.executor != "ray":
            raise ValueError(
                f"address = '{self.address}' is that of a Ray cluster; set executor = 'ray' or leave it out"
            )
        return self

    @property
    def by_optuna(self) -> bool:
        return self.sampler != "random" or self.storage is not None
