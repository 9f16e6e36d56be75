"""Charts of a sweep: settings beside each other, each setting against the score, and the score against the truth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from recollect.report.plots import Axis, Mark, Plot, Readings, dots, line, short, x_axis, y_axis
from recollect.report.sweep_trials import Outcome, SweptTrial, SweptTrials

LOGARITHMIC = ("lr_x", "lr_duals", "init_scale")
LABELS = {
    "lr_x": "rate of candidates",
    "lr_duals": "rate of multipliers",
    "init_scale": "initial scale",
    "dual_min": "smallest multiplier",
    "smoothing": "sharpness of ReLU",
}
_LOOKS: tuple[tuple[Outcome, str, str], ...] = (
    ("pruned", "grey", "pruned, when it stopped"),
    ("complete", "accent", "complete"),
)
_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 940, 310, 76, 12, 270
_LINES = 400


@dataclass(frozen=True)
class Scale:
    """An upright axis of parallel coordinates: where it stands, its name, and its round values."""

    x: float
    name: str
    ticks: list[tuple[float, str]]


@dataclass(frozen=True)
class Parallel:
    """Parallel coordinates (Inselberg 1985): a line for each trial across its settings, to its score."""

    scales: list[Scale]
    marks: tuple[Mark, ...]
    left_out: int
    width: int = _WIDTH
    height: int = _HEIGHT
    top: int = _TOP
    bottom: int = _BOTTOM


def parallel_plot(swept: SweptTrials) -> Parallel:
    """The best tenth of the trials that came to their end stands out; of very many trials the best are drawn."""
    complete = sorted((trial for trial in swept.of("complete")), key=lambda trial: trial.score)
    pruned = sorted((trial for trial in swept.of("pruned")), key=lambda trial: trial.score)
    shown, best = [*complete, *pruned][:_LINES], max(1, len(complete) // 10)
    names = [*swept.names, "score"]
    axes = [_upright([_value(trial, name) for trial in shown], name) for name in names]
    places = [_LEFT + step * (_WIDTH - 2 * _LEFT) / max(1, len(names) - 1) for step in range(len(names))]

    def drawn(trials: Sequence[SweptTrial]) -> str:
        heights = ([axis.at(_value(trial, name)) for axis, name in zip(axes, names, strict=True)] for trial in trials)
        return "".join(line(places, own) for own in heights)

    groups = (
        ("grey faint", "pruned", [trial for trial in pruned if trial in shown]),
        ("colour0 faint", "complete", complete[best:_LINES]),
        ("colour1 thick", "best by score" if best == 1 else f"best {best} by score", complete[:best]),
    )
    marks = tuple(Mark(look, drawn(own), words) for look, words, own in groups if own)
    scales = [Scale(x, _label(name), axis.ticks()) for x, name, axis in zip(places, names, axes, strict=True)]
    return Parallel(scales, marks, len(complete) + len(pruned) - len(shown))


def slice_plots(swept: SweptTrials) -> list[Plot]:
    """The score against each setting that was varied."""
    return [_slice(swept, name) for name in swept.names]


def truth_plot(swept: SweptTrials) -> Plot:
    """What trials recovered against the score that knew nothing of it."""
    trials = swept.matched()
    scores, found = [trial.score for trial in trials], [float(trial.found or 0) for trial in trials]
    x, y = x_axis(scores), y_axis([0.0, *found])
    left, top = [x.at(value) for value in scores], [y.at(value) for value in found]
    texts = [f"{_named(trial)}, {trial.found} {swept.figure}" for trial in trials]
    return Plot(
        name="sweep-truth",
        alt=f"{swept.figure} of {len(trials)} trials against their scores",
        x_label="score without training data (smaller is better)",
        y_label=swept.figure,
        x=x,
        y=y,
        marks=(Mark("dots accent", dots(left, top), "trials that came to their end"),),
        readings=Readings(left, top, texts, near="point"),
    )


def _slice(swept: SweptTrials, name: str) -> Plot:
    shown = [trial for trial in swept.trials if math.isfinite(trial.score)]
    values, scores = [trial.settings.get(name, math.nan) for trial in shown], [trial.score for trial in shown]
    x, y = x_axis(values, name in LOGARITHMIC), y_axis(scores)
    left, top = [x.at(value) for value in values], [y.at(value) for value in scores]
    marks = []
    for outcome, look, words in _LOOKS:
        own = [place for place, trial in enumerate(shown) if trial.outcome == outcome]
        if own:
            path = dots([left[place] for place in own], [top[place] for place in own])
            marks.append(Mark(f"dots {look}", path, words))
    texts = [f"{_named(trial)}, {name} {short(trial.settings.get(name, math.nan))}" for trial in shown]
    return Plot(
        name=f"sweep-{name}",
        alt=f"Score of {len(shown)} trials against {_label(name)}",
        x_label=_label(name),
        y_label="score",
        x=x,
        y=y,
        marks=tuple(marks),
        readings=Readings(left, top, texts, near="point"),
    )


def _upright(values: Sequence[float], name: str) -> Axis:
    axis = y_axis(values, name in LOGARITHMIC)
    return Axis(axis.low, axis.high, _BOTTOM, _TOP, axis.logarithmic)


def _value(trial: SweptTrial, name: str) -> float:
    return trial.score if name == "score" else trial.settings.get(name, math.nan)


def _label(name: str) -> str:
    return LABELS.get(name, name)


def _named(trial: SweptTrial) -> str:
    return f"trial {trial.number}: score {trial.score:.4g}"
