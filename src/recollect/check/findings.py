"""What a check found: the measurements, and one sentence for each."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from recollect.check.homogeneity import Homogeneity
from recollect.check.margins import Margins
from recollect.check.residual import Fit, Residual
from recollect.check.structure import Structure

Level = Literal["ok", "caution", "obstacle"]
LEVELS: dict[Level, str] = {
    "ok": "the assumption holds, so the attack may work",
    "caution": "it holds in part, which has not stopped the attack elsewhere",
    "obstacle": "it does not hold, so expect the attack to find less",
}


@dataclass(frozen=True)
class Task:
    """What the network is for, as far as its output layer and the run's configuration tell."""

    kind: Literal["binary", "multiclass"]
    outputs: int
    loss: str
    guessed: bool
    """False where the loss was declared."""


@dataclass(frozen=True)
class Finding:
    level: Level
    topic: str
    sentence: str


@dataclass(frozen=True)
class Findings:
    """Everything a check measured, in numbers and in words. Without data, margins and residual are None."""

    task: Task
    sample_shape: tuple[int, ...]
    parameters: int
    layers: tuple[str, ...]
    structure: Structure
    homogeneity: Homogeneity
    margins: Margins | None
    residual: Residual | None
    findings: tuple[Finding, ...]
    closing: str

    def as_json(self) -> dict[str, Any]:
        """Plain numbers, lists and words; the multipliers themselves are left out."""
        plain = {name: getattr(self, name) for name in ("parameters", "closing")}
        plain |= {name: list(getattr(self, name)) for name in ("sample_shape", "layers")}
        plain |= {name: asdict(getattr(self, name)) for name in ("task", "structure", "homogeneity")}
        return plain | {
            "margins": None if self.margins is None else asdict(self.margins),
            "residual": None if self.residual is None else _plain_residual(self.residual),
            "findings": [asdict(finding) for finding in self.findings],
        }


def _plain_residual(residual: Residual) -> dict[str, Any]:
    fits = {"all_layers": residual.all_layers, "first_layer": residual.first_layer}
    plain = {name: _plain_fit(fit) for name, fit in fits.items()}
    return {"samples": residual.samples, "free_sign": residual.free_sign, **plain}


def _plain_fit(fit: Fit) -> dict[str, Any]:
    return {"relative": fit.relative, "per_layer": fit.per_layer, "positive": fit.positive}
