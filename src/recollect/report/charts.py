"""Charts of a run as matplotlib figures, made without pyplot: no global state, no display."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from io import BytesIO

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recollect.report.curves import Curve, Trace
from recollect.report.matches import Matches, lifted

ACCENT, GREY, INK = "#0b7285", "#a3a9b1", "#2b2f36"
COLOURS = (ACCENT, "#c2571a", "#6b4fa0", "#7a7a2e", INK, GREY)
_SIZE = (5.0, 3.3)  # inches; small on purpose, so that text stays readable when a phone shrinks the picture
SCORE_NAMES = {"ncc": "NCC", "ssim": "SSIM", "distance": "distance"}


def png(figure: Figure, dpi: int = 200) -> bytes:
    """A figure as PNG."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi, facecolor="white")
    return buffer.getvalue()


def score_scatter(matches: Matches) -> Figure:
    """Score of every training sample against the network's output for it (Haim et al. 2022, Fig. 4).

    For several classes against its margin, the output of its class less the largest other (Buzaglo et al. 2023,
    Fig. 2). Samples with small outputs or margins are the ones the attack can see.
    """
    output = "network's output for the training sample"
    margin = "margin: output of the sample's class less the largest other"
    figure, axes = new_figure(margin if matches.of_margins else output, SCORE_NAMES[matches.score])
    groups = ((True, ACCENT, "recovered"), (False, GREY, "not recovered"), (None, INK, "not judged"))
    drawn = lifted([sample.score(matches.score) for sample in matches.samples])
    for recovered, colour, label in groups:
        chosen = [sample for sample in matches.samples if sample.recovered is recovered]
        outputs = [math.nan if sample.output is None else sample.output for sample in chosen]
        if chosen:
            scores = [drawn[place] for place, sample in enumerate(matches.samples) if sample.recovered is recovered]
            axes.scatter(outputs, scores, s=14, color=colour, alpha=0.8, linewidths=0, label=label)
    _threshold_line(axes.axhline, matches.threshold)
    legend(figure, axes)
    return figure


def score_histogram(matches: Matches) -> Figure:
    """How training samples score, against held-out samples that the network never saw."""
    figure, axes = new_figure(SCORE_NAMES[matches.score], "share of samples")
    training = _finite([sample.score(matches.score) for sample in matches.samples])
    held_out = _finite(matches.null.get(matches.score, []))
    together = lifted([*training, *held_out])
    training, held_out = together[: len(training)], together[len(training) :]
    edges = np.histogram_bin_edges(together or [0, 1], bins=30).tolist()
    if held_out:
        share = [1 / len(held_out)] * len(held_out)
        axes.hist(held_out, edges, weights=share, color=GREY, alpha=0.7, label=f"held out ({len(held_out)})")
    if training:
        share = [1 / len(training)] * len(training)
        label = f"training ({len(training)})"
        axes.hist(training, edges, weights=share, color=ACCENT, histtype="step", linewidth=1.6, label=label)
    _threshold_line(axes.axvline, matches.threshold)
    legend(figure, axes)
    return figure


def attack_curves(trace: Trace) -> Figure:
    """Every term of the loss in every trial during the attack; zero cannot be drawn on a log axis."""
    figure, axes = new_figure("step", "loss")
    trace = trace.drawn()
    for place, (name, values) in enumerate(trace.terms.items()):
        drawn = values.masked_fill(~(values > 0), math.nan).numpy()
        colour = COLOURS[place % len(COLOURS)]
        strength = max(0.25, 1 - 0.05 * drawn.shape[1])
        for trial in range(drawn.shape[1]):
            label = plain(name) if trial == 0 else None
            axes.plot(trace.steps, drawn[:, trial], color=colour, linewidth=1, alpha=strength, label=label)
    _log_scale(axes, [value for values in trace.terms.values() for value in values.flatten().tolist()])
    legend(figure, axes)
    return figure


def training_curve(curve: Curve) -> Figure:
    """Loss and share of wrong labels while the target was trained; zero cannot be drawn on a log axis."""
    figure, axes = new_figure("epoch", "")
    series = ((curve.loss, ACCENT, "loss"), (curve.error, GREY, "share of wrong labels"))
    for values, colour, label in series:
        drawn = [value if value > 0 else math.nan for value in values]
        axes.plot(curve.epochs, drawn, color=colour, linewidth=1.4, label=label)
    _log_scale(axes, [*curve.loss, *curve.error])
    legend(figure, axes)
    return figure


def new_figure(x_label: str, y_label: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=_SIZE, layout="constrained")
    axes = figure.add_subplot()
    axes.set_xlabel(x_label, color=INK)
    axes.set_ylabel(y_label, color=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GREY)
    axes.tick_params(colors=INK, color=GREY)
    return figure, axes


def _log_scale(axes: Axes, values: Sequence[float]) -> None:
    # A log axis without a positive value has no limits and would warn.
    if any(value > 0 for value in values):
        axes.set_yscale("log")


def _threshold_line(draw: Callable[..., object], threshold: float | None) -> None:
    if threshold is not None:
        draw(threshold, color=INK, linewidth=1, linestyle=(0, (4, 3)), label=f"threshold {threshold:.3f}")


def legend(figure: Figure, axes: Axes) -> None:
    # Above the axes, where it hides no sample.
    labels = axes.get_legend_handles_labels()[1]
    columns = 3 if max((len(label) for label in labels), default=0) < 20 else 1
    if labels:
        figure.legend(
            loc="outside upper left", ncols=columns, frameon=False, fontsize=9, labelcolor=INK, columnspacing=1.2
        )


def _finite(values: Sequence[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]


def plain(name: str) -> str:
    """A name from a file as a label: no mathematics between dollars, no signs the font lacks, not hidden."""
    safe = name.encode("ascii", "backslashreplace").decode().replace("$", r"\$").replace("\n", " ")
    return f" {safe[:40]}" if safe.startswith("_") else safe[:40]
