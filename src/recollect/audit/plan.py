"""What an audit runs: which attacks fit the network, with which settings, for which share of the time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

from torch import nn

from recollect.build import why_no_rows
from recollect.check.findings import Findings
from recollect.config import AttackConfig

_JUDGING_SHARE, _JUDGING_SECONDS, _JUDGING_MOST = 0.1, 6.0, 0.25
WANTED_BATCHES, MOST_STEPS, LEAST_STEPS = 4, 20_000, 200
"""A search is as long as the budget allows with so many batches of trials, between these bounds."""


@dataclass(frozen=True)
class Traits:
    """What decides whether an attack fits."""

    sample_shape: tuple[int, ...]
    outputs: int
    convolutional: bool
    regularised: bool
    """By batch norm or dropout: then the KKT conditions of plain training hold badly."""
    unit_range: bool
    """Whether inputs are images of [0, 1]."""
    no_rows: str | None
    """Why first-layer weights cannot be looked at as samples."""

    @classmethod
    def of(cls, net: nn.Module, findings: Findings, box: tuple[float, float] | None) -> Traits:
        kinds = nn.Conv1d | nn.Conv2d | nn.Conv3d
        made_of = findings.structure
        return cls(
            sample_shape=findings.sample_shape,
            outputs=findings.task.outputs,
            convolutional=any(isinstance(part, kinds) for part in net.modules()),
            regularised=bool(made_of.normalisation or made_of.dropout),
            unit_range=box == (0.0, 1.0) and len(findings.sample_shape) == 3,
            no_rows=why_no_rows(net, findings.sample_shape),
        )


@dataclass(frozen=True)
class Method:
    """An attack that an audit knows; ``unfit`` says why it does not suit a network, or None."""

    name: str
    share: float
    """Of the time for searching; what is left over goes to the first."""
    words: str
    unfit: Callable[[Traits], str | None]


def _always(traits: Traits) -> str | None:
    del traits
    return None


def _generator_unfit(traits: Traits) -> str | None:
    if "generator" not in get_args(AttackConfig.model_fields["method"].annotation):
        return "this version has no generator attack."
    if not (traits.convolutional and traits.regularised and traits.outputs > 1):
        return "it is for convolutional classifiers with batch norm or dropout."
    if len(traits.sample_shape) != 3 or min(traits.sample_shape[1:]) < 4:
        return "it makes images of at least 4 x 4 pixels, which this network does not take."
    if not traits.unit_range:
        return "it makes images of [0, 1], which this network does not take."
    return None


METHODS = (
    Method("kkt", 0.0, "reconstruction from the KKT conditions of training", _always),
    Method("activation", 0.1, "activation maximisation, a baseline", _always),
    Method("weights", 0.0, "first-layer weights looked at as samples, a baseline", lambda traits: traits.no_rows),
    Method("generator", 0.4, "training-like images by a conditioned generator", _generator_unfit),
)
"""The first is the main attack; the others are run before it, each for its share, and it takes what is left."""


def chosen(traits: Traits) -> tuple[list[Method], dict[str, str]]:
    """Methods that fit, and why the others do not."""
    reasons = {method.name: method.unfit(traits) for method in METHODS}
    fitting = [method for method in METHODS if reasons[method.name] is None]
    return fitting, {name: reason for name, reason in reasons.items() if reason is not None}


def kept_free(budget: float) -> float:
    """Seconds for matching, the verdict and the report; a quarter of a short budget.

    >>> kept_free(8.0), kept_free(30.0), kept_free(600.0)
    (2.0, 6.0, 60.0)
    """
    return min(_JUDGING_MOST * budget, max(_JUDGING_SECONDS, _JUDGING_SHARE * budget))


def candidates_for(samples: int | None) -> int:
    """Twice the training samples, as published; an attacker who does not know their number tries some."""
    return 200 if samples is None else min(1000, max(20, 2 * samples))


def kkt_settings(findings: Findings, layers: int, plain: bool, box: tuple[float, float] | None) -> dict[str, Any]:
    """The attack section but for its size: the first layer alone for a plain MLP, which explains most of it.

    Adam that remembers squared gradients of the last ten steps alone finds about twice as much as momentum does, in as
    many steps (``python -m benchmarks.optimisers``), and needs no rates that suit the size of the network's weights.
    Multipliers have either sign where outputs lie so close to the labels that the network was fitted to them.
    """
    search = {
        "trials": 1,
        "lr_x": (5e-3, 3e-2),
        "lr_duals": (5e-3, 3e-2),
        "init_scale": (1e-3, 0.1),
        "dual_min": (0.05, 0.3),
        "smoothing": (20.0, 200.0) if findings.task.outputs > 1 else (60.0, 200.0),
    }
    weights = (1.0, *(0.0,) * (layers - 1)) if plain else None
    task = "regression" if findings.task.loss == "a regression loss" else "auto"
    common = {"method": "kkt", "task": task, "schedule": "cosine", "optimiser": "adam"}
    return common | {"layer_weights": weights, "search": search, **_boxed(box)}


def activation_settings(box: tuple[float, float] | None) -> dict[str, Any]:
    search = {"trials": 2, "lr_x": (1e-3, 0.1), "init_scale": (1e-4, 0.1)}
    return {"method": "activation", "search": search, **_boxed(box)}


def generator_settings(sample_shape: tuple[int, ...], classes: int) -> dict[str, Any]:
    """A conditioning matrix has a row and a column for each class, and must not be larger than the image."""
    common = {"method": "generator", "optimiser": "adam", "schedule": "cosine", "trials": [{"lr_x": 5e-3}]}
    small = classes > min(sample_shape[1:], default=0)
    return common | ({"generator": {"conditioning": "vector"}} if small else {})


def _boxed(box: tuple[float, float] | None) -> dict[str, Any]:
    return {"box_weight": 0.0} if box is None else {"box": box}


@dataclass(frozen=True)
class Size:
    """How large a search is: trials in a batch, steps of each, and batches that are expected to fit."""

    batch: int
    steps: int
    batches: int


def size_for(seconds: float, batch: int, seconds_per_step: float) -> Size | None:
    """The longest search of several batches within so many seconds; None where not even a short one fits.

    >>> size_for(80.0, batch=4, seconds_per_step=0.004)
    Size(batch=4, steps=5000, batches=4)
    >>> size_for(1.0, batch=4, seconds_per_step=0.04) is None
    True
    """
    affordable = seconds / seconds_per_step
    # A batch that has begun is finished, so it should not need all of the time: machines slow down.
    while batch > 1 and affordable < 2 * LEAST_STEPS:
        batch, affordable = batch // 2, affordable * 2
    if affordable < LEAST_STEPS:
        return None
    steps = int(min(MOST_STEPS, max(LEAST_STEPS, affordable / WANTED_BATCHES)))
    steps = max(LEAST_STEPS, steps - steps % 100)
    return Size(batch, steps, max(1, int(affordable / steps)))
