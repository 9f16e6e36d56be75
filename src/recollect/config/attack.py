"""``[attack]``: what is minimised, over what, and with which settings."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import torch
from pydantic import AfterValidator, ByteSize, Field, model_validator
from torch import Tensor

from recollect.config.errors import short
from recollect.config.generator import GeneratorConfig
from recollect.config.methods import AsymmetryConfig, DeepPriorConfig, GroupChoice, SameGDConfig
from recollect.config.section import Section
from recollect.problem import Precision

Share = Annotated[float, Field(ge=0, lt=1)]


class TrialSettings(Section):
    """What may differ between trials; by themselves, defaults are for momentum. Symbols of Haim 2022 in brackets."""

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


class SearchConfig(Section):
    """Random settings, drawn anew for each trial: log-uniform, except the last two, which are uniform.

    By themselves, ranges that are left out are those for momentum.
    """

    trials: int = Field(ge=1)
    lr_x: tuple[float, float] = (0.1, 1.0)
    lr_duals: tuple[float, float] = (1e-3, 1.0)
    init_scale: tuple[float, float] = (3e-4, 2e-2)
    dual_min: tuple[float, float] = (0.2, 0.8)
    smoothing: tuple[float, float] = (60.0, 200.0)

    @model_validator(mode="before")
    @classmethod
    def _ranges_are_ranges(cls, given: Any) -> Any:
        """Before anything else looks at them, which would speak of tuples and fields."""
        for name in TrialSettings.model_fields if isinstance(given, dict) else ():
            if name in given and not _is_range(given[name]):
                shown = list(given[name]) if isinstance(given[name], tuple) else given[name]
                raise ValueError(f"{name} = {short(shown)} is no range; give two positive numbers, smaller first")
        return given

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


def _is_range(given: object) -> bool:
    if not isinstance(given, list | tuple) or len(given) != 2:
        return False
    if any(isinstance(bound, bool) or not isinstance(bound, int | float) for bound in given):
        return False
    return 0 < given[0] <= given[1] < math.inf


SUITED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "adam": (
        {"lr_x": 0.01, "lr_duals": 0.01, "init_scale": 0.01, "dual_min": 0.1, "smoothing": 100.0},
        {
            "lr_x": (3e-3, 3e-2),
            "lr_duals": (3e-3, 3e-2),
            "init_scale": (1e-3, 0.1),
            "dual_min": (0.05, 0.5),
            "smoothing": (30.0, 200.0),
        },
    ),
}
"""Settings of a trial, and ranges, for optimisers that those for momentum do not suit: Adam's rates are step sizes."""


def _in_order(bounds: tuple[float, float]) -> tuple[float, float]:
    if not -math.inf < bounds[0] < bounds[1] < math.inf:
        raise ValueError("give two finite numbers, the smaller one first")
    return bounds


class AttackConfig(Section):
    """One attack: what is minimised, over how many candidates, for how long, with which trials."""

    method: Literal["kkt", "activation", "weights", "generator"] = "kkt"
    target: Literal["auto", "mlp", "module"] = "auto"
    task: Literal["auto", "binary", "multiclass", "regression"] = "auto"
    """What the network was trained for; ``auto``: one output is a binary classifier, several are classes."""
    candidates: int = Field(default=1000, ge=1)
    steps: int = Field(default=5000, ge=1)
    schedule: Literal["constant", "cosine"] = "cosine"
    precision: Precision = "tf32"
    """``fp16``: half-precision operands scaled row by row, as accurate as ``tf32``, on GPUs and for plain MLPs."""
    optimiser: Literal["momentum", "adam", "same_gd"] = "adam"
    """``momentum`` is what was published. ``adam`` needs a tenth of its steps, and settings hardly matter to it."""
    momentum: float = Field(default=0.9, ge=0, lt=1)
    adam_betas: tuple[Share, Share] = (0.9, 0.9)
    """How much of the running means of gradient and squared gradient ``adam`` keeps from step to step.

    A long memory of squares, as (0.9, 0.999) has, finds less: what was important early hardly moves any more."""
    compile: Literal["auto", "on", "off"] = "auto"
    """torch.compile fuses what lies between matrix products; ``auto`` does so where a run is long enough to repay."""
    space: Literal["full", "row", "dip", "box"] = "full"
    """``row``: search the row space of the first layer of an MLP, or of an average of one over a group, at most
    ``max_rank`` directions above the noise.
    ``box``: candidates plus the mean of the training set, which must be named, stay within [0, 1], as images do.
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
    layer_weights: tuple[Annotated[float, Field(ge=0, allow_inf_nan=False)], ...] | None = None
    """Weight of each layer's residual, input side first; all 1 when left out, as published."""
    dual_floor_weight: float = Field(default=5.0, ge=0, allow_inf_nan=False)
    box_weight: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    """0 switches the prior off, for data that are not images."""
    variation_weight: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Of a prior on squared differences of neighbouring pixels, for photographs: 1e-7 to 1e-6 makes them smoother."""
    box: Annotated[tuple[float, float], AfterValidator(_in_order)] = (-1.0, 1.0)
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

    @model_validator(mode="before")
    @classmethod
    def _what_is_left_out_suits_the_optimiser(cls, given: Any) -> Any:
        optimiser = given.get("optimiser", cls.model_fields["optimiser"].default) if isinstance(given, dict) else None
        if not isinstance(optimiser, str) or optimiser not in SUITED:
            return given
        trial, ranges = SUITED[optimiser]
        trials, search = given.get("trials", [{}]), given.get("search")
        if isinstance(trials, list | tuple):
            trials = [_filled(own, trial) for own in trials]
        return given | {"trials": trials, "search": None if search is None else _filled(search, ranges)}

    def drawn(self, seed: int) -> AttackConfig:
        """With the trials that ``search`` stands for, if any."""
        if self.search is None:
            return self
        return self.model_copy(update={"trials": self.search.draw(seed), "search": None})

    def sizes(self, duals: Tensor) -> Tensor:
        """What candidates are ranked by: multipliers, or their size where regression gives them either sign."""
        return duals.abs() if self.task == "regression" else duals

    @property
    def needs_mean(self) -> bool:
        """Whether candidates are images, and the mean of the training set what makes inputs of them."""
        return self.space == "box" or (self.space == "dip" and self.dip.offset == "mean")


def _filled(given: Any, suited: dict[str, Any]) -> Any:
    """With what suits in place of what was left out; anything that is no section is left for pydantic to refuse."""
    said = given.model_dump(exclude_unset=True) if isinstance(given, Section) else given
    return suited | said if isinstance(said, dict) else given
