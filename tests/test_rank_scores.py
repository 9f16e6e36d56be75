"""Choosing a score: the known best product is found in synthetic files, and figures agree with SciPy's."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import rank_scores
from benchmarks.rank_scores import SHIPPED, Score, chosen, merits, read_target, report, scores_of
from scipy.stats import spearmanr

PRODUCT = Score("residual", ((-1.0, "residual"), (0.3, "smooth")))
REACHING = Score("residual", ((1.0, "found_2_0.7"), (-0.5, "residual")), 1.2)


def rows_of(seed: int, trials: int = 40) -> list[dict[str, Any]]:
    """Recovered counts that follow a residual and a smoothness."""
    rng = np.random.default_rng(seed)
    names = ("residual", "residual_1", "smooth", "alike", "size")
    values = {name: (1 + rng.permutation(trials)) / trials for name in names}
    truth = np.round(50 * values["smooth"] ** 0.3 / values["residual"]).astype(int)
    return [
        {"trial": place, "lr_x": 0.1, "smoothing": 9.0, "diverged": False, "recovered": int(truth[place])}
        | {name: float(value[place]) for name, value in values.items()}
        for place in range(trials)
    ]


def write(folder: Path, name: str, rows: list[dict[str, Any]]) -> Path:
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"case": name, "n": 500, "trials": rows}))
    return path


def test_the_product_that_the_truth_follows_is_chosen(tmp_path: Path) -> None:
    targets = [read_target(write(tmp_path, f"target-{seed}", rows_of(seed))) for seed in range(4)]
    scores = scores_of(targets, most=1)
    assert len(scores) == 2 * (1 + 3 * 6)
    assert chosen(scores, merits(scores, targets), [0, 1]) == PRODUCT
    assert all(target.spearman(PRODUCT) > 0.99 for target in targets)
    assert all(target.kept(PRODUCT) == 1 for target in targets)
    assert all(0.3 < target.spearman(SHIPPED) < 0.97 for target in targets)


def test_figures_are_those_of_scipy(tmp_path: Path) -> None:
    rows = rows_of(7)
    target = read_target(write(tmp_path, "one", rows))
    truth = [row["recovered"] for row in rows]
    expected = spearmanr([-row["residual"] for row in rows], truth).statistic
    assert target.spearman(SHIPPED) == pytest.approx(expected)
    picked = min(rows, key=lambda row: row["residual"])["recovered"]
    assert target.kept(SHIPPED) == pytest.approx(picked / max(truth))


def test_two_trials_of_one_setting_say_what_chance_leaves(tmp_path: Path) -> None:
    rows = rows_of(1, trials=9)
    for row, recovered in zip(rows, (8, 6, 3, 10, 1, 2, None, 4, 5), strict=True):
        row["recovered"] = recovered
    spearman, kept = read_target(write(tmp_path, "twins", rows)).repeated()
    assert spearman == pytest.approx(spearmanr([8, 3, 1], [6, 10, 2]).statistic)
    assert kept == pytest.approx((6 + 3) / 2 / 10)


def test_trials_that_cannot_be_ranked_are_left_out(tmp_path: Path) -> None:
    rows = rows_of(0)
    lost = [{**rows[0], "diverged": True, "recovered": None}, {**rows[1], "smooth": math.nan}]
    target = read_target(write(tmp_path, "one", [*lost, *rows]))
    assert len(target.recovered) == len(rows)
    nothing = read_target(write(tmp_path, "none", [{**row, "recovered": 0} for row in rows]))
    assert nothing.spearman(PRODUCT) == 0
    assert math.isnan(nothing.kept(PRODUCT))
    with pytest.raises(SystemExit, match="two are needed"):
        read_target(write(tmp_path, "few", rows[:1]))


def test_choosing_and_reporting_targets_are_kept_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in range(3):
        write(tmp_path, f"target-{seed}", rows_of(seed))
    words = ["rank_scores", str(tmp_path), "--choose", "target-0", "target-1"]
    monkeypatch.setattr(sys, "argv", words)
    rank_scores.main()
    first, _, rest = capsys.readouterr().out.partition("Targets that it was not chosen on")
    assert "Chosen on target-0, target-1: residual^-1 smooth^0.3" in first
    reported, _, each = rest.partition("Each target")
    assert [line.split()[0] for line in reported.splitlines() if line.startswith("target-")] == ["target-2"]
    assert [line.split()[0] for line in each.splitlines() if line.startswith("target-")] == [
        "target-0",
        "target-1",
        "target-2",
    ]
    for wrong in (["--report", "target-1"], ["--report", "nobody"]):
        monkeypatch.setattr(sys, "argv", [*words, *wrong])
        with pytest.raises(SystemExit, match="different targets among target-0, target-1, target-2"):
            rank_scores.main()


def test_a_target_left_out_has_no_say(tmp_path: Path) -> None:
    """The last one follows another trait: chosen on the others it is ranked badly, and changes nothing for itself."""
    targets = [read_target(write(tmp_path, f"target-{seed}", rows_of(seed))) for seed in range(2)]
    other = [{**row, "recovered": round(50 * row["alike"])} for row in rows_of(9)]
    targets.append(read_target(write(tmp_path, "other", other)))
    last = report(targets, ["target-0"], most=1, top=2)[-1]
    assert last.startswith("other")
    assert last.endswith("residual^-1 smooth^0.3")


def test_within_reach_of_the_smallest_residual_others_decide(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    residual = np.concatenate([rng.uniform(0.2, 0.239, 12), rng.uniform(0.3, 0.9, 20)])
    found = rng.permutation(32) + 1.0
    rows = [
        {"diverged": False, "residual": r, "found_2_0.7": f, "recovered": int(100 * f / r**0.5) if r < 0.24 else 0}
        for r, f in zip(residual, found, strict=True)
    ]
    target = read_target(write(tmp_path, "one", rows))
    assert target.kept(REACHING) == 1
    rated = target.rate(REACHING)
    good = residual <= 1.2 * residual.min()
    assert rated[good].min() > rated[~good].max()
    assert np.array_equal(np.argsort(rated[good]), np.argsort((found / residual**0.5)[good]))
    assert np.array_equal(np.argsort(rated[~good]), np.argsort(-residual[~good]))
    assert REACHING in scores_of([target], most=0)
