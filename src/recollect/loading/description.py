"""What a network is for, in words: task, classes, shape and range of its inputs, each with where it is known from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from recollect.core import RecollectError
from recollect.loading.exported import ExportedNetwork
from recollect.loading.shape import shape_from_first_layer
from recollect.loading.usable import require_weights, trial_outputs

T = TypeVar("T")
Origin = Literal["declared", "from the data", "from the first layer", "from the program", "from the outputs", "unknown"]
TASKS = ("binary", "multiclass", "regression")


@dataclass(frozen=True)
class Fact(Generic[T]):
    value: T
    origin: Origin


@dataclass(frozen=True)
class Description:
    """Everything inferred about a network; whatever was declared stands as it was declared."""

    task: Fact[str]
    """binary, multiclass or regression."""
    classes: Fact[int | None]
    """None for regression."""
    input_shape: Fact[tuple[int, ...]]
    value_range: Fact[tuple[float, float] | None]
    """Smallest and largest input value; None where nothing tells."""
    outputs: int
    parameters: int

    @property
    def sentences(self) -> list[str]:
        """One line per fact, for people."""
        low_high = self.value_range.value
        told = "unknown" if low_high is None else f"{low_high[0]:.4g} to {low_high[1]:.4g}"
        shape = "x".join(map(str, self.input_shape.value))
        kind = self.task.value if self.classes.value is None else f"{self.task.value}, {self.classes.value} classes"
        return [
            f"Task: {kind} ({self.task.origin}).",
            f"Inputs: {shape} ({self.input_shape.origin}).",
            f"Values of inputs: {told}" + (f" ({self.value_range.origin})." if low_high else "."),
            f"Network: {self.parameters:,} parameters, {self.outputs} output{'s' * (self.outputs > 1)}.",
        ]


def describe(
    net: nn.Module,
    samples: Float[Tensor, "n ..."] | None = None,
    labels: Tensor | None = None,
    *,
    task: str | None = None,
    classes: int | None = None,
    input_shape: tuple[int, ...] | None = None,
    value_range: tuple[float, float] | None = None,
) -> Description:
    """Infer what was not declared, and check by a trial that network, shape and labels fit together.

    ``samples`` and ``labels`` are data as the network sees them, if there are any.

    >>> found = describe(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)))
    >>> found.task, found.input_shape.value
    (Fact(value='multiclass', origin='from the outputs'), (4,))
    """
    require_weights(net)
    labels = _paired(samples, labels)
    shape = _input_shape(net, samples, input_shape)
    outputs = trial_outputs(net, shape.value)
    known = _task(outputs, labels, task)
    return Description(
        task=known,
        classes=_classes(outputs, labels, known, classes),
        input_shape=shape,
        value_range=_value_range(samples, value_range),
        outputs=outputs,
        parameters=sum(parameter.numel() for parameter in net.parameters()),
    )


def _paired(samples: Tensor | None, labels: Tensor | None) -> Tensor | None:
    """The labels as numbers, after a look at how many there are."""
    if samples is not None and not samples.numel():
        raise RecollectError(
            f"the samples are empty (their shape is {list(samples.shape)}); give one at least, or none."
        )
    if labels is None:
        return None
    if not labels.numel():
        raise RecollectError("there are no labels; give one for each sample, or leave them out.")
    if samples is not None and samples.shape[:1] != labels.shape[:1]:
        raise RecollectError(
            f"the samples have the shape {list(samples.shape)} and the labels {list(labels.shape)}; give one label for "
            "each sample."
        )
    return labels.long() if labels.dtype == torch.bool else labels


def _input_shape(net: nn.Module, samples: Tensor | None, declared: tuple[int, ...] | None) -> Fact[tuple[int, ...]]:
    of_data = None if samples is None else tuple(samples.shape[1:])
    if declared is not None:
        if of_data is not None and of_data != tuple(declared):
            raise RecollectError(
                f"inputs of shape {list(declared)} were declared and the data have {list(of_data)}; "
                "leave out the declaration, or give the data this network was trained on."
            )
        return Fact(tuple(declared), "declared")
    if of_data is not None:
        return Fact(of_data, "from the data")
    if isinstance(net, ExportedNetwork):
        return Fact(net.exported_graph.sample_shape, "from the program")
    return Fact(shape_from_first_layer(net), "from the first layer")


def _task(outputs: int, labels: Tensor | None, declared: str | None) -> Fact[str]:
    if declared is not None:
        if declared not in TASKS:
            raise RecollectError(f"there is no task '{declared}'; choose from {', '.join(TASKS)}.")
        if (declared == "multiclass") != (outputs > 1):
            raise RecollectError(
                f"the network has {outputs} output{'s' * (outputs > 1)}, and the task {declared} needs "
                f"{'several' if declared == 'multiclass' else 'one'}; leave the task out to let the network decide."
            )
        return Fact(declared, "declared")
    if outputs > 1:
        return Fact("multiclass", "from the outputs")
    if labels is not None:
        two = len(labels.unique()) <= 2 and bool((labels == labels.round()).all())
        return Fact("binary" if two else "regression", "from the data")
    return Fact("binary", "from the outputs")


def _classes(outputs: int, labels: Tensor | None, task: Fact[str], declared: int | None) -> Fact[int | None]:
    count = {"binary": 2, "multiclass": outputs, "regression": None}[task.value]
    if declared is not None and declared != count:
        raise RecollectError(
            f"{declared} classes were declared and the network has outputs for {count or 'none'}; leave out the "
            "declaration."
        )
    if task.value == "multiclass" and labels is not None:
        unknown = labels[(labels < 0) | (labels >= outputs)]
        if unknown.numel():
            raise RecollectError(
                f"the data have a label {unknown[0].item():g}, the network has {outputs} outputs and labels count from "
                "0; give the data this network was trained on."
            )
    return Fact(count, "declared" if declared is not None else task.origin)


def _value_range(samples: Tensor | None, declared: tuple[float, float] | None) -> Fact[tuple[float, float] | None]:
    if declared is not None:
        if not declared[0] < declared[1]:
            raise RecollectError(f"{list(declared)} is no range of values; give two numbers, smaller first.")
        return Fact(declared, "declared")
    if samples is None:
        return Fact(None, "unknown")
    low, high = samples.aminmax()
    return Fact((low.item(), high.item()), "from the data")
