"""The check in one call: a network in, with or without its training data; findings out."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from recollect.check import words
from recollect.check.findings import Findings, Task
from recollect.check.homogeneity import homogeneity, probes
from recollect.check.margins import Margins, directions, margins, measure, require_labels
from recollect.check.network import Network
from recollect.check.residual import Residual, kkt_residual
from recollect.check.structure import structure
from recollect.core import RecollectError

MOST_SAMPLES = 5000
"""Samples in the residual; two matrices of this size are held in float64."""
REGRESSION_LOSSES = ("l2", "l2.5", "huber")
_CLOSE_TO_LABELS = 0.2


def check_network(
    net: nn.Module,
    sample_shape: tuple[int, ...],
    x: Float[Tensor, "n ..."] | None = None,
    y: Int[Tensor, " n"] | None = None,
    loss: str | None = None,
    free_sign: bool = False,
    device: torch.device | None = None,
    most_samples: int = MOST_SAMPLES,
) -> Findings:
    """Which assumptions of the KKT attack hold for ``net``; with the training samples ``x, y``, how well.

    ``x`` are the samples as the network saw them; ``y`` is +-1 for one output, 0 to C - 1 for several. ``loss`` is
    declared where it is known, and otherwise guessed. ``free_sign`` lets multipliers be negative, as regression
    losses do; those that are declared imply it. The network is not changed.

    >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1, bias=False))
    >>> found = check_network(net, (4,), torch.randn(6, 4), torch.tensor([1, -1] * 3))
    >>> found.task.kind, round(found.homogeneity.degree, 6), found.margins.samples
    ('binary', 2.0, 6)
    """
    network = Network.of(net, sample_shape, device)
    C = network.outputs(torch.zeros(1, *sample_shape)).shape[1]
    free_sign = free_sign or loss in REGRESSION_LOSSES
    if free_sign and C > 1:
        raise RecollectError(
            f"multipliers of free sign belong to regression on one output, this network has {C}; leave out --free-sign."
        )
    values, residual = None, None
    if x is not None or y is not None:
        x, y = _paired(x, y, network, C)
        outputs = network.outputs(x)
        values = margins(outputs, y)
        residual = _residual(network, x, directions(outputs, y), values, free_sign, most_samples)
    near_labels = C == 1 and values is not None and float((values - 1).abs().mean()) < _CLOSE_TO_LABELS
    return _findings(network, _task(C, loss, near_labels), x, values, residual, near_labels, free_sign)


def _findings(
    network: Network,
    task: Task,
    x: Tensor | None,
    values: Tensor | None,
    residual: Residual | None,
    near_labels: bool,
    free_sign: bool,
) -> Findings:
    made_of = structure(network)
    homogeneous = homogeneity(network, made_of.biases, probes(network.sample_shape, x))
    measured: Margins | None = None if values is None else measure(values)
    counts = [sum(network.params[name].numel() for name in names) for names in network.layers.values()]
    told = [words.about_task(task, near_labels, free_sign), words.about_homogeneity(homogeneous)]
    told += words.about_structure(made_of)
    if measured is not None and residual is not None:
        told += words.about_margins(measured, free_sign)
        told += words.about_residual(residual, counts[0], measured.samples)
    return Findings(
        task=task,
        sample_shape=network.sample_shape,
        parameters=sum(counts),
        layers=tuple(network.layers),
        structure=made_of,
        homogeneity=homogeneous,
        margins=measured,
        residual=residual,
        findings=tuple(told),
        closing=words.closing(told, measured is not None),
    )


def _task(outputs: int, loss: str | None, near_labels: bool) -> Task:
    kind = "binary" if outputs == 1 else "multiclass"
    if loss is not None:
        return Task(kind, outputs, loss, guessed=False)
    if kind == "multiclass":
        return Task(kind, outputs, "cross-entropy", guessed=True)
    likely = "a regression loss" if near_labels else "the logistic loss or a regression loss"
    return Task(kind, outputs, likely, guessed=True)


def _residual(
    network: Network, x: Tensor, u: Tensor, values: Float[Tensor, " n"], free_sign: bool, most_samples: int
) -> Residual:
    """Of the samples nearest to the margin, where there are too many: in theory the others have no multiplier."""
    nearest = values.argsort()[:most_samples].sort().values
    return kkt_residual(network, x[nearest], u[nearest], free_sign)


def _paired(x: Tensor | None, y: Tensor | None, network: Network, outputs: int) -> tuple[Tensor, Tensor]:
    if x is None or y is None:
        raise RecollectError("samples and labels belong together, one of them is missing; give both or neither.")
    if tuple(x.shape[1:]) != network.sample_shape or not len(x):
        raise RecollectError(
            f"the data are {len(x)} samples of shape {list(x.shape[1:])}, the network takes shape "
            f"{list(network.sample_shape)}; give the data this network was trained on."
        )
    if not bool(x.isfinite().all()):
        raise RecollectError("the data hold values that are not finite; give samples of plain numbers.")
    labels = require_labels(y, len(x), outputs)
    return x.to(network.device, torch.float64), labels.to(network.device)
