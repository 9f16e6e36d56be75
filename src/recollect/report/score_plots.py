"""Charts of scores: against the network's outputs, of training against held-out samples, and at every threshold."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from recollect.report.charts import SCORE_NAMES
from recollect.report.matches import Matches, Sample, lifted
from recollect.report.plots import Axis, Mark, Plot, Readings, across, dots, line, steps, upright, x_axis, y_axis
from recollect.report.roc import Roc

_GROUPS = ((False, "dots grey", "not recovered"), (None, "dots ink", "not judged"), (True, "dots accent", "recovered"))
_RATES = (0.0, 0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0)


def scatter_plot(matches: Matches, score: str) -> Plot:
    """A score of every training sample against the network's output or margin; readings are best first."""
    samples = [matches.samples[place] for place in matches.best_first()]
    outputs = [math.nan if sample.output is None else sample.output for sample in samples]
    scores = [sample.score(score) for sample in samples]
    threshold = _threshold(matches) if score == matches.score else []
    x, y = x_axis(outputs), y_axis([*lifted(scores), *threshold])
    left, top = [x.at(value) for value in outputs], [y.at(max(value, y.low)) for value in scores]
    meaning = "margin: output of its class less the largest other" if matches.of_margins else "network's output"
    return Plot(
        name=f"scatter-{score}",
        alt=f"{SCORE_NAMES[score]} of {len(samples)} training samples against the {meaning}",
        x_label=meaning,
        y_label=SCORE_NAMES[score],
        x=x,
        y=y,
        marks=(*_threshold_mark(across, y, threshold), *_dots(samples, left, top)),
        readings=Readings(left, top, near="point"),
    )


def histogram_plot(matches: Matches) -> Plot:
    """How training samples score, against held-out samples that the network never saw."""
    name = SCORE_NAMES[matches.score]
    training = [sample.score(matches.score) for sample in matches.samples]
    held_out = matches.null.get(matches.score, [])
    return shares_plot("histogram", name, ("training", training), ("held out", held_out), _threshold(matches))


def shares_plot(
    name: str,
    score: str,
    outlined: tuple[str, Sequence[float]],
    filled: tuple[str, Sequence[float]],
    threshold: Sequence[float] = (),
) -> Plot:
    """Two histograms of one score, each of shares of its own samples: one as an outline over the other."""
    names, values = (outlined[0], filled[0]), [_finite(outlined[1]), _finite(filled[1])]
    drawn = lifted([*values[0], *values[1]])
    values = [drawn[: len(values[0])], drawn[len(values[0]) :]]
    edges = np.histogram_bin_edges([*values[0], *values[1]] or [0.0, 1.0], bins=30).tolist()
    shares = [(np.histogram(part, edges)[0] / max(1, len(part))).tolist() for part in values]
    x, y = x_axis([*edges, *threshold]), y_axis([0.0, *shares[0], *shares[1]])
    y = Axis(0.0, y.high, y.start, y.end)
    outlines = [steps([x.at(edge) for edge in edges], [y.at(part) for part in share], y.start) for share in shares]
    marks = [
        Mark(look, outlines[place], f"{names[place]} ({len(values[place])})")
        for place, look in ((1, "area grey"), (0, "outline accent"))
        if values[place]
    ]
    bins = list(zip(edges[:-1], edges[1:], *shares, strict=True))
    rows = [[f"{low:.3f} to {high:.3f}", f"{first:.1%}", f"{second:.1%}"] for low, high, first, second in bins]
    texts = [f"{score} {span}: {names[0]} {first}, {names[1]} {second}" for span, first, second in rows]
    middles, tops = [x.at((low + high) / 2) for low, high, _, _ in bins], [y.at(max(pair)) for _, _, *pair in bins]
    return Plot(
        name=name,
        alt=f"Histogram of {score}: {names[0]} against {names[1]}",
        x_label=score,
        y_label="share of samples",
        x=x,
        y=y,
        marks=(*marks, *_threshold_mark(upright, x, threshold)),
        readings=Readings(middles, tops, texts),
        headings=(score, *names),
        rows=rows,
    )


def roc_plot(roc: Roc) -> Plot:
    """Training samples that pass against held-out ones that pass."""
    x, y = x_axis([0.0, 1.0]), y_axis([0.0, 1.0])
    left, top = [x.at(value) for value in roc.false_positive], [y.at(value) for value in roc.true_positive]
    span = "" if roc.auc_interval is None else f" ({roc.auc_interval[0]:.3f} to {roc.auc_interval[1]:.3f})"
    pairs = zip(roc.false_positive, roc.true_positive, strict=True)
    return Plot(
        name="roc",
        alt=f"ROC curve of training against held-out samples, area {roc.auc:.3f}",
        x_label="held-out samples that pass",
        y_label="training samples that pass",
        x=x,
        y=y,
        marks=(
            Mark("line dashed", line([x.at(0), x.at(1)], [y.at(0), y.at(1)]), "chance"),
            Mark("line accent thick", line(left, top), f"area under the curve {roc.auc:.3f}{span}"),
        ),
        readings=Readings(
            left,
            top,
            [f"{true:.1%} of training samples pass where {false:.1%} of held-out ones do" for false, true in pairs],
        ),
        headings=("held-out samples that pass, at most", "training samples that pass"),
        rows=[[f"{rate:.1%}", f"{roc.true_at(rate):.1%}"] for rate in _RATES],
    )


def _dots(samples: Sequence[Sample], left: Sequence[float], top: Sequence[float]) -> list[Mark]:
    marks = []
    for recovered, look, words in _GROUPS:
        chosen = [row for row, sample in enumerate(samples) if sample.recovered is recovered]
        if chosen:
            marks.append(Mark(look, dots([left[row] for row in chosen], [top[row] for row in chosen]), words))
    return marks


def _threshold(matches: Matches) -> list[float]:
    return [] if matches.threshold is None else [matches.threshold]


def _threshold_mark(draw: Callable[[float], str], axis: Axis, threshold: Sequence[float]) -> list[Mark]:
    return [Mark("line dashed", draw(axis.at(value)), f"threshold {value:.3f}") for value in threshold]


def _finite(values: Sequence[float]) -> list[float]:
    return [value for value in values if math.isfinite(value)]
