"""A series before it runs: what all of its members will cost together."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from recollect.config import Config, to_toml
from recollect.dry_run import describe
from recollect.estimate import Estimate
from recollect.readable import readable_duration, readable_size
from recollect.series.members import members


@dataclass(frozen=True)
class SeriesDryRun:
    config: Config
    device: str
    members: dict[str, Estimate]

    @property
    def total(self) -> Estimate:
        """Members run one after the other: their times add up, the largest decides about memory."""
        costs = self.members.values()
        return Estimate(
            train_seconds=sum(cost.train_seconds for cost in costs),
            attack_seconds=sum(cost.attack_seconds for cost in costs),
            attack_bytes=max(cost.attack_bytes for cost in costs),
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "config": self.config.model_dump(mode="json"),
            "device": self.device,
            **asdict(self.total),
            "members": {slug: asdict(cost) for slug, cost in self.members.items()},
        }

    def as_text(self) -> str:
        total = self.total
        return (
            f"{to_toml(self.config)}\n"
            f"# device   {self.device}\n"
            f"# members  {len(self.members)}\n"
            f"# memory   about {readable_size(total.attack_bytes)} for the largest attack\n"
            f"# training about {readable_duration(total.train_seconds)} in all\n"
            f"# attack   about {readable_duration(total.attack_seconds)} in all"
        )


def describe_series(config: Config) -> SeriesDryRun:
    """Every member is built once, so that what would fail later fails here."""
    described = {member.slug: describe(member.config) for member in members(config)}
    device = next(iter(described.values())).device
    return SeriesDryRun(config, device, {slug: known.estimate for slug, known in described.items()})
