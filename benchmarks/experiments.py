"""``python -m benchmarks.experiments --out FOLDER --device cuda --seconds 550``: the runs behind docs/results.

Every experiment is a preset, or an attack on the network of another experiment, with the changes that its row in the
documents names. Several run at a time, because one does not fill a GPU; where NVIDIA's MPS is running they share it,
else they take turns. After ``--seconds`` all are interrupted, and the same command goes on with what is left.
``--packed FILE`` keeps what is worth reading: figures, settings and pictures, no candidates and no networks. Without
names all experiments run, in the order below.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

FASTER = ("training.dtype=tf32",)
SHORT = ("training.lr=0.03", "training.epochs=200000", *FASTER)
BRIEF = ("training.epochs=100000", *FASTER)
FIRST = ("match.score=ssim", "attack.schedule=cosine", "attack.layer_weights=[1,0,0]", "attack.candidates=1000")
ROW = (*FIRST, "attack.space=row")
MOMENTUM = "attack.optimiser=momentum"
EIGHT = ("attack.search={trials=8}", "attack.steps=10000", MOMENTUM)
SWEEP = ("--sampler", "random", "--trials", "32", "--batch", "16")
BINARY = ("--data", "cifar10", "--task", "vehicles_animals", "--n", "500")
CLASSES = ("--data", "cifar10", "--task", "classes", "--n", "500")
EACH = (
    "match.score=ncc",
    "match.each_trial=true",
    "match.each_candidate_once=false",
    "data.holdout_count=1600",
    "attack.candidates=1000",
)
FEW = (*EACH, "attack.schedule=cosine", "attack.layer_weights=[1,0,0]", "attack.steps=5000")
WIDE = "attack.search={trials=32,lr_x=[0.3,10],lr_duals=[0.01,1],init_scale=[3e-4,0.1],dual_min=[0.1,0.8]}"
PRIOR = ("attack.layer_weights=[1,0,0]", "attack.space=dip", "attack.dip.offset=mean", "attack.adam_betas=[0.9,0.999]")
LONGER = (
    "attack.schedule=constant",
    "attack.steps=4000",
    "attack.search={trials=8,lr_x=[1e-3,1e-2],lr_duals=[0.01,0.01]}",
)


@dataclass(frozen=True)
class Experiment:
    preset: str | None = None
    changes: tuple[str, ...] = ()
    jobs: int = 1
    """Members of a series at a time."""
    precision: str | None = None
    command: str = "reproduce"
    network: str | None = None
    """The experiment whose network is attacked; begun only when that has ended."""
    options: tuple[str, ...] = ()


def _attack(
    network: str, changes: tuple[str, ...], precision: str, command: str = "attack", options: tuple[str, ...] = BINARY
) -> Experiment:
    return Experiment(changes=changes, precision=precision, command=command, network=network, options=options)


def _invariant(name: str, task: str, group: str, n: int) -> Experiment:
    """A network of Table 1 by itself, to search for settings of the published methods."""
    where = (f"data.name={name}", f"data.task={task}", f"model.group={group}", f"data.n={n}", "data.holdout_count=1600")
    return Experiment("elbaz-mnist-flip-n50", (*where, *FASTER), command="train")


def _wide(network: str, optimiser: str, n: int) -> Experiment:
    options = ("--data", "cifar10", "--task", "vehicles_animals", "--n", str(n))
    changes = (*FEW, "data.mean_group=flip", f"attack.optimiser={optimiser}", WIDE)
    return _attack(network, changes, "tf32", options=options)


EXPERIMENTS: dict[str, Experiment] = {
    "photos-50": _invariant("cifar10", "vehicles_animals", "flip", 50),
    "photos-100": _invariant("cifar10", "vehicles_animals", "flip", 100),
    "digits-100": _invariant("mnist", "odd_even", "d4", 100),
    "photos-50-kkt": _wide("photos-50", "momentum", 50),
    "photos-50-same": _wide("photos-50", "same_gd", 50),
    "photos-100-kkt": _wide("photos-100", "momentum", 100),
    "photos-100-same": _wide("photos-100", "same_gd", 100),
    "digits-100-dip": _attack(
        "digits-100",
        (*EACH, *PRIOR, *LONGER, "data.mean_group=d4"),
        "tf32",
        options=("--data", "mnist", "--task", "odd_even", "--n", "100"),
    ),
    "elbaz-table1": Experiment("elbaz-table1", (*FASTER, "data.holdout_count=1600"), jobs=6),
    "tldr-ablation": Experiment("tldr-ablation", jobs=6),
    "buzaglo-weight-decay": Experiment("buzaglo-weight-decay", jobs=4),
    "elbaz-orbitope": Experiment("elbaz-orbitope", FASTER, jobs=3),
    "elbaz-sizes": Experiment("elbaz-sizes", FASTER, jobs=4),
    "tldr-fashion-10000": Experiment("tldr-fashion-10000"),
    "tldr-mnist-60000": Experiment("tldr-mnist-60000"),
    "tldr-fashion-60000": Experiment("tldr-fashion-60000"),
    "buzaglo-regression-l2.5": Experiment("buzaglo-regression-l2.5", SHORT, precision="fp16"),
    "buzaglo-5000": Experiment("buzaglo-5000", ("data.name=cifar10", "training.epochs=2000"), precision="fp16"),
    "buzaglo-conv-grid": Experiment("buzaglo-conv-grid", ("training.epochs=50000", "training.lr=0.1"), jobs=4),
    "buzaglo-classes": Experiment("buzaglo-classes", jobs=4, precision="fp16"),
    "tldr-mnist-1000": Experiment("tldr-mnist-1000"),
    "tldr-mnist-10000": Experiment("tldr-mnist-10000"),
    "tldr-fashion-1000": Experiment("tldr-fashion-1000"),
    "tldr-cifar10-1000": Experiment("tldr-cifar10-1000"),
    "tldr-cifar10-5000": Experiment("tldr-cifar10-5000"),
    "haim": Experiment("haim-cifar10", BRIEF, command="train"),
    "multiclass": Experiment("buzaglo-multiclass", BRIEF, command="train"),
    "haim-sweep": _attack("haim", (*ROW, "attack.steps=10000"), "fp16", "sweep", (*BINARY, *SWEEP)),
    "multiclass-sweep": _attack("multiclass", (*ROW, "attack.steps=10000"), "fp16", "sweep", (*CLASSES, *SWEEP)),
    "haim-fp64": _attack("haim", (*FIRST, *EIGHT), "fp64"),
    "haim-tf32": _attack("haim", (*FIRST, *EIGHT), "tf32"),
    "haim-fp16": _attack("haim", (*FIRST, *EIGHT), "fp16"),
    "haim-fp16-row": _attack("haim", (*ROW, *EIGHT), "fp16"),
    "haim-hundred": _attack("haim", (*ROW, "attack.search={trials=100}", "attack.steps=50000", MOMENTUM), "fp16"),
}
"""What has not been measured yet comes first."""


@dataclass(frozen=True)
class Running:
    name: str
    process: subprocess.Popen[bytes]
    since: float


def command(name: str, experiment: Experiment, out: Path, device: str) -> list[str]:
    """Begins an experiment, or goes on with it."""
    folder, words = out / name, [sys.executable, "-m", "recollect", experiment.command, "--device", device]
    if experiment.jobs > 1:
        words += ["--jobs", str(experiment.jobs)]
    if (folder / "config.toml").is_file():
        return [*words, "--resume", str(folder)]
    if experiment.network is not None:
        words.append(str(out / experiment.network))
    if experiment.preset is not None:
        words += [experiment.preset] if experiment.command == "reproduce" else ["--preset", experiment.preset]
    words += ["--out", str(folder), *experiment.options]
    words += [] if experiment.precision is None else ["--precision", experiment.precision]
    return [*words, *(word for change in experiment.changes for word in ("--set", change))]


def run_all(
    chosen: Mapping[str, Experiment], out: Path, device: str, slots: int, seconds: float, packed: Path | None
) -> list[str]:
    """Names of those that ended well. As many at a time as have ``slots`` members in all; a larger one runs alone."""
    out.mkdir(parents=True, exist_ok=True)
    began, running, done = time.monotonic(), list[Running](), [name for name in chosen if _marked(out, name).exists()]
    waiting = [name for name in chosen if name not in done]
    while (waiting or running) and time.monotonic() - began < seconds:
        for one in [one for one in running if one.process.poll() is not None]:
            running.remove(one)
            print(
                f"{one.name}: exit code {one.process.returncode} after {time.monotonic() - one.since:.0f} s", flush=True
            )
            if one.process.returncode == 0:
                _marked(out, one.name).touch()
                done.append(one.name)
            _pack(out, packed)
        while (name := _next(waiting, chosen, out)) and (
            not running or _members(chosen, running) + chosen[name].jobs <= slots
        ):
            waiting.remove(name)
            running.append(_begun(name, chosen, out, device))
        if not running:
            for name in waiting:
                print(f"{name}: needs the network of '{chosen[name].network}' first", flush=True)
            break
        time.sleep(0.2)
    _interrupt(running)
    _pack(out, packed)
    return done


def _next(waiting: Sequence[str], chosen: Mapping[str, Experiment], out: Path) -> str | None:
    """The first whose network is there."""
    networks = {name: chosen[name].network for name in waiting}
    return next((name for name, own in networks.items() if own is None or _marked(out, own).exists()), None)


def _members(chosen: Mapping[str, Experiment], running: Sequence[Running]) -> int:
    return sum(chosen[one.name].jobs for one in running)


def _begun(name: str, chosen: Mapping[str, Experiment], out: Path, device: str) -> Running:
    words = command(name, chosen[name], out, device)
    print(f"{name}: {' '.join(words[3:])}", flush=True)
    with (out / f"{name}.log").open("ab") as log:
        environment = {"OMP_NUM_THREADS": "1", **os.environ}
        process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True)
    return Running(name, process, time.monotonic())


def _interrupt(running: Sequence[Running]) -> None:
    for one in running:
        one.process.send_signal(signal.SIGINT)
    for one in running:
        print(f"{one.name}: interrupted after {time.monotonic() - one.since:.0f} s", flush=True)
        try:
            one.process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            one.process.kill()


def _marked(out: Path, name: str) -> Path:
    return out / f"{name}.done"


def _pack(out: Path, packed: Path | None) -> None:
    if packed is None:
        return
    kept = [*out.rglob("*.json"), *out.rglob("*.toml"), *out.rglob("figures/generated*.png"), *out.glob("*.log")]
    unfinished = packed.with_name(packed.name + ".part")
    with tarfile.open(unfinished, "w:gz") as archive:
        for path in kept:
            if path.name != "matches.json":  # large, and summed up in summary.json
                archive.add(path, path.relative_to(out))
    unfinished.replace(packed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(EXPERIMENTS)}")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--slots", type=int, default=max(1, os.cpu_count() or 1), help="runs and members at a time")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--packed", type=Path)
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in EXPERIMENTS]
    if unknown:
        parser.error(f"there is no experiment '{unknown[0]}'; choose among {', '.join(EXPERIMENTS)}")
    chosen = {name: EXPERIMENTS[name] for name in options.names or EXPERIMENTS}
    done = run_all(chosen, options.out, options.device, options.slots, options.seconds, options.packed)
    print(f"{len(done)} of {len(chosen)} done: {', '.join(done)}")


if __name__ == "__main__":
    main()
