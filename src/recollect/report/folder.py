"""A run folder as data: everything the report knows, read once. Only status and configuration must be there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor

from recollect.core import RecollectError
from recollect.report.curves import Curve, Trace, read_curve, read_trace
from recollect.report.matches import Matches, read_matches
from recollect.report.parsing import check_format, numbers, read_object, read_tensors, read_text, read_toml
from recollect.report.trial_traces import read_trial_traces


@dataclass(frozen=True)
class Run:
    """A run folder. None, or no entry, stands for a file that is not there."""

    path: Path
    name: str
    stages: dict[str, str]
    config_text: str
    config: dict[str, Any]
    summary: dict[str, Any]
    model: dict[str, Any]
    curve: Curve | None
    trace: Trace | None
    matches: Matches | None
    reconstruction: Float[Tensor, "n ..."] | None
    reference: Float[Tensor, "n ..."] | None
    distilled: dict[str, Tensor]
    baselines: tuple[Run, ...]

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """Shape of one sample, from the first file that tells; empty when none does."""
        if self.reference is not None:
            return tuple(self.reference.shape[1:])
        if "candidates" in self.distilled:
            return tuple(self.distilled["candidates"].shape[1:])
        shape = self.model.get("sample_shape")
        return tuple(int(size) for size in numbers(shape) if not math.isnan(size))

    @property
    def of_points(self) -> bool:
        return self.sample_shape == (2,)

    @property
    def of_images(self) -> bool:
        return len(self.sample_shape) == 3 and self.sample_shape[0] in (1, 3)

    def candidates(self) -> dict[str, Tensor]:
        """The attack's candidates with their multipliers and labels, read when asked for."""
        names = ("candidates", "duals", "labels", "diverged", "start")
        path = self.path / "candidates.safetensors"
        stored = read_tensors(path, names) or {}
        _check_candidates(stored, path)
        return stored


def read_run(path: Path) -> Run:
    """Read a run folder and the baselines inside it."""
    return _read(path, _baselines(path / "baselines"))


def _read(path: Path, baselines: tuple[Run, ...]) -> Run:
    status, config_text = read_object(path / "status.json"), read_text(path / "config.toml")
    if status is None or config_text is None:
        missing = "status.json" if status is None else "config.toml"
        raise RecollectError(f"{path} is not a run folder: it has no {missing}; give a folder that a run wrote.")
    check_format(status, path / "status.json")
    model = read_object(path / "model" / "model.json")
    if model is not None:
        check_format(model, path / "model" / "model.json")
    read_tensors(path / "candidates.safetensors", ())  # a truncated file is reported whether drawn or not
    matches = read_matches(path / "matches.json")
    pairs = read_tensors(path / "pairs.safetensors", ("reconstruction", "reference")) or {}
    _check_pairs(pairs, matches, path / "pairs.safetensors")
    stages = status.get("stages")
    return Run(
        path=path,
        name=str(status.get("name") or path.resolve().name),
        stages={str(k): str(v) for k, v in stages.items()} if isinstance(stages, dict) else {},
        config_text=config_text,
        config=read_toml(config_text, path / "config.toml"),
        summary=read_object(path / "summary.json") or {},
        model=model or {},
        curve=read_curve(path / "model" / "curve.jsonl"),
        trace=read_trace(path / "trace.jsonl") or read_trial_traces(path / "trials"),
        matches=matches,
        reconstruction=pairs.get("reconstruction"),
        reference=pairs.get("reference"),
        distilled=read_tensors(path / "distilled.safetensors", ("candidates", "duals")) or {},
        baselines=baselines,
    )


def _baselines(folder: Path) -> tuple[Run, ...]:
    if not folder.is_dir():
        return ()
    return tuple(_read(path, ()) for path in sorted(folder.iterdir()) if path.is_dir() and path.name[0] != ".")


def _check_candidates(stored: dict[str, Tensor], path: Path) -> None:
    if "candidates" not in stored:
        return
    shape = tuple(stored["candidates"].shape)
    expected = {"duals": shape[:2], "labels": shape[1:2], "diverged": shape[:1], "start": shape}
    wrong = [name for name, size in expected.items() if name in stored and tuple(stored[name].shape) != size]
    if len(shape) < 3 or wrong:
        raise RecollectError(
            f"{path} holds candidates {list(shape)} with {', '.join(wrong) or 'nothing'} of another shape; "
            "candidates are [T, m, *sample], so run the attack again."
        )


def _check_pairs(pairs: dict[str, Tensor], matches: Matches | None, path: Path) -> None:
    shapes = {name: list(values.shape) for name, values in pairs.items()}
    rows = {shape[0] if shape else 0 for shape in shapes.values()}
    expected = rows if matches is None else {len(matches.samples)}
    same = len({tuple(shape) for shape in shapes.values()}) == 1 and len(shapes) == 2
    if shapes and (not same or rows != expected):
        raise RecollectError(
            f"{path} holds {shapes}, but needs reconstruction and reference alike with one row for each of "
            f"{len(matches.samples) if matches else 'the'} samples in matches.json; run the match stage again."
        )
