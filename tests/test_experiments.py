"""Many experiments at a time: what ends, what fails, what is interrupted and gone on with."""

from __future__ import annotations

import sys
import tarfile
import time
from pathlib import Path

import pytest
from benchmarks import experiments
from benchmarks.experiments import EXPERIMENTS, Experiment, command, run_all

from recollect.presets import load_preset

SCRIPTS = {
    "slow": "import pathlib, sys, time\npathlib.Path(sys.argv[1], 'begun').touch()\ntime.sleep(60)",
    "quick": "pass",
    "failing": "raise SystemExit(3)",
}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_is_a_run_that_can_be_described(name: str, tmp_path: Path) -> None:
    chosen = EXPERIMENTS[name]
    if chosen.preset is not None:
        assert bool(load_preset(chosen.preset, chosen.changes).series) == (chosen.jobs > 1)
    begins = command(name, chosen, tmp_path, "cpu")
    assert begins[begins.index("--out") + 1] == str(tmp_path / name)
    (tmp_path / name).mkdir()
    (tmp_path / name / "config.toml").touch()
    goes_on = command(name, chosen, tmp_path, "cpu")
    assert goes_on[goes_on.index("--resume") + 1] == str(tmp_path / name)
    assert "--set" not in goes_on


def test_what_fails_or_takes_too_long_is_left_for_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, begun = tmp_path / "out", list[str]()

    def scripted(name: str, experiment: Experiment, out: Path, device: str) -> list[str]:
        begun.append(name)
        return [sys.executable, "-c", SCRIPTS[name], str(out)]

    monkeypatch.setattr(experiments, "command", scripted)
    chosen = {
        "slow": Experiment("a"),
        "quick": Experiment("b"),
        "failing": Experiment("c"),
        "large": Experiment("d", jobs=9),
        "attack": Experiment(network="failing"),
    }
    started = time.monotonic()
    assert run_all(chosen, out, "cpu", slots=3, seconds=3.0, packed=tmp_path / "kept.tar.gz") == ["quick"]
    assert time.monotonic() - started < 20
    assert (out / "begun").exists()
    said = capsys.readouterr().out
    assert "failing: exit code 3" in said
    assert "slow: interrupted" in said
    with tarfile.open(tmp_path / "kept.tar.gz") as archive:
        assert {"slow.log", "failing.log", "quick.log"} <= set(archive.getnames())
    assert begun == ["slow", "quick", "failing"]  # the large one waits until it is alone
    del chosen["large"], chosen["slow"]
    assert run_all(chosen, out, "cpu", slots=3, seconds=3.0, packed=None) == ["quick"]
    assert begun[3:] == ["failing"]  # and what would attack its network does not begin
    assert "attack: needs the network of 'failing' first" in capsys.readouterr().out


@pytest.mark.parametrize("name", [name for name, chosen in EXPERIMENTS.items() if chosen.network is not None])
def test_networks_are_trained_before_they_are_attacked(name: str, tmp_path: Path) -> None:
    chosen = EXPERIMENTS[name]
    assert chosen.network is not None
    assert EXPERIMENTS[chosen.network].command == "train"
    assert list(EXPERIMENTS).index(chosen.network) < list(EXPERIMENTS).index(name)
    words = command(name, chosen, tmp_path, "cpu")
    place = words.index(str(tmp_path / chosen.network))
    assert words[place - 3] == chosen.command
    assert tuple(words[place + 3 : place + 3 + len(chosen.options)]) == chosen.options
