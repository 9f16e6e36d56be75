"""What --dry-run prints: the resolved configuration, and what the run will cost on this machine."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from recollect.build import build_problem
from recollect.config import Config, to_toml, with_drawn_trials
from recollect.datasets import training_data
from recollect.devices import resolve_device
from recollect.estimate import Estimate, estimate
from recollect.networks import load_source
from recollect.zoo import build_network


@dataclass(frozen=True)
class DryRun:
    config: Config
    device: str
    estimate: Estimate

    def as_json(self) -> dict[str, Any]:
        return {"config": self.config.model_dump(mode="json"), "device": self.device, **asdict(self.estimate)}

    def as_text(self) -> str:
        cost = self.estimate
        return (
            f"{to_toml(self.config)}\n"
            f"# device   {self.device}\n"
            f"# memory   about {_size(cost.attack_bytes)} for the attack\n"
            f"# training about {_duration(cost.train_seconds)}\n"
            f"# attack   about {_duration(cost.attack_seconds)}"
        )


def describe(config: Config) -> DryRun:
    """Builds everything that a run would build, so that what would fail there fails here."""
    config = with_drawn_trials(config)
    device = resolve_device(config.device)
    if config.source is not None:
        net, sample_shape = load_source(config.source)
        samples = None
    else:
        data = training_data(config)
        sample_shape, samples = tuple(data.x.shape[1:]), len(data.x)
        net = build_network(config.model, sample_shape, config.seed)
    for attack in (config.attack, *config.baselines.values()):
        if attack.method != "weights":
            build_problem(net, sample_shape, attack, config.seed, device)
    return DryRun(config, str(device), estimate(net, sample_shape, config, samples, device))


def _size(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
