"""What is audited: the network, its samples, and how it saw them; what was not declared is inferred."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from recollect.audit.seen import WORDS, Seen, likeliest, seen_as
from recollect.config import Config, updated
from recollect.core import RecollectError
from recollect.data import TaskData, load
from recollect.datasets import heldout_data, training_data
from recollect.loading.description import describe
from recollect.networks import load_source
from recollect.outputs import network_outputs, require_outputs

ANY_TASK = "auto"
"""Of data whose task follows from the network's outputs."""
_ASSUMED_BOX = (-1.0, 1.0)
"""Without data: it holds images of [0, 1], with and without their mean, and those of [-1, 1]."""


@dataclass(frozen=True)
class Subject:
    """The network and, if they were given, its samples; ``seen`` is None without them."""

    net: nn.Module
    sample_shape: tuple[int, ...]
    data: TaskData | None
    heldout: TaskData | None
    seen: Seen | None
    seen_words: str
    declared_shape: tuple[int, ...] | None = None

    @property
    def box(self) -> tuple[float, float] | None:
        return _ASSUMED_BOX if self.seen is None or self.data is None else self.seen.box(self.data.images)

    def facts(self) -> list[str]:
        """Task, inputs and their values, in a sentence each that says where it is known from."""
        return describe(self.net, *self.labelled_inputs(), input_shape=self.declared_shape).sentences

    def labelled_inputs(self) -> tuple[Tensor, Tensor] | tuple[None, None]:
        """Training samples as the network saw them, with their labels."""
        if self.seen is None or self.data is None:
            return None, None
        return self.seen.inputs(self.data.images), self.data.y


def look_at(config: Config, declared: str | None) -> tuple[Config, Subject]:
    """The network with its samples, and the configuration with what they tell: shape of inputs, and task.

    ``declared`` is how the network saw its samples, one of `recollect.audit.seen.WORDS`; None where nobody said.
    """
    assert config.source is not None
    if config.data is None:
        net, sample_shape = load_source(config.source)
        words = "Inputs are assumed to lie in [-1, 1]."
        declared_shape = config.source.sample_shape if config.source.folder is None else sample_shape
        return config, Subject(net, sample_shape, None, None, None, words, declared_shape)
    declared_shape = config.source.sample_shape
    config, net, sample_shape = _fitted(config)
    data = training_data(config)
    heldout = heldout_data(config, data)
    if heldout is None:
        raise RecollectError(
            "an audit compares training samples with samples the network never saw, and none were given; name some "
            "with --holdout, or leave --data out for what an attacker without data would see."
        )
    require_outputs(network_outputs(net, data.x[:1]).shape[1], data)
    seen, words = _seen(net, data, declared)
    return config, Subject(net, sample_shape, data, heldout, seen, words, declared_shape)


def _fitted(config: Config) -> tuple[Config, nn.Module, tuple[int, ...]]:
    """What was not declared about the network follows from the data's shape, and the task from its outputs."""
    assert config.source is not None
    assert config.data is not None
    data, source = config.data, config.source
    toy = data.name in ("circle", "clouds")
    shape = tuple(training_data(config).x.shape[1:]) if toy else tuple(load(data.name, "train").images.shape[1:])
    if source.folder is None and source.sample_shape is None:
        source = source.model_copy(update={"sample_shape": shape})
    net, sample_shape = load_source(source)
    if shape != sample_shape:
        raise RecollectError(
            f"the network takes inputs of shape {list(sample_shape)}, the data have {list(shape)}; give the data this "
            "network was trained on."
        )
    outputs = network_outputs(net, torch.zeros(1, *shape)).shape[1]
    task = data.task if data.task != ANY_TASK else "binary" if outputs == 1 else "classes"
    chosen = data.model_dump() | {"task": task, "centred": True}
    return updated(config, {"source": source.model_dump(), "data": chosen}, "options"), net, sample_shape


def _seen(net: nn.Module, data: TaskData, declared: str | None) -> tuple[Seen, str]:
    if declared is not None:
        return seen_as(declared, data), f"The network saw samples {WORDS[declared]}."
    seen, measured = likeliest(net, data)
    shown = ", ".join(f"{name} {error:.1%} and {spread:.2g}" for name, (error, spread) in measured.items())
    return seen, (
        f"The network is taken to see samples {WORDS[seen.name]}, which was not declared but chosen by training error "
        f"and relative spread of margins ({shown})."
    )


def without_copies(heldout: TaskData, data: TaskData) -> tuple[TaskData, int]:
    """Held-out samples that are no copies of training samples, and how many were: a copy knows what a member knows."""
    known = {row.numpy().tobytes() for row in data.images}
    fresh = torch.tensor([row.numpy().tobytes() not in known for row in heldout.images])
    if bool(fresh.all()):
        return heldout, 0
    return heldout.rows(fresh), int((~fresh).sum())
