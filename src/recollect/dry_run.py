"""A run before it runs: everything is built once, and --dry-run prints what the run will cost on this machine."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from recollect.build import build_problems, first_layer_rows
from recollect.config import AttackConfig, Config, to_toml, with_drawn_trials
from recollect.core import RecollectError
from recollect.datasets import heldout_data, mean_for, training_data
from recollect.devices import resolve_devices
from recollect.estimate import Estimate, estimate
from recollect.given import Given
from recollect.networks import load_given
from recollect.outputs import network_outputs, require_outputs
from recollect.problem import Problem
from recollect.readable import readable_duration, readable_size
from recollect.stages.judging import rehearse_match
from recollect.zoo import build_network, fitted


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
            f"# memory   about {readable_size(cost.attack_bytes)} for the attack\n"
            f"# training about {readable_duration(cost.train_seconds)}\n"
            f"# attack   about {readable_duration(cost.attack_seconds)}"
        )


@dataclass(frozen=True)
class Rehearsal:
    """What a run starts from; ``samples`` is None without training data, ``problem`` that of the first device."""

    net: nn.Module
    sample_shape: tuple[int, ...]
    samples: int | None
    problem: Problem | None = None


def rehearse(config: Config) -> Rehearsal:
    """Build everything that a run would build, so that what would fail there fails before anything is written."""
    devices = resolve_devices(config.device)
    ready = _own_network(config) if config.source is None else _given_network(config)

    def build(attack: AttackConfig) -> Problem | None:
        if attack.method == "weights":
            first_layer_rows(ready.net, ready.sample_shape)
            return None
        given = Given(mean=mean_for(config, attack))
        return build_problems(ready.net, ready.sample_shape, attack, config.seed, devices, given=given)[0]

    for baseline in config.baselines.values():
        if baseline.method != "weights":  # where weights cannot be looked at, that baseline is skipped
            build(baseline)
    return replace(ready, problem=build(_at_once(config)))


def _at_once(config: Config) -> AttackConfig:
    """The attack, or a batch of the sweep: what is in memory together."""
    attack = config.attack
    if config.sweep is None or attack.search is None:
        return attack
    search = attack.search.model_copy(update={"trials": min(config.sweep.batch, attack.search.trials)})
    return attack.model_copy(update={"search": search}).drawn(config.seed)


def _own_network(config: Config) -> Rehearsal:
    data = training_data(config)
    heldout = heldout_data(config, data)
    sample_shape = tuple(data.x.shape[1:])
    architecture = fitted(config.model, config.training.loss, data.classes)
    net = build_network(architecture, sample_shape, config.seed)
    rehearse_match(config, net, data, heldout)
    return Rehearsal(net, sample_shape, len(data.x))


def _given_network(config: Config) -> Rehearsal:
    net, sample_shape = load_given(config)
    if config.data is None:
        return Rehearsal(net, sample_shape, None)
    data = training_data(config)
    heldout = heldout_data(config, data)
    if tuple(data.x.shape[1:]) != sample_shape:
        raise RecollectError(
            f"the network takes inputs of shape {list(sample_shape)}, the data have {list(data.x.shape[1:])}; "
            "give the data this network was trained on."
        )
    require_outputs(_evaluated(net, data.x[:1]).shape[1], data)
    rehearse_match(config, net, data, heldout)
    return Rehearsal(net, sample_shape, len(data.x))


def _evaluated(net: nn.Module, x: Float[Tensor, "n ..."]) -> Float[Tensor, "n C"]:
    # A network of the user's own may raise anything.
    try:
        return network_outputs(net, x)
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise RecollectError(
            f"the network cannot be evaluated on inputs of shape {list(x.shape[1:])} ({reason}); check --shape."
        ) from error


def describe(config: Config) -> DryRun:
    """The run with every setting written out, and its cost."""
    config = with_drawn_trials(config)
    ready, device, attack = rehearse(config), resolve_devices(config.device)[0], _at_once(config)
    once = config.model_copy(update={"attack": attack})
    cost = estimate(ready.net, ready.sample_shape, ready.problem, once, ready.samples, device)
    if config.attack.search is not None:  # a sweep: its other trials have not been drawn
        batches = config.attack.search.trials / len(attack.trials)
        cost = replace(cost, attack_seconds=batches * cost.attack_seconds)
    return DryRun(config, str(device), cost)
