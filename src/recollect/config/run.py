"""The whole of a run in one typed object."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from recollect.config.attack import AttackConfig
from recollect.config.section import Section
from recollect.config.sections import DataConfig, MatchConfig, SourceConfig
from recollect.series.axes import SeriesAxis
from recollect.sweep.settings import SweepConfig
from recollect.zoo.architectures import Architecture, MLPArchitecture
from recollect.zoo.kinds_of_training import Training
from recollect.zoo.training import TrainingConfig


def _names_of_folders(baselines: dict[str, AttackConfig]) -> dict[str, AttackConfig]:
    for name in baselines:
        if not name or name.startswith(".") or "/" in name or "\\" in name:
            raise ValueError(f"the name '{name}' is that of a folder as well; leave out slashes and a dot in front")
    return baselines


class Config(Section):
    """A run: data, network, training, attack, baselines on the same network, judgement."""

    name: str = Field(default="run", min_length=1)
    title: str = ""
    paper: str = ""
    seed: int = Field(default=0, ge=0, lt=2**32)
    device: str = "auto"
    checkpoint_seconds: float = Field(default=20.0, ge=0)
    """Unfinished work is saved at most this often; a killed run loses no more than that."""
    data: DataConfig | None = None
    source: SourceConfig | None = None
    model: Architecture = MLPArchitecture()
    training: Training = TrainingConfig()
    attack: AttackConfig = AttackConfig()
    sweep: SweepConfig | None = None
    """Makes the attack a sweep over the ranges of ``attack.search``, in batches that are saved each."""
    baselines: Annotated[dict[str, AttackConfig], AfterValidator(_names_of_folders)] = Field(default_factory=dict)
    match: MatchConfig = MatchConfig()
    series: tuple[SeriesAxis, ...] = ()
    """What several runs vary; one axis or a grid. Everything else is the same for all of them."""

    @property
    def centred(self) -> bool:
        """Whether the network sees samples less the mean of its training set."""
        if self.data is not None and self.data.centred is not None:
            return self.data.centred
        own = self.source is None and self.training.kind == "ordinary"
        return not own and self.attack.method != "generator"

    @model_validator(mode="after")
    def _batch_norm_is_trained_ordinarily(self) -> Config:
        if self.source is None and self.model.kind == "classifier" and self.training.kind == "memorise":
            raise ValueError(
                "model.kind = 'classifier' has batch norm, whose running statistics only training.kind = 'ordinary' "
                "keeps"
            )
        return self

    @model_validator(mode="after")
    def _sweeps_have_ranges_and_a_score(self) -> Config:
        if self.sweep is not None and self.attack.search is None:
            raise ValueError("a sweep needs ranges; set attack.search.trials, and attack.search.lr_x, ... for others")
        if self.sweep is not None and self.attack.method != "kkt":
            raise ValueError(f"a sweep ranks trials by KKT residuals, attack.method = '{self.attack.method}' has none")
        return self
