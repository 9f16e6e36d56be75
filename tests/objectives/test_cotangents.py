"""Tasks beyond +-1 labels: classes, regression, convolutions, on both targets, against double backward in float64."""

from __future__ import annotations

import pytest
import torch
from tests.cases import SAMPLE_SHAPE, Trials, chain, trials
from tests.references import kkt_loss, published_output
from torch import Tensor, nn

from recollect.objectives import KKT
from recollect.objectives.cotangents import TASKS, balanced_labels, multiclass, regression
from recollect.priors import Box
from recollect.targets import MLPTarget, ModuleTarget


def classifier(outputs: int) -> nn.Sequential:
    return chain((12, 9, 8, outputs), (True, False, True), seed=4)


def convolution(outputs: int) -> nn.Sequential:
    torch.manual_seed(5)
    parts = [nn.Conv2d(3, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(4, 6, bias=False), nn.ReLU()]
    return nn.Sequential(*parts, nn.Linear(6, outputs, bias=False)).to(torch.float64)


def relative(a: Tensor, b: Tensor) -> float:
    return float(((a - b).norm() / b.norm()).detach())


def losses(target, given: Trials, labels: Tensor, task: str) -> Tensor:
    chosen = TASKS[task]
    objective = KKT(
        given.x.shape[1], given.smoothing, given.dual_min, direction=chosen.margin, free_sign=chosen.free_sign
    )
    terms = objective(target, given.x, labels, {"duals": given.duals})
    return torch.stack(list(terms.values())).sum(dim=0) + Box()(given.x)


@pytest.mark.parametrize("outputs", range(2, 11))
@pytest.mark.parametrize("make", [classifier, convolution])
@pytest.mark.parametrize("by_hand", [True, False])
def test_classes_agree_with_double_backward(by_hand: bool, make, outputs: int) -> None:
    net = make(outputs)
    target = MLPTarget.from_module(net, SAMPLE_SHAPE) if by_hand else ModuleTarget(net, SAMPLE_SHAPE)
    given, labels = trials(), balanced_labels(6, outputs)
    settings = zip(given.x, given.duals, given.smoothing.tolist(), given.dual_min.tolist(), strict=True)
    expected = torch.stack([kkt_loss(net, x, duals, labels, *rest, (1.0,) * 3) for x, duals, *rest in settings])
    found = losses(target, given, labels, "multiclass")
    assert relative(found, expected) < 1e-9
    wanted = torch.autograd.grad(expected.sum(), [given.x, given.duals])
    for got, want in zip(torch.autograd.grad(found.sum(), [given.x, given.duals]), wanted, strict=True):
        assert relative(got, want) < 1e-9


@pytest.mark.parametrize("task", ["multiclass", "regression"])
@pytest.mark.parametrize("by_hand", [True, False])
def test_the_gradient_of_the_loop_is_that_of_the_loss(by_hand: bool, task: str) -> None:
    outputs = 4 if task == "multiclass" else 1
    net, given, labels = classifier(outputs), trials(), balanced_labels(6, outputs)
    target = MLPTarget.from_module(net, SAMPLE_SHAPE) if by_hand else ModuleTarget(net, SAMPLE_SHAPE)
    chosen = TASKS[task]
    objective = KKT(6, given.smoothing, given.dual_min, direction=chosen.margin, free_sign=chosen.free_sign)
    total = torch.stack(list(objective(target, given.x, labels, {"duals": given.duals}).values())).sum()
    expected = torch.autograd.grad(total, [given.x, given.duals])
    found, own = objective.gradient(target, given.x.detach(), labels, {"duals": given.duals.detach()})
    assert relative(found, expected[0]) < 1e-10
    assert relative(own["duals"], expected[1]) < 1e-10


def test_the_margin_direction_is_the_derivative_of_the_margin() -> None:
    """Finite differences of ``Phi_y - max_{j != y} Phi_j`` with respect to the outputs."""
    torch.manual_seed(0)
    outputs, labels, step = torch.randn(2, 7, 5, dtype=torch.float64), torch.arange(7) % 5, 1e-6

    def margins(values: Tensor) -> Tensor:
        own = torch.zeros(7, 5, dtype=torch.bool).scatter(1, labels[:, None], True)
        return values[:, own] - values.masked_fill(own, -torch.inf).amax(dim=-1)

    direction = multiclass(labels, outputs)
    for c in range(5):
        moved = outputs.clone()
        moved[..., c] += step
        assert torch.allclose((margins(moved) - margins(outputs)) / step, direction[..., c], atol=1e-6)


def test_a_class_that_is_never_predicted_still_has_candidates_and_a_direction() -> None:
    net = classifier(3)
    with torch.no_grad():
        net[-1].bias.copy_(torch.tensor([0.0, 0.0, -1e3]))
    given, labels = trials(), balanced_labels(6, 3)
    outputs, _ = MLPTarget.from_module(net, SAMPLE_SHAPE).linearise(given.x, given.smoothing)
    direction = multiclass(labels, outputs)
    assert (direction[:, labels == 2, 2] == 1).all()
    assert (direction.sum(dim=-1) == 0).all()
    assert losses(MLPTarget.from_module(net, SAMPLE_SHAPE), given, labels, "multiclass").isfinite().all()


def test_two_classes_and_their_difference_have_the_same_residual() -> None:
    """``Phi_0 - Phi_1`` as one output: hidden layers agree; of the last, ``||W0 - G||^2 + ||W1 + G||^2``
    is ``||W0 - W1 - 2 G||^2 / 2`` and a constant.
    """
    two = chain((12, 9, 8, 2), (True, False, False), seed=4)
    one = chain((12, 9, 8, 1), (True, False, False), seed=4)
    with torch.no_grad():
        for index in (1, 3):
            one[index].load_state_dict(two[index].state_dict())
        one[5].weight.copy_(two[5].weight[:1] - two[5].weight[1:])
    given, hidden = trials(), (1.0, 1.0, 0.0)
    classes, signs = balanced_labels(6, 2), balanced_labels(6, 1)
    assert torch.equal(1 - 2 * classes, signs)
    tasks = ((two, classes, "multiclass"), (one, signs, "binary"))
    residuals = [
        KKT(6, given.smoothing, given.dual_min, hidden, direction=TASKS[task].margin)(
            MLPTarget.from_module(net, SAMPLE_SHAPE), given.x, labels, {"duals": given.duals}
        )["stationarity"]
        for net, labels, task in tasks
    ]
    assert relative(*residuals) < 1e-12
    grads = [torch.autograd.grad(value.sum(), given.x, retain_graph=True)[0] for value in residuals]
    assert relative(*grads) < 1e-12


def test_regression_multipliers_have_any_sign_and_no_floor() -> None:
    net, given = classifier(1), trials()
    target = MLPTarget.from_module(net, SAMPLE_SHAPE)
    objective = KKT(6, given.smoothing, given.dual_min, direction=regression, free_sign=True)
    terms = objective(target, given.x, torch.zeros(6, dtype=torch.int64), {"duals": given.duals})
    assert terms.keys() == {"stationarity"}
    x, duals, alpha = given.x[1].detach(), given.duals[1], float(given.smoothing[1])
    combined = torch.autograd.grad((duals * published_output(net, x, alpha)[:, 0]).sum() / 6, list(net.parameters()))
    expected = sum(((p - g) ** 2).sum().item() for p, g in zip(net.parameters(), combined, strict=True))
    assert terms["stationarity"][1].item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("m", "outputs"), [(6, 1), (7, 1), (10, 3), (1000, 10), (3, 10)])
def test_labels_are_spread_evenly(m: int, outputs: int) -> None:
    labels = balanced_labels(m, outputs)
    counts = [int((labels == c).sum()) for c in ((1, -1) if outputs == 1 else range(outputs))]
    assert sum(counts) == m
    assert max(counts) - min(counts) <= 1
