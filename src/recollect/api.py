"""The library in one call: a network in, candidates out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from recollect.build import build_problems, first_layer_rows
from recollect.config import AttackConfig
from recollect.devices import resolve_devices
from recollect.given import Given
from recollect.loading.usable import trial_outputs
from recollect.problem import Problem, State, split
from recollect.sharing import gathered
from recollect.solve import Callback, Snapshot, solve


@dataclass(frozen=True)
class Reconstruction:
    """What an attack found. Rows of diverged trials are where they were when they diverged."""

    candidates: Float[Tensor, "T m ..."]
    duals: Float[Tensor, "T m"] | None
    labels: Int[Tensor, " m"]
    diverged: Bool[Tensor, " T"]
    stalled: Bool[Tensor, " T"]
    terms: dict[str, Float[Tensor, " T"]]

    @property
    def pool(self) -> Float[Tensor, "k ..."]:
        """Candidates of all trials together, as the papers judge them."""
        return self.candidates.flatten(0, 1)


def attack(
    net: nn.Module,
    sample_shape: tuple[int, ...],
    config: AttackConfig | None = None,
    seed: int = 0,
    device: str = "auto",
    callbacks: Sequence[Callback] = (),
    mean: Float[Tensor, "*sample"] | None = None,
) -> Reconstruction:
    """Search ``net`` for its training samples. Nothing but the network goes in.

    Some settings also want the ``mean`` that was taken from every sample; they say so where it is missing.

    Samples come out as the network sees them: if the mean was removed before training, add it to look at them.

    >>> net = nn.Sequential(nn.Flatten(), nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    >>> found = attack(net, (1, 2, 2), AttackConfig(candidates=6, steps=10), device="cpu")
    >>> found.candidates.shape
    torch.Size([1, 6, 1, 2, 2])

    Trials of ``config.search`` are drawn from its ranges, by the seed.
    """
    config = (AttackConfig() if config is None else config).drawn(seed)
    if config.method == "weights":
        return weight_rows(net, sample_shape)
    trial_outputs(net, sample_shape)
    parts = build_problems(net, sample_shape, config, seed, resolve_devices(device), given=Given(mean=mean))
    return as_reconstruction(parts, solve(parts, callbacks))


def weight_rows(net: nn.Module, sample_shape: tuple[int, ...]) -> Reconstruction:
    """First-layer weights taken for candidates, without any search."""
    rows = first_layer_rows(net, sample_shape)
    return Reconstruction(
        candidates=rows,
        duals=None,
        labels=torch.zeros(rows.shape[1], dtype=torch.int64),
        diverged=torch.zeros(1, dtype=torch.bool),
        stalled=torch.zeros(1, dtype=torch.bool),
        terms={},
    )


def as_reconstruction(parts: Sequence[Problem], state: State) -> Reconstruction:
    """The result of a search; where several processes shared it, each of them gets all of it."""
    first, own = parts[0], split(state, parts)
    terms = Snapshot(first.steps, parts, own).terms  # before there are samples, which are large
    decoded = [
        part.candidates.decode(one.variables).detach().to(state.step.device)
        for part, one in zip(parts, own, strict=True)
    ]
    found = decoded[0] if len(decoded) == 1 else torch.cat(decoded)
    m = first.candidates.candidates
    duals = state.variables.get("duals")
    return Reconstruction(
        candidates=gathered(found, m),
        duals=None if duals is None else gathered(duals, m),
        labels=gathered(first.labels.unsqueeze(0), m).squeeze(0),
        diverged=~state.alive,
        stalled=state.stalled,
        terms=terms,
    )
