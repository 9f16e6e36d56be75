"""The page of a sweep: every trial on it once, settings where they belong, and the score against the truth."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from recollect.report.page import write_report
from recollect.report.sweep_plots import parallel_plot, slice_plots, truth_plot
from recollect.report.sweep_section import best_first, counts, truth_caption
from recollect.report.sweep_trials import rank_correlation, read_trials


def line(number: int) -> dict[str, Any]:
    """Every fifth trial diverged, every third of the others was pruned; small rates are good."""
    diverged, pruned = number % 5 == 4, number % 5 != 4 and number % 3 == 2
    settings = {"lr_x": 0.01 * 1.5**number, "lr_duals": 0.1, "smoothing": 60.0 + number}
    score = None if diverged else 0.3 + 0.01 * number
    steps = 100 if pruned else 800
    return {
        "number": number, "settings": settings, "score": score, "diverged": diverged, "pruned": pruned, "steps": steps,
        "stalled": False, "seconds": 1.0, "rungs": [], "piece": "trials/0-1.safetensors",
    }  # fmt: skip


def write_sweep(run: Path, trials: int = 15, matched: bool = True) -> Path:
    lines = [line(number) for number in range(trials)]
    (run / "trials.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    complete = [one["number"] for one in lines if not (one["diverged"] or one["pruned"])]
    rows = [{"number": number, "recovered": 20 - number, "ncc80": 1, "good_ssim04": None} for number in complete]
    if matched:
        record = {"score": "ncc", "reference_count": 20, "null_count": 30, "trials": rows}
        (run / "trial_matches.json").write_text(json.dumps(record))
    return run


def test_a_page_with_a_sweep_and_one_without(make_run: Callable[..., Path]) -> None:
    run = make_run()
    assert 'id="sweep"' not in write_report(run).read_text()
    page = write_report(write_sweep(run)).read_text()
    assert 'id="sweep"' in page
    assert "15 trials: 8 came to the last step, 4 stopped early, 3 diverged." in page
    assert "Rank correlation (Spearman): -1.00" in page
    assert "rate of candidates" in page
    assert "rate of multipliers" not in page, "it was not varied"
    for number in range(15):
        assert re.search(rf'<th scope="row">{number}</th>', page)


def test_without_reference_data_nothing_is_said_of_the_truth(make_run: Callable[..., Path]) -> None:
    page = write_report(write_sweep(make_run(), matched=False)).read_text()
    assert 'id="sweep"' in page
    assert "Spearman" not in page


def test_lines_of_parallel_coordinates_meet_the_scales_where_the_values_are(tmp_path: Path) -> None:
    swept = read_trials(write_sweep(tmp_path))
    assert swept is not None
    assert swept.names == ["lr_x", "smoothing"]
    drawn = parallel_plot(swept)
    assert [scale.name for scale in drawn.scales] == ["rate of candidates", "sharpness of ReLU", "score"]
    paths = "".join(mark.path for mark in drawn.marks)
    assert paths.count("M") == 12, "a line for each trial that has a score"
    assert paths.count("L") == 24
    best = next(mark for mark in drawn.marks if mark.words == "best by score")
    heights = [float(y) for _, y in re.findall(r"[ML]([\d.]+) ([\d.]+)", best.path)]
    assert heights == sorted(heights, reverse=True) or len(set(heights)) == 1
    assert max(heights) <= drawn.bottom + 0.1
    assert drawn.left_out == 0


def test_slices_and_truth_have_a_point_for_each_trial(tmp_path: Path) -> None:
    swept = read_trials(write_sweep(tmp_path))
    assert swept is not None
    rate, sharpness = slice_plots(swept)
    assert rate.x.logarithmic
    assert not sharpness.x.logarithmic
    assert [mark.words for mark in rate.marks] == ["pruned, when it stopped", "complete"]
    assert [mark.path.count("M") for mark in rate.marks] == [4, 8]
    truth = truth_plot(swept)
    assert truth.y_label == "samples recovered"
    assert len(truth.readings.x) == 8
    assert truth.readings.texts is not None
    assert truth.readings.texts[0] == "trial 0: score 0.3, 20 samples recovered"
    assert truth_caption(swept).startswith("Trial 0, with the best score, has 20; the best trial 20 of 20.")


def test_best_scores_come_first_then_pruned_then_diverged(tmp_path: Path) -> None:
    swept = read_trials(write_sweep(tmp_path))
    assert swept is not None
    assert [trial.number for trial in best_first(swept)] == [0, 1, 3, 6, 7, 10, 12, 13, 2, 5, 8, 11, 4, 9, 14]
    assert counts(swept, "tpe").startswith("15 trials, settings proposed by tpe: 8 came")


@pytest.mark.parametrize("content", ["", "{}\n", '{"number": "x", "settings": 3, "score": "no"}\n'])
def test_odd_lines_do_not_stop_the_page(content: str, make_run: Callable[..., Path]) -> None:
    run = make_run()
    (run / "trials.jsonl").write_text(content)
    assert write_report(run).exists()


def test_all_diverged(make_run: Callable[..., Path]) -> None:
    run = make_run()
    (run / "trials.jsonl").write_text(json.dumps(line(4)) + "\n" + json.dumps(line(9)) + "\n")
    assert "2 trials: 2 diverged." in write_report(run).read_text()


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=20))
def test_rank_correlation_against_scipy(pairs: list[tuple[int, int]]) -> None:
    x, y = ([float(pair[side]) for pair in pairs] for side in (0, 1))
    found = rank_correlation(x, y)
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert math.isnan(found)
    else:
        assert found == pytest.approx(spearmanr(x, y).statistic, abs=1e-12)
