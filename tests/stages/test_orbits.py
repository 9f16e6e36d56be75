"""A network invariant to a group through the whole of a run, on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from recollect.networks import load_network
from recollect.symmetries import group_of


def run(command: Callable[..., Any], tiny: list[str], *words: str) -> dict[str, Any]:
    outcome = command("demo", "--json", "--out", "run", "--overwrite", *tiny, *words)
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


@pytest.mark.parametrize("group", ["flip", "d4"])
def test_the_group_goes_from_the_configuration_to_the_report(
    command: Callable[..., Any], tiny: list[str], group: str
) -> None:
    summary = run(command, tiny, "--set", f"model.group={group}")
    assert summary["group"] == group
    assert f"up to {group}" in summary["recovered_rule"]
    assert 0 < summary["median_asymmetry"] <= 1
    net, facts = load_network(Path("run"))
    assert facts.architecture.group == group  # pyright: ignore[reportAttributeAccessIssue]
    assert group_of(net, (1, 28, 28)).name == group
    orbitope = json.loads(Path("run/orbitope.json").read_text())
    assert sum(orbitope["counts"]) == orbitope["candidates"] == 8
    assert len(orbitope["edges"]) == len(orbitope["counts"]) + 1
    page = Path("run/report.html").read_text()
    assert "How symmetric the candidates are" in page
    assert Path("run/figures/orbitope.png").stat().st_size > 1000


def test_matching_again_with_candidates_moved_along_their_orbits_gives_the_same_figures(
    command: Callable[..., Any], tiny: list[str]
) -> None:
    before = run(command, tiny, "--set", "model.group=flip")
    stored = load_file("run/candidates.safetensors")
    stored["candidates"][:, ::2] = stored["candidates"][:, ::2].flip(-1)
    save_file({name: value.contiguous() for name, value in stored.items()}, "run/candidates.safetensors")
    assert command("match", "run").code == 0
    after = json.loads(Path("run/summary.json").read_text())
    for name in ("mean_dssim", "null_mean_dssim", "top10_ssim", "recovered", "median_asymmetry"):
        assert after[name] == pytest.approx(before[name], rel=1e-4)
    assert command("match", "run", "--set", "match.group=trivial").code == 0
    alone = json.loads(Path("run/summary.json").read_text())
    assert alone["group"] == "trivial"
    assert alone["mean_dssim"] != pytest.approx(before["mean_dssim"], rel=1e-4)
    assert not Path("run/orbitope.json").exists()
    assert alone["median_asymmetry"] is None


def test_without_a_group_there_is_no_orbitope(command: Callable[..., Any], tiny: list[str]) -> None:
    summary = run(command, tiny)
    assert summary["group"] == "trivial"
    assert not Path("run/orbitope.json").exists()
    assert "How symmetric" not in Path("run/report.html").read_text()


@pytest.mark.parametrize(
    "words",
    [
        ("attack.optimiser=same_gd", "attack.same_gd.update_every=7"),
        ("attack.space=dip", "attack.optimiser=adam", "attack.trials.0.lr_x=0.001"),
        ("attack.space=dip", "attack.dip.networks=each", "attack.dip.channels=4"),
        ("attack.asymmetry.unfold=true",),
        ("attack.asymmetry.weight=0.1", "attack.asymmetry.init=2"),
    ],
)
def test_every_method_runs_from_the_command_line(
    command: Callable[..., Any], tiny: list[str], words: tuple[str, ...]
) -> None:
    settings = ["model.group=flip", "attack.steps=9", *words]
    summary = run(command, tiny, *(word for setting in settings for word in ("--set", setting)))
    assert summary["diverged_trials"] == 0
    assert summary["reference_count"] == 4


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("model.group=flop", "model.group: there is no group 'flop'; did you mean 'flip'"),
        ("match.group=modle", "match.group: there is no group 'modle'"),
        ("attack.same_gd.alpha=2", "attack.same_gd.alpha: input should be less than or equal to 1"),
        ("attack.dip.nets=one", "unknown key 'attack.dip.nets'; did you mean 'networks'?"),
        ("attack.optimiser=sgd", "'momentum', 'adam' or 'same_gd'"),
        ("attack.asymmetry.unfold=true", "needs a network averaged over a group"),
    ],
)
def test_mistakes_are_one_sentence(command: Callable[..., Any], tiny: list[str], setting: str, expected: str) -> None:
    assert expected in command("demo", *tiny, "--set", setting).error
