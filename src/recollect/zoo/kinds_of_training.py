"""The two ways to train a network to practise on: until it memorises, or as most people do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Discriminator, Tag

from recollect.zoo.ordinary_training import OrdinaryTraining
from recollect.zoo.training import TrainingConfig


def _kind(training: object) -> str:
    """What a training calls itself; files written before there were kinds describe the first one."""
    if isinstance(training, Mapping):
        return str(training.get("kind", "memorise"))
    return getattr(training, "kind", "memorise")


Training = Annotated[
    Annotated[TrainingConfig, Tag("memorise")] | Annotated[OrdinaryTraining, Tag("ordinary")],
    Discriminator(
        _kind,
        custom_error_type="unknown_kind",
        custom_error_message="There is no such kind; choose 'memorise' or 'ordinary'",
    ),
]
