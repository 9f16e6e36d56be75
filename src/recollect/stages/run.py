"""A run while it is worked on: its folder, its configuration, and how to speak of it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from recollect.config import Config
from recollect.devices import resolve_devices
from recollect.networks import load_given, load_network
from recollect.progress import Narrator
from recollect.runs import RunFolder
from recollect.sharing import shared
from recollect.team import own_device


@dataclass(frozen=True)
class Run:
    folder: RunFolder
    config: Config
    narrator: Narrator
    command: str

    @property
    def devices(self) -> list[torch.device]:
        """Where trials run; training and matching take the first."""
        return [own_device()] if shared() else resolve_devices(self.config.device)

    @property
    def device(self) -> torch.device:
        return self.devices[0]

    def network(self) -> tuple[nn.Module, tuple[int, ...]]:
        """The network under attack and the shape of one of its inputs."""
        if self.config.source is not None:
            return load_given(self.config)
        net, facts = load_network(self.folder.path)
        return net, facts.sample_shape
