"""Charts of two diaries: the loss during the search, and while the attacked network was trained."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from recollect.report.curves import WILD, Curve, Trace
from recollect.report.plots import Axis, Mark, Plot, Readings, line, short, thinned, x_axis, y_axis
from recollect.report.words import NOTHING

_POINTS_OF_ALL_LINES = 30_000
_LONGEST_LINE = 400
_ROWS = 24
_COLOURS = 6
_TOGETHER = 4
"""With more trials every term has a chart of its own, and lines are faint; very many are hairlines."""
_VERY_MANY = 40
_DECADES = 20
"""Largest over smallest value from which an axis is logarithmic."""


def attack_plots(trace: Trace) -> tuple[Plot, ...]:
    """Every term of the loss in every trial; a chart for each term where one could not hold so many lines."""
    drawn = trace.drawn()
    groups = [(name,) for name in drawn.terms] if drawn.trials > _TOGETHER else [tuple(drawn.terms)]
    colours = {name: f"colour{place % _COLOURS}" for place, name in enumerate(drawn.terms)}
    called = ["search", *(f"search-{place}" for place in range(2, len(groups) + 1))]
    *first, last = [_attack_plot(own, trace, drawn, names, colours) for own, names in zip(called, groups, strict=True)]
    return (*first, replace(last, caption=attack_caption(trace)))


def attack_caption(trace: Trace) -> str:
    """What the lines are, and what is not drawn."""
    words = ["Terms of the loss, one line for each trial, as far as it came. A term that is zero is not drawn."]
    drawn, wild = trace.drawn().trials, int(trace.wild().sum())
    if drawn < trace.trials:
        words.append(f"{drawn} of {trace.trials:,} trials are drawn, evenly chosen.")
    if wild:
        words.append(
            f"Trials that come to {WILD} times the loss at the start are cut off at the upper edge ({wild:,})."
        )
    return " ".join(words)


def _attack_plot(called: str, trace: Trace, drawn: Trace, names: Sequence[str], colours: Mapping[str, str]) -> Plot:
    lines = max(1, drawn.trials * len(drawn.terms))
    kept = thinned(len(trace.steps), max(20, min(_LONGEST_LINE, _POINTS_OF_ALL_LINES // lines)))
    at = [trace.steps[place] for place in kept]
    terms = {name: drawn.terms[name][kept].tolist() for name in names}
    x, y = x_axis(trace.steps), _loss_axis([value for rows in terms.values() for row in rows for value in row])
    left = [x.at(step) for step in at]
    marks = []
    for name, rows in terms.items():
        trials = list(zip(*rows, strict=True))
        look = f"line {colours[name]}" + _strength(len(trials))
        path = "".join(line(left, [y.at(value) for value in trial]) for trial in trials)
        marks.append(Mark(look, path, name[:40]))
    whole = [trace.terms[name][kept].tolist() for name in names]
    spans = [[_span(rows[place]) for rows in whole] for place in range(len(at))]
    lowest = [min(_known(row), default=math.nan) for row in next(iter(terms.values()), [[]] * len(at))]
    scale = "on a logarithmic axis" if y.logarithmic else "on a linear axis"
    return Plot(
        name=called,
        alt=f"Loss against step, one line for each term and trial, {scale}",
        x_label="step",
        y_label="loss",
        x=x,
        y=y,
        marks=tuple(marks),
        readings=Readings(left, [y.at(value) for value in lowest], _texts(at, names, spans)),
        headings=("step", *names),
        rows=[[short(at[place]), *spans[place]] for place in thinned(len(at), _ROWS)],
    )


def training_plot(curve: Curve) -> Plot:
    """Loss and share of wrong labels while the network was trained."""
    kept = thinned(len(curve.epochs), _LONGEST_LINE)
    epochs, losses, errors = ([values[place] for place in kept] for values in (curve.epochs, curve.loss, curve.error))
    every = [*losses, *errors]
    x, y = x_axis(epochs), y_axis(every, logarithmic=any(value > 0 for value in every))
    left, top = [x.at(epoch) for epoch in epochs], [y.at(loss) for loss in losses]
    rows = [[short(at), _span([loss]), _span([error])] for at, loss, error in zip(epochs, losses, errors, strict=True)]
    return Plot(
        name="training",
        alt="Loss and share of wrong labels against epoch, on a logarithmic axis",
        x_label="epoch",
        y_label="",
        x=x,
        y=y,
        marks=(
            Mark("line grey thick", line(left, [y.at(error) for error in errors]), "share of wrong labels"),
            Mark("line accent thick", line(left, top), "loss"),
        ),
        readings=Readings(
            left, top, [f"epoch {at}: loss {loss}, share of wrong labels {error}" for at, loss, error in rows]
        ),
        headings=("epoch", "loss", "share of wrong labels"),
        rows=[rows[place] for place in thinned(len(rows), _ROWS)],
    )


def _loss_axis(values: Sequence[float]) -> Axis:
    """Logarithmic where values are of different sizes, and some can be drawn so."""
    known = _known(values)
    most, least = max(known, default=0.0), min(known, default=0.0)
    return y_axis(values, logarithmic=most > 0 and most > _DECADES * least)


def _strength(trials: int) -> str:
    return "" if trials <= _TOGETHER else " faint" if trials <= _VERY_MANY else " hair"


def _texts(at: Sequence[float], names: Iterable[str], spans: Sequence[Sequence[str]]) -> list[str]:
    known = list(names)
    words = [", ".join(f"{name} {span}" for name, span in zip(known, row, strict=True)) for row in spans]
    return [f"step {short(step)}: {text}" for step, text in zip(at, words, strict=True)]


def _span(values: Sequence[float]) -> str:
    """From the least to the greatest over the trials.

    >>> _span([2.0, 3.5]), _span([2.0, 2.0]), _span([math.nan])
    ('2 to 3.5', '2', '—')
    """
    known = _known(values)
    if not known:
        return NOTHING
    least, most = _brief(min(known)), _brief(max(known))
    return least if least == most else f"{least} to {most}"


def _brief(value: float) -> str:
    return "0" if value == 0 else f"{value:.3g}"


def _known(values: Sequence[float]) -> list[float]:
    return [value for value in values if math.isfinite(value)]
