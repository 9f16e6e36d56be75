"""Networks as people have them: handled, or refused with a sentence that says why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from recollect.core import RecollectError
from recollect.loading.description import describe
from recollect.loading.usable import in_evaluation_mode, require_weights, trial_outputs
from recollect.loading.weights import load_weights
from recollect.targets import ModuleTarget, as_target


class Own(nn.Module):
    """A Linear layer, and whatever a function makes of it."""

    def __init__(self, then: Callable[[Tensor], object], before: Callable[[Tensor], Tensor] = lambda x: x) -> None:
        super().__init__()
        self.layer, self.then, self.before = nn.Linear(4, 2), then, before

    def forward(self, x: Tensor) -> object:
        return self.then(self.layer(self.before(x)))


@dataclass
class Answer:
    logits: Tensor


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.last = nn.Embedding(10, 3), nn.Linear(3, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.table(x).mean(1))


def _integers() -> nn.Module:
    net = nn.Linear(4, 1)
    net.register_parameter("count", nn.Parameter(torch.ones(2, dtype=torch.int64), requires_grad=False))
    return net


REFUSED: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "nothing": (nn.ReLU, "no parameters, so there is nothing to reconstruct from"),
    "lazy": (lambda: nn.LazyLinear(3), "'weight' has no shape before the network sees its first input; call"),
    "meta": (lambda: nn.Linear(4, 2, device="meta"), "'weight' has no values"),
    "complex": (lambda: nn.Linear(4, 2, dtype=torch.complex64), "'weight' holds complex numbers"),
    "integers": (_integers, "'count' holds integers"),
    "batch statistics": (
        lambda: nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2, track_running_stats=False)),
        "depends on the others in the batch",
    ),
    "mean over the batch": (lambda: Own(lambda y: y - y.mean(0)), "depends on the others in the batch"),
    "left dropout": (lambda: Own(lambda y: F.dropout(y, 0.5, training=True)), "other outputs for the same input"),
    "noise": (lambda: Own(lambda y: y + torch.randn_like(y)), "other outputs for the same input"),
    "tuple": (lambda: Own(lambda y: (y, y)), "returns a tuple of 2 instead of one tensor; wrap it"),
    "dict": (lambda: Own(lambda y: {"logits": y, "loss": None}), "returns a dict with 'logits', 'loss'"),
    "dataclass": (lambda: Own(Answer), "returns an object of type Answer"),
    "labels": (lambda: Own(lambda y: y.argmax(1)), "of type int64 for 2 inputs"),
    "a map": (lambda: Own(lambda y: y.unsqueeze(-1)), "returns [2, 2, 1] of type float32 for 2 inputs"),
    "one for all": (lambda: Own(lambda y: y.mean(0, keepdim=True)), "returns [1, 2]"),
    "detached": (lambda: Own(lambda y: y, lambda x: x.detach()), "cannot be differentiated with respect to the inputs"),
    "rounded": (lambda: Own(lambda y: y, lambda x: x.long().float()), "cannot be differentiated"),
    "no_grad": (lambda: Own(lambda y: y.detach()), "cannot be differentiated"),
    "embedding": (Words, "takes whole numbers (an embedding at 'table'), and the attacks search for real ones"),
    "NaN": (lambda: Own(lambda y: y * float("nan")), "gives NaN or infinity"),
    "wrong shape": (
        lambda: nn.Linear(5, 1),
        "cannot be evaluated and differentiated on inputs of shape [4] (RuntimeError",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature:UserWarning", "ignore:Complex modules:UserWarning")
def test_what_cannot_be_attacked_is_refused_with_a_reason(name: str) -> None:
    make, said = REFUSED[name]
    torch.manual_seed(0)
    with pytest.raises(RecollectError) as caught:
        describe(make(), input_shape=(4,))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("shape", [(99999999999, 99999999), (10**30,), (-1, 4)])
def test_a_shape_that_no_input_can_have_is_one_sentence(shape: tuple[int, ...]) -> None:
    with pytest.raises(RecollectError, match="no input can be made of shape"):
        describe(nn.Linear(4, 2), input_shape=shape)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_not_finite_are_named(value: float) -> None:
    net = nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2))
    with torch.no_grad():
        net[0].bias[1] = value
    with pytest.raises(RecollectError, match=r"the weights in '0\.bias' are not finite"):
        require_weights(net)
    net = nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2))
    assert isinstance(net[1].running_mean, Tensor)
    net[1].running_mean[0] = float("nan")
    with pytest.raises(RecollectError, match=r"the buffer '1\.running_mean' are not finite"):
        require_weights(net)


def test_an_infinite_mask_is_no_damage() -> None:
    net = nn.Linear(4, 2)
    net.register_buffer("mask", torch.tensor([0.0, -torch.inf]))
    require_weights(net)


def test_modes_of_all_parts_come_back() -> None:
    net = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3).eval(), nn.Dropout(), nn.Linear(3, 1))
    before = [part.training for part in net.modules()]
    assert before.count(False) == 1
    with in_evaluation_mode(net):
        assert not any(part.training for part in net.modules())
    assert [part.training for part in net.modules()] == before
    assert trial_outputs(net, (4,)) == 1
    target = as_target(net, (4,))
    target.linearise(torch.zeros(1, 2, 4), torch.ones(1))
    assert [part.training for part in net.modules()] == before


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(4, 4), nn.Linear(4, 4, bias=False), nn.Linear(4, 1)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.relu(self.second(torch.relu(self.first(x)))))


def test_tied_weights_have_the_gradient_of_both_places() -> None:
    torch.manual_seed(0)
    net = Tied().double()
    target = ModuleTarget(net, (4,))
    assert list(target.params) == ["first.weight", "first.bias", "last.weight", "last.bias"]
    x = torch.randn(2, 5, 4, dtype=torch.float64)
    # So sharp that the smooth derivative is the step function, whose gradient autograd gives.
    outputs, pullback = target.linearise(x, torch.full((2,), 1e9, dtype=torch.float64))
    combined = pullback(torch.ones_like(outputs)).combined
    for trial in range(2):
        net.zero_grad()
        net(x[trial]).sum().backward()
        for name, parameter in net.named_parameters():
            torch.testing.assert_close(combined[name][trial], parameter.grad)


def test_of_tied_weights_one_name_is_enough_and_two_must_agree() -> None:
    state = {name: torch.rand_like(value) for name, value in Tied().state_dict().items()}
    with pytest.raises(RecollectError, match=r"'first\.weight' and 'second\.weight' are one weight"):
        load_weights(Tied(), state, "w.pt")
    for left_out in ("first.weight", "second.weight"):
        net = Tied()
        given = {name: value for name, value in state.items() if name != left_out}
        load_weights(net, given, "w.pt")
        other = "second.weight" if left_out == "first.weight" else "first.weight"
        assert torch.equal(net.first.weight, state[other])
        assert net.first.weight is net.second.weight


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_becomes_single(dtype: torch.dtype) -> None:
    net = nn.Linear(4, 2)
    state = {name: value.to(dtype) for name, value in net.state_dict().items()}
    load_weights(net, state, "w.pt")
    assert net.weight.dtype == torch.float32
    assert torch.equal(net.weight, state["weight"].float())
    target = ModuleTarget(nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2)).to(dtype), (4,))
    assert {value.dtype for value in target.params.values()} == {torch.float32}
    assert target.buffers["1.running_mean"].dtype == torch.float32
    assert target.buffers["1.num_batches_tracked"].dtype == torch.int64
    outputs, _ = target.linearise(torch.zeros(1, 2, 4), torch.ones(1))
    assert outputs.dtype == torch.float32


def test_double_precision_anywhere_is_kept() -> None:
    net = nn.Sequential(nn.Linear(4, 2), nn.Linear(2, 1))
    state = {name: value.double() if name.startswith("1") else value for name, value in net.state_dict().items()}
    load_weights(net, state, "w.pt")
    assert {parameter.dtype for parameter in net.parameters()} == {torch.float64}


def test_a_network_with_its_own_state_dict_is_explained() -> None:
    class Stubborn(nn.Linear):
        def load_state_dict(self, *args: object, **kwargs: object):
            raise ValueError("not\ntoday")

    net = Stubborn(4, 2)
    with pytest.raises(RecollectError, match=r"cannot be put into the network \(ValueError: not today\)"):
        load_weights(net, net.state_dict(), "w.pt")


def test_a_dict_is_refused_by_the_target_as_well() -> None:
    with pytest.raises(RecollectError, match="returns dict instead of one tensor"):
        ModuleTarget(Own(lambda y: {"logits": y}), (4,)).linearise(torch.zeros(2, 3, 4), torch.ones(2))
