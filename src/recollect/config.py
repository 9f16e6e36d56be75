"""The whole of a run in one typed object, read from TOML. An unknown key is an error, never ignored."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import tomli_w
import torch
from pydantic import BaseModel, ByteSize, ConfigDict, Field, ValidationError, model_validator

from recollect.config_errors import explain
from recollect.config_generator import GeneratorConfig, IndependentConfig
from recollect.config_methods import AsymmetryConfig, DeepPriorConfig, GroupChoice, SameGDConfig
from recollect.core import RecollectError
from recollect.overrides import apply_override, kinds_first, put
from recollect.problem import Precision
from recollect.series.axes import SeriesAxis, require_free
from recollect.sweep.settings import SweepConfig
from recollect.zoo.architectures import Architecture, MLPArchitecture
from recollect.zoo.kinds_of_training import Training
from recollect.zoo.training import TrainingConfig


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DataConfig(_Section):
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


class SourceConfig(_Section):
    """A network that exists already: a folder written by ``recollect train``, or Python code and weights."""

    folder: str | None = None
    module: str | None = None
    weights: str | None = None
    sample_shape: tuple[int, ...] | None = None


class TrialSettings(_Section):
    """What may differ between trials. Symbols of Haim 2022 in brackets."""

    lr_x: float = Field(default=0.3, gt=0, allow_inf_nan=False)
    lr_duals: float = Field(default=1e-3, gt=0, allow_inf_nan=False)
    init_scale: float = Field(default=0.01, gt=0, allow_inf_nan=False)
    """[sigma_x] standard deviation of the initial candidates."""
    dual_min: float = Field(default=0.3, ge=0, allow_inf_nan=False)
    """[lambda_min] multipliers below this are pushed up."""
    smoothing: float = Field(default=100.0, gt=0, allow_inf_nan=False)
    """[alpha] sharpness of ReLU's derivative, sigmoid(alpha z)."""


UNIFORM = ("dual_min", "smoothing")
"""Settings that are drawn uniformly; the others on a logarithmic scale."""


class SearchConfig(_Section):
    """Random settings, drawn anew for each trial: log-uniform, except the last two, which are uniform."""

    trials: int = Field(ge=1)
    lr_x: tuple[float, float] = (0.1, 1.0)
    lr_duals: tuple[float, float] = (1e-3, 1.0)
    init_scale: tuple[float, float] = (3e-4, 2e-2)
    dual_min: tuple[float, float] = (0.2, 0.8)
    smoothing: tuple[float, float] = (60.0, 200.0)

    @model_validator(mode="after")
    def _ranges_are_ranges(self) -> SearchConfig:
        for name in TrialSettings.model_fields:
            low, high = getattr(self, name)
            if not (0 < low <= high < math.inf):
                raise ValueError(f"{name} = [{low}, {high}] is no range; give two positive numbers, smaller first")
        return self

    def draw(self, seed: int) -> tuple[TrialSettings, ...]:
        generator = torch.Generator().manual_seed(seed)
        unit = torch.rand(self.trials, len(TrialSettings.model_fields), generator=generator, dtype=torch.float64)
        return tuple(
            TrialSettings(
                **{name: self._place(name, share) for name, share in zip(TrialSettings.model_fields, row, strict=True)}
            )
            for row in unit.tolist()
        )

    def _place(self, name: str, share: float) -> float:
        low, high = getattr(self, name)
        if name in UNIFORM:
            return low + share * (high - low)
        return math.exp(math.log(low) + share * (math.log(high) - math.log(low)))


class AttackConfig(_Section):
    """One attack: what is minimised, over how many candidates, for how long, with which trials."""

    method: Literal["kkt", "activation", "weights", "generator"] = "kkt"
    target: Literal["auto", "mlp", "module"] = "auto"
    task: Literal["auto", "binary", "multiclass", "regression"] = "auto"
    """What the network was trained for; ``auto``: one output is a binary classifier, several are classes."""
    candidates: int = Field(default=1000, ge=1)
    steps: int = Field(default=50_000, ge=1)
    schedule: Literal["constant", "cosine"] = "constant"
    precision: Precision = "tf32"
    """``fp16``: half-precision operands scaled row by row, as accurate as ``tf32``, on GPUs and for plain MLPs."""
    optimiser: Literal["momentum", "adam", "same_gd"] = "momentum"
    momentum: float = Field(default=0.9, ge=0, lt=1)
    compile: Literal["auto", "on", "off"] = "auto"
    """torch.compile fuses what lies between matrix products; ``auto`` does so where a run is long enough to repay."""
    space: Literal["full", "row", "dip"] = "full"
    """``row``: search the row space of an MLP's first layer, at most ``max_rank`` directions above the noise.
    ``dip``: candidates are what a convolutional network makes of noise, its weights are searched (deep image prior)."""
    max_rank: int = Field(default=512, ge=1)
    exposed_share: float = Field(default=0.125, gt=0, le=1)
    """Share of the candidates, those of largest norm, on which the box prior acts in the row space; 1 is exact."""
    stall: float = Field(default=1e-6, ge=0)
    """Trials that would move by less than this share of their size in a fiftieth of all steps stop; 0: never."""
    recompute: bool = False
    """Gradient checkpointing for networks that are no plain MLP: less memory, more time."""
    trials_at_once: int | None = Field(default=None, ge=1)
    """Trials worked on together within a step; fewer need less memory and hardly more time. All when left out."""
    chunk: int | None = Field(default=None, ge=1)
    """Candidates of a trial worked on at once; fewer need less memory and more time. All when left out."""
    memory_limit: ByteSize | None = None
    """Such as "8GiB": chooses how much an MLP works on at once; other networks do with less when they run out."""
    layer_weights: tuple[float, ...] | None = None
    """Weight of each layer's residual, input side first; all 1 when left out, as published."""
    dual_floor_weight: float = Field(default=5.0, ge=0)
    box_weight: float = Field(default=1.0, ge=0)
    """0 switches the prior off, for data that are not images."""
    box: tuple[float, float] = (-1.0, 1.0)
    """Least and largest value of a pixel: [-1, 1] holds images less their mean, [0, 1] images as they are."""
    group: GroupChoice = "model"
    """The symmetry that ``same_gd`` and ``asymmetry`` work against."""
    same_gd: SameGDConfig = SameGDConfig()
    dip: DeepPriorConfig = DeepPriorConfig()
    asymmetry: AsymmetryConfig = AsymmetryConfig()
    generator: GeneratorConfig = GeneratorConfig()
    trials: tuple[TrialSettings, ...] = Field(default=(TrialSettings(),), min_length=1)
    search: SearchConfig | None = None
    """Random settings instead of ``trials``; in a run folder they have been drawn and stand in ``trials``."""


class MatchConfig(_Section):
    """How candidates are compared with reference data, and what counts as recovered."""

    distance: Literal["ncc", "l2"] = "ncc"
    score: Literal["ncc", "ssim", "distance"] = "ncc"
    quantile: float = Field(default=0.99, gt=0, lt=1)
    vote_ratio: float = Field(default=1.1, ge=1)
    each_candidate_once: bool = True
    ssim_window: int = Field(default=3, ge=1)
    scaling: Literal["stretch", "clamp"] = "stretch"
    radius: float = Field(default=0.05, gt=0)
    group: GroupChoice = "model"
    """Samples that it moves into one another count as one."""
    most: int | None = Field(default=None, ge=2)
    """At most so many training samples are matched one by one, the first of them; all when left out."""
    independent: IndependentConfig = IndependentConfig()
    distil_min_dual: float = Field(default=0.0, ge=0)
    distil_radius: float = Field(default=0.03, ge=0)


class Config(_Section):
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
    baselines: dict[str, AttackConfig] = Field(default_factory=dict)
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
    def _sweeps_have_ranges_and_a_score(self) -> Config:
        if self.sweep is not None and self.attack.search is None:
            raise ValueError("a sweep needs ranges; set attack.search.trials, and attack.search.lr_x, ... for others")
        if self.sweep is not None and self.attack.method != "kkt":
            raise ValueError(f"a sweep ranks trials by KKT residuals, attack.method = '{self.attack.method}' has none")
        return self


def read_config(path: Path, overrides: Sequence[str] = ()) -> Config:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecollectError(f"cannot read the configuration '{path}': {_reason(error)}.") from error
    return parse_config(text, str(path), overrides)


def parse_config(text: str, origin: str, overrides: Sequence[str] = ()) -> Config:
    """A complete configuration from TOML text and ``path.to.key=value`` overrides."""
    try:
        raw = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise RecollectError(f"'{origin}' is not valid TOML: {error}.") from error
    config = _validated(raw, origin)
    if not overrides:
        return config
    # Overrides change the complete configuration, so that they reach defaults too: attack.trials.0.lr_x.
    resolved = config.model_dump(mode="json")
    for override in kinds_first(overrides):
        apply_override(resolved, override)
    changed = _validated(resolved, "--set")
    require_free(changed.series, overrides)
    return changed


def updated(config: Config, sections: Mapping[str, Mapping[str, Any] | None], origin: str) -> Config:
    """The same run with whole sections replaced, checked as if they had stood in the file."""
    return _validated(config.model_dump(mode="json") | dict(sections), origin)


def with_settings(config: Config, settings: Mapping[str, Any], origin: str) -> Config:
    """The same run with other values at ``path.to.key``, checked as if they had stood in the file."""
    resolved = config.model_dump(mode="json")
    for path in kinds_first(settings):
        put(resolved, path, settings[path], origin)
    return _validated(resolved, origin)


def _validated(raw: Mapping[str, Any], origin: str) -> Config:
    try:
        return Config.model_validate(raw)
    except ValidationError as error:
        raise RecollectError(explain(error, Config, origin)) from error


def with_drawn_trials(config: Config) -> Config:
    """The same run with every random setting written out, so that the run folder says what was run.

    A sweep proposes its settings as it goes, and says in ``trials.jsonl`` what was run.
    """

    def drawn(attack: AttackConfig) -> AttackConfig:
        if attack.search is None:
            return attack
        return attack.model_copy(update={"trials": attack.search.draw(config.seed), "search": None})

    baselines = {name: drawn(attack) for name, attack in config.baselines.items()}
    attack = drawn(config.attack) if config.sweep is None else config.attack
    return config.model_copy(update={"attack": attack, "baselines": baselines})


COMPLETE = "# complete: every value of the run is above\n"
"""Last line of a run folder's configuration: a file cut short may still be valid TOML, and mean something else."""


def to_toml(config: Config) -> str:
    unused = None if config.series else {"series"}
    return tomli_w.dumps(config.model_dump(mode="json", exclude_none=True, exclude=unused)) + COMPLETE


def read_run_config(path: Path) -> Config:
    """The configuration that a run folder holds; nothing of it may be missing."""
    config = read_config(path)
    if not path.read_text(encoding="utf-8").endswith(COMPLETE):
        raise RecollectError(f"'{path}' is cut short, its last line is missing; start anew with --overwrite.")
    return config


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else "it is not UTF-8 text"
