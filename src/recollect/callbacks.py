"""What happens beside the search: traces, checkpoints, trackers. None of it changes the search."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from recollect.core import RecollectError
from recollect.problem import Problem, State, initial_state, merged
from recollect.runs import RunFolder
from recollect.solve import Snapshot

CHECKPOINT = "checkpoint.safetensors"


@dataclass(frozen=True)
class Trace:
    """One line of ``trace.jsonl`` per call: every term of every trial."""

    folder: RunFolder
    every: int
    started: float

    def __call__(self, snapshot: Snapshot) -> None:
        state = snapshot.state
        terms = {name: value.tolist() for name, value in snapshot.terms.items()}
        line = {"step": snapshot.step, "seconds": round(time.monotonic() - self.started, 3)}
        self.folder.append_line("trace.jsonl", line | {"alive": int(state.alive.sum()), "terms": terms})


@dataclass
class Checkpoint:
    """Saves the whole state, at most once in ``seconds``, so that a killed run goes on where it was.

    A state so large that saving it takes long is saved less often: a twentieth of the time is enough.
    """

    folder: RunFolder
    every: int
    seconds: float
    _last: float = field(default_factory=time.monotonic)
    _took: float = 0.0

    def __call__(self, snapshot: Snapshot) -> None:
        started = time.monotonic()
        if started - self._last >= max(self.seconds, 19 * self._took):
            self.folder.write_tensors(CHECKPOINT, _flattened(snapshot.state))
            self._last = time.monotonic()
            self._took = self._last - started


def read_checkpoint(folder: RunFolder, parts: Sequence[Problem]) -> State | None:
    """The saved state, on the first device; None when the run never got that far."""
    if not folder.has(CHECKPOINT):
        return None
    saved = folder.read_tensors(CHECKPOINT)
    blank = merged([initial_state(part) for part in parts])
    expected = _flattened(blank)
    if _kinds(saved) != _kinds(expected):
        raise RecollectError(
            f"the checkpoint in '{folder.path}' belongs to other settings than its config.toml; "
            "start anew with --overwrite."
        )

    device = parts[0].rng.device

    def group(prefix: str) -> dict[str, Tensor]:
        names = [name for name in saved if name.startswith(prefix)]
        return {name.removeprefix(prefix): saved[name].to(device) for name in names}

    return State(
        step=saved["step"].to(device),
        variables=group("variables."),
        optimiser=group("optimiser."),
        alive=saved["alive"].to(device),
        stalled=saved["stalled"].to(device),
    )


def _kinds(tensors: dict[str, Tensor]) -> dict[str, tuple[torch.Size, torch.dtype]]:
    return {name: (value.shape, value.dtype) for name, value in tensors.items()}


def _flattened(state: State) -> dict[str, Tensor]:
    groups = {"variables": state.variables, "optimiser": state.optimiser}
    named = {f"{prefix}.{name}": value for prefix, group in groups.items() for name, value in group.items()}
    return {"step": state.step, "alive": state.alive, "stalled": state.stalled, **named}


@dataclass(frozen=True)
class Tracker:
    """Hands every term's values to a function ``log(name, value, step)``: the common shape of all trackers."""

    log: Callable[[str, float, int], None]
    every: int = 100

    def __call__(self, snapshot: Snapshot) -> None:
        for name, values in snapshot.terms.items():
            for trial, value in enumerate(values.tolist()):
                self.log(f"{name}/trial_{trial}", value, snapshot.step)
