"""What the processes of a team do that do not lead: their part of each search, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recollect.api import as_reconstruction
from recollect.build import build_problems
from recollect.config import AttackConfig, Config
from recollect.datasets import mean_for
from recollect.given import Given
from recollect.networks import load_given, load_network
from recollect.solve import Snapshot, solve
from recollect.team import next_search, own_device


def search_task(config: Config, attack: AttackConfig, folder: Path, every: int) -> dict[str, Any]:
    """Everything a follower must know of a search."""
    return {
        "config": config.model_dump(mode="json"),
        "attack": attack.model_dump(mode="json"),
        "folder": str(folder.resolve()),
        "every": every,
    }


def follow() -> None:
    while (task := next_search()) is not None:
        config, attack = Config.model_validate(task["config"]), AttackConfig.model_validate(task["attack"])
        if config.source is not None:
            net, sample_shape = load_given(config)
        else:
            net, facts = load_network(Path(task["folder"]))
            sample_shape = facts.sample_shape
        given = Given(mean=mean_for(config, attack))
        parts = build_problems(net, sample_shape, attack, config.seed, [own_device()], given=given)
        as_reconstruction(parts, solve(parts, [_Losses(task["every"])]))


@dataclass
class _Losses:
    """Where the leader looks at the losses, everybody computes a part of them."""

    every: int

    def __call__(self, snapshot: Snapshot) -> None:
        _ = snapshot.terms
