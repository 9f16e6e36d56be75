"""Charts of two diaries: the loss during the search, and while the attacked network was trained."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from recollect.report.curves import Curve, Trace
from recollect.report.plots import Mark, Plot, Readings, line, short, thinned, x_axis, y_axis
from recollect.report.tables import NOTHING

_POINTS_OF_ALL_LINES = 30_000
_LONGEST_LINE = 400
_ROWS = 24
_COLOURS = 6


def attack_plot(trace: Trace) -> Plot:
    """Every term of the loss in every trial; zero cannot be drawn on a logarithmic axis."""
    lines = sum(values.shape[1] for values in trace.terms.values())
    kept = thinned(len(trace.steps), max(20, min(_LONGEST_LINE, _POINTS_OF_ALL_LINES // max(1, lines))))
    at = [trace.steps[place] for place in kept]
    terms = {name: values[kept].tolist() for name, values in trace.terms.items()}
    every = [value for rows in terms.values() for row in rows for value in row]
    x, y = x_axis(trace.steps), y_axis(every, logarithmic=any(value > 0 for value in every))
    left = [x.at(step) for step in at]
    marks = []
    for place, (name, rows) in enumerate(terms.items()):
        trials = list(zip(*rows, strict=True))
        look = f"line colour{place % _COLOURS}" + (" faint" if len(trials) > 4 else "")
        path = "".join(line(left, [y.at(value) for value in trial]) for trial in trials)
        marks.append(Mark(look, path, name[:40]))
    spans = [[_span(rows[place]) for rows in terms.values()] for place in range(len(at))]
    main = next(iter(terms.values()), [[]] * len(at))
    return Plot(
        name="search",
        alt="Loss against step, one line for each term and trial, on a logarithmic axis",
        x_label="step",
        y_label="loss",
        x=x,
        y=y,
        marks=tuple(marks),
        readings=Readings(left, [y.at(min(_known(row), default=math.nan)) for row in main], _texts(at, terms, spans)),
        headings=("step", *terms),
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
