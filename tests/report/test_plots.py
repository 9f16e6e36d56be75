"""Charts as geometry: where points stand, what the axes say, what pointer and keyboard will read."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from recollect.report.charts import score_histogram, score_scatter
from recollect.report.curve_plots import attack_caption, attack_plots, training_plot
from recollect.report.curves import Curve, Trace
from recollect.report.folder import read_run
from recollect.report.plots import HEIGHT, LEFT, RIGHT, TOP, WIDTH, Axis, dots, line, steps, thinned, x_axis, y_axis
from recollect.report.roc import roc
from recollect.report.score_plots import histogram_plot, roc_plot, scatter_plot

DECAY = torch.tensor([[1.0], [1e-3], [1e-6]]) * torch.arange(1, 6)
NUMBER = r"-?\d+(?:\.\d+)?"


def values_of(axis: Axis, pixels: list[float]) -> np.ndarray:
    low, high = (math.log10(axis.low), math.log10(axis.high)) if axis.logarithmic else (axis.low, axis.high)
    found = low + (np.array(pixels) - axis.start) / (axis.end - axis.start) * (high - low)
    return 10**found if axis.logarithmic else found


def places_of(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(rf"[ML]({NUMBER}) ({NUMBER})", path)]


@pytest.mark.parametrize("logarithmic", [False, True])
def test_an_axis_holds_its_values_and_names_round_ones(logarithmic: bool) -> None:
    axis = x_axis([0.02, 3.0, 700.0], logarithmic)
    for value in (0.02, 3.0, 700.0):
        assert LEFT <= axis.at(value) <= WIDTH - RIGHT
        assert values_of(axis, [axis.at(value)])[0] == pytest.approx(value)
    for pixel, words in axis.ticks():
        assert values_of(axis, [pixel])[0] == pytest.approx(float(words.replace(",", "")), rel=0.02, abs=1)
    assert 3 <= len(axis.ticks()) <= 8
    assert math.isnan(axis.at(math.nan))
    assert math.isnan(axis.at(0.0)) == logarithmic


@pytest.mark.parametrize("values", [[], [math.nan], [5.0], [0.0, 0.0], [-2.0, -2.0]])
@pytest.mark.parametrize("logarithmic", [False, True])
def test_axes_of_nothing_or_of_one_value_have_a_length(values: list[float], logarithmic: bool) -> None:
    axis = y_axis(values, logarithmic)
    assert axis.high > axis.low
    assert all(TOP - 1 <= pixel <= HEIGHT for pixel, _ in axis.ticks())


def test_no_number_stands_outside_of_an_axis_over_many_decades() -> None:
    axis = y_axis([2e-8, 90.0], logarithmic=True)
    assert next(words for _, words in axis.ticks()) == "1e-8"
    assert all(TOP <= pixel <= axis.start for pixel, _ in axis.ticks())


def test_paths_leave_out_what_is_missing() -> None:
    assert dots([1, math.nan, 3], [4, 5, 6]) == "M1.0 4.0h0M3.0 6.0h0"
    assert line([1, 2, 3, 4], [5, math.nan, 6, 7]) == "M1.0 5.0M3.0 6.0L4.0 7.0"
    assert steps([0, 1, 2], [5, 6], 9) == "M0.0 9.0V5.0H1.0V6.0H2.0V9.0"


def test_thinning_keeps_both_ends() -> None:
    assert thinned(0, 5) == []
    assert thinned(3, 5) == [0, 1, 2]
    assert thinned(1000, 5) == [0, 250, 500, 749, 999]


def test_scatter_has_a_dot_for_every_sample_where_it_belongs(make_run) -> None:
    matches = read_run(make_run(n=30)).matches
    plot = scatter_plot(matches, "ncc")
    best_first = sorted(matches.samples, key=lambda sample: -sample.ncc)
    np.testing.assert_allclose(values_of(plot.x, plot.readings.x), [sample.output for sample in best_first])
    np.testing.assert_allclose(values_of(plot.y, plot.readings.y), [sample.ncc for sample in best_first])
    counts = {mark.words: len(places_of(mark.path)) for mark in plot.marks if mark.look.startswith("dots")}
    recovered = sum(sample.recovered for sample in matches.samples)
    assert counts == {"recovered": recovered, "not recovered": 30 - recovered}
    assert any(mark.words == "threshold 0.830" for mark in plot.marks)
    assert not any("threshold" in mark.words for mark in scatter_plot(matches, "ssim").marks)


def test_samples_that_matched_nothing_do_not_stretch_the_axes(make_run) -> None:
    matches = read_run(make_run(n=30)).matches
    lost = tuple(replace(sample, ncc=-1.0) if row in (3, 7) else sample for row, sample in enumerate(matches.samples))
    known = [sample.ncc for sample in lost if sample.ncc != -1.0]
    matches = replace(matches, samples=lost)
    plot = scatter_plot(matches, "ncc")
    assert plot.y.low > min(known) - 0.1
    assert plot.readings.y[-2:] == [plot.y.start, plot.y.start]
    np.testing.assert_allclose(values_of(plot.y, plot.readings.y[:-2]), sorted(known, reverse=True))
    histogram = histogram_plot(matches)
    assert histogram.x.low > min([*known, *matches.null["ncc"]]) - 0.1
    assert sum(float(row[1].rstrip("%")) for row in histogram.rows) == pytest.approx(100, abs=1)
    for axis in (score_scatter(matches).axes[0].get_ylim(), score_histogram(matches).axes[0].get_xlim()):
        assert axis[0] > -0.9


def test_histogram_shares_are_those_of_numpy(make_run) -> None:
    matches = read_run(make_run()).matches
    plot = histogram_plot(matches)
    training, held_out = [sample.ncc for sample in matches.samples], matches.null["ncc"]
    edges = np.histogram_bin_edges([*training, *held_out], 30)
    for place, values in ((1, training), (2, held_out)):
        expected = np.histogram(values, edges)[0] / len(values)
        assert [row[place] for row in plot.rows] == [f"{share:.1%}" for share in expected]
    assert [mark.words for mark in plot.marks] == ["held out (30)", "training (20)", "threshold 0.830"]


def test_roc_goes_from_corner_to_corner() -> None:
    plot = roc_plot(roc([0.9, 0.7, 0.1], [0.5, 0.2]))
    points = places_of(plot.marks[1].path)
    np.testing.assert_allclose(values_of(plot.x, [points[0][0], points[-1][0]]), [0, 1], atol=1e-2)
    np.testing.assert_allclose(values_of(plot.y, [points[0][1], points[-1][1]]), [0, 1], atol=1e-2)
    assert ["0.0%", "66.7%"] in plot.rows


def test_search_curves_hold_each_term_of_each_trial(make_run) -> None:
    (plot,) = attack_plots(read_run(make_run()).trace)
    first = places_of(plot.marks[0].path)
    np.testing.assert_allclose(
        values_of(plot.y, [y for _, y in first[:19]]), [9.0 / k for k in range(1, 20)], rtol=0.02
    )
    assert len(first) == 19 + 5
    assert len(places_of(plot.marks[1].path)) == 19
    assert plot.readings.texts[0] == "step 100: stationarity 2 to 9, dual_floor 0 to 0.1"
    assert plot.rows[-1] == ["1,900", "0.474", "0 to 0.00526"]


def test_many_trials_stay_light() -> None:
    steps_taken = [float(step) for step in range(5000)]
    (plot,) = attack_plots(Trace(steps_taken, {"stationarity": 1 + torch.rand(5000, 64)}))
    assert len(plot.marks[0].path) < 600_000
    assert "hair" in plot.marks[0].look
    assert len(plot.rows) <= 24


def test_terms_of_several_trials_have_a_chart_each() -> None:
    trace = Trace([1.0, 2.0, 3.0], {"stationarity": 20 + torch.rand(3, 5), "none": torch.zeros(3, 5), "box": DECAY})
    stationarity, box = attack_plots(trace)
    assert [mark.words for mark in (*stationarity.marks, *box.marks)] == ["stationarity", "box"]
    assert [stationarity.name, box.name] == ["search", "search-2"]
    assert not stationarity.y.logarithmic, "values that differ little would be a flat band"
    assert box.y.logarithmic
    assert [plot.marks[0].path.count("M") for plot in (stationarity, box)] == [5, 5]
    np.testing.assert_allclose(
        values_of(box.y, [y for _, y in places_of(box.marks[0].path)]), DECAY.T.flatten(), rtol=0.05
    )
    assert "zero" in attack_caption(trace)
    assert "evenly chosen" not in attack_caption(trace)
    assert "cut off" not in attack_caption(trace)


def test_of_very_many_trials_some_are_drawn_and_all_are_counted() -> None:
    values = torch.linspace(1, 2, 3000).repeat(50, 1)
    trace = Trace([float(step) for step in range(50)], {"a": values, "b": 2 * values, "c": 3 * values})
    plots = attack_plots(trace)
    assert [plot.marks[0].path.count("M") for plot in plots] == [200] * 3
    assert sum(len(plot.marks[0].path) for plot in plots) < 600_000
    assert [plot.rows[0][1] for plot in plots] == ["1 to 2", "2 to 4", "3 to 6"]
    assert "200 of 3,000 trials are drawn, evenly chosen." in attack_caption(trace)


def test_a_trial_that_diverges_does_not_flatten_the_others() -> None:
    values = 20 + torch.rand(4, 6)
    values[1:, 2] = torch.tensor([1e9, 1e30, math.nan])
    trace = Trace([1.0, 2.0, 3.0, 4.0], {"stationarity": values})
    (plot,) = attack_plots(trace)
    assert plot.y.high < 25
    tame = [column for column in range(6) if column != 2]
    assert max(values_of(plot.y, [y for _, y in places_of(plot.marks[0].path)])) <= values[:, tame].max() + 0.1
    assert len(places_of(plot.marks[0].path)) == 4 * 6 - 1
    assert plot.rows[2][1].endswith("to 1e+30"), "the numbers say what is"
    assert attack_caption(trace).endswith("are cut off at the upper edge (1).")


def test_a_trial_alone_is_drawn_however_it_ends() -> None:
    values = torch.tensor([[1.0, math.nan], [1e6, math.nan]])
    (plot,) = attack_plots(Trace([1.0, 2.0], {"stationarity": values}))
    assert len(places_of(plot.marks[0].path)) == 2
    (empty,) = attack_plots(Trace([1.0, 2.0], {"stationarity": torch.empty(2, 0)}))
    assert empty.marks[0].path == ""


def test_losses_of_any_size_have_an_axis() -> None:
    (plot,) = attack_plots(Trace([1.0, 2.0], {"stationarity": torch.tensor([[1e38], [1e-38]])}))
    assert plot.y.ticks()


def test_losses_that_are_all_negative_are_drawn_too() -> None:
    (plot,) = attack_plots(Trace([1.0, 2.0], {"activation": torch.tensor([[-3.0], [-5.0]])}))
    assert not plot.y.logarithmic
    assert len(places_of(plot.marks[0].path)) == 2


def test_training_curve_leaves_zeros_out() -> None:
    plot = training_plot(Curve([1.0, 2.0, 3.0], [0.5, 0.25, 0.125], [0.5, 0.0, 0.0]))
    assert [len(places_of(mark.path)) for mark in plot.marks] == [1, 3]
    assert plot.readings.texts[1] == "epoch 2: loss 0.25, share of wrong labels 0"
