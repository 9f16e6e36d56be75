"""Training against torch.optim, resumed training against uninterrupted, and the ends training can come to."""

from __future__ import annotations

import pytest
import torch
from tests.cases import NEEDS_CUDA
from tests.waiting import never_waits
from torch import Tensor, nn

from recollect.core import RecollectError
from recollect.zoo import (
    Architecture,
    ConvArchitecture,
    DeepSetArchitecture,
    GroupConvArchitecture,
    MLPArchitecture,
    TrainingConfig,
    build_network,
    train,
)
from recollect.zoo.losses import LOSSES, LossName
from recollect.zoo.training import Progress, TrainingState, _epoch_runner

CPU = torch.device("cpu")
SHAPE = (1, 3, 3)


def data(n: int = 12) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, *SHAPE, generator=generator, dtype=torch.float64)
    return x, torch.where(torch.arange(n) % 2 == 0, 1, -1)


def network(seed: int = 0, outputs: int = 1, hidden: tuple[int, ...] = (8, 6)) -> nn.Module:
    architecture = MLPArchitecture(hidden=hidden, outputs=outputs, first_layer_scale="standard")
    return build_network(architecture, SHAPE, seed)


@pytest.mark.parametrize("weight_decay", [0.0, 0.01])
def test_full_batch_training_takes_the_steps_of_torch_sgd(weight_decay: float) -> None:
    x, y = data()
    ours, theirs = network(), network()
    train(ours, x, y, TrainingConfig(lr=0.1, epochs=50, weight_decay=weight_decay), 0, CPU)
    optimiser = torch.optim.SGD(theirs.parameters(), lr=0.1, weight_decay=weight_decay)
    for _ in range(50):
        optimiser.zero_grad()
        nn.functional.binary_cross_entropy_with_logits(theirs(x)[:, 0], (y > 0).double()).backward()
        optimiser.step()
    for got, wanted in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(got, wanted, rtol=1e-10, atol=1e-13)


def test_every_mini_batch_epoch_sees_each_sample_once() -> None:
    """One epoch of batches of 5 over 12 samples, against the same batches by hand."""
    x, y = data()
    ours, theirs = network(), network()
    train(ours, x, y, TrainingConfig(lr=0.1, epochs=1, batch_size=5), 7, CPU)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(7 * 1_000_003))
    optimiser = torch.optim.SGD(theirs.parameters(), lr=0.1)
    for batch in order.split(5):
        optimiser.zero_grad()
        nn.functional.softplus(-y[batch] * theirs(x[batch])[:, 0]).mean().backward()
        optimiser.step()
    for got, wanted in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(got, wanted, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("batch_size", [None, 5])
@pytest.mark.parametrize("loss", LOSSES)
def test_going_on_from_saved_weights_gives_the_same_bits(batch_size: int | None, loss: LossName) -> None:
    x, y = data()
    several = LOSSES[loss].of == "classes"
    y, outputs = (torch.arange(len(x)) % 3, 3) if several else (y, 1)
    whole, half = network(outputs=outputs), network(outputs=outputs)
    config = TrainingConfig(loss=loss, lr=0.1, epochs=40, batch_size=batch_size, weight_decay=1e-3)
    train(whole, x, y, config, 3, CPU)
    last = train(half, x, y, config.model_copy(update={"epochs": 17}), 3, CPU)
    rest = network(seed=99, outputs=outputs)
    train(rest, x, y, config, 3, CPU, state=TrainingState(17, {k: v.clone() for k, v in last.params.items()}))
    for got, wanted in zip(rest.parameters(), whole.parameters(), strict=True):
        assert torch.equal(got, wanted)


def test_training_stops_at_the_loss_asked_for_and_calls_back() -> None:
    x, y = data()
    seen: list[Progress] = []

    class Watch:
        every = 100

        def __call__(self, progress: Progress) -> None:
            seen.append(progress)

    last = train(network(), x, y, TrainingConfig(lr=0.5, epochs=20_000, stop_loss=0.05), 0, CPU, [Watch()])
    assert last.loss <= 0.05
    assert last.epoch < 20_000
    assert last.error == 0
    assert [progress.epoch for progress in seen] == list(range(100, seen[-1].epoch + 1, 100))


def test_several_classes_take_the_steps_of_torch_sgd_to_no_error() -> None:
    x, y = data()[0], torch.arange(12) % 3
    ours, theirs = (network(outputs=3, hidden=(32, 32)) for _ in range(2))
    first = train(ours, x, y, TrainingConfig(loss="cross_entropy", lr=0.5, epochs=10), 0, CPU)
    optimiser = torch.optim.SGD(theirs.parameters(), lr=0.5)
    for _ in range(10):
        optimiser.zero_grad()
        nn.functional.cross_entropy(theirs(x), y).backward()
        optimiser.step()
    for got, wanted in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(got, wanted, rtol=1e-10, atol=1e-13)
    assert first.error == pytest.approx(float((theirs(x).argmax(dim=1) != y).double().mean()))
    last = train(ours, x, y, TrainingConfig(loss="cross_entropy", lr=0.5, epochs=20_000, stop_loss=0.05), 0, CPU)
    assert last.loss <= 0.05
    assert last.error == 0
    assert torch.equal(ours(x).argmax(dim=1), y)


@pytest.mark.parametrize("loss", ["l2", "l2.5", "huber"])
def test_regression_with_weight_decay_ends_near_the_labels(loss: LossName) -> None:
    x, y = data()
    net = network()
    last = train(net, x, y, TrainingConfig(loss=loss, lr=0.05, epochs=4000, weight_decay=1e-4), 0, CPU)
    assert last.error == 0
    assert float((net(x)[:, 0] - y).detach().abs().max()) < 0.2


def test_training_that_diverges_says_what_to_change() -> None:
    x, y = data()
    with pytest.raises(RecollectError, match=r"lower training.lr"):
        train(network(), 1e3 * x, y, TrainingConfig(lr=1e200, epochs=200), 0, CPU)
    with pytest.raises(RecollectError, match=r"before epoch 1 \(the loss is not finite\); lower training.lr"):
        train(network(1), 1e3 * x, y, TrainingConfig(loss="l2", lr=1e120, epochs=1), 0, CPU)


def test_architectures_have_the_biases_and_the_scale_they_say() -> None:
    def biased(bias: str) -> list[bool]:
        net = build_network(MLPArchitecture(hidden=(8, 6), bias=bias), SHAPE, 0)  # pyright: ignore[reportArgumentType]
        return [part.bias is not None for part in net.modules() if isinstance(part, nn.Linear)]

    assert biased("first") == [True, False, False]
    assert biased("all") == [True, True, False]
    assert biased("none") == [False, False, False]
    small = build_network(MLPArchitecture(hidden=(200, 6), first_layer_scale=1e-3), (1, 20, 20), 0)
    weight = next(small.parameters())
    assert weight.dtype == torch.float64
    assert float(weight.detach().std()) == pytest.approx(1e-3, rel=0.02)


def test_homogeneous_networks_scale_with_their_parameters() -> None:
    net = build_network(MLPArchitecture(hidden=(8, 6)), SHAPE, 0)
    x, _ = data()
    before = net(x)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(2)
    assert torch.allclose(net(x), 8 * before)


def test_the_same_seed_gives_the_same_network_and_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    first, second = network(4), network(4)
    assert torch.equal(torch.rand(1), expected)
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)


KINDS: list[Architecture] = [
    MLPArchitecture(hidden=(8, 6), outputs=1),
    MLPArchitecture(hidden=(8, 6), outputs=1, group="d4"),
    ConvArchitecture(channels=2, kernel=2, hidden=(6,), outputs=1),
    GroupConvArchitecture(group="d4", channels=(3, 4), kernel=3, hidden=(5,), outputs=1),
    DeepSetArchitecture(elements=(6,), hidden=(5,), outputs=1),
]
IMAGE = (1, 6, 6)


def of_kind(architecture: Architecture) -> tuple[nn.Module, Tensor, Tensor]:
    shape = (6, 6) if isinstance(architecture, DeepSetArchitecture) else IMAGE
    net = build_network(architecture.model_copy(update={"first_layer_scale": "standard"}), shape, seed=0)
    x = torch.randn(12, *shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return net, x, data()[1]


@pytest.mark.parametrize("architecture", KINDS, ids=lambda kind: kind.kind)
def test_no_epoch_waits_for_the_device(architecture: Architecture) -> None:
    """On a GPU an epoch is a recording, which cannot wait."""
    net, x, y = of_kind(architecture)
    params = {name: value.detach().clone() for name, value in net.named_parameters()}
    run = _epoch_runner(net, params, x, y, TrainingConfig(lr=0.1, epochs=2), 0)
    with never_waits():
        run(0, 2)


@NEEDS_CUDA
@pytest.mark.parametrize("architecture", KINDS, ids=lambda kind: kind.kind)
def test_recorded_epochs_are_the_same_epochs(architecture: Architecture) -> None:
    ours, x, y = of_kind(architecture)
    theirs, config = of_kind(architecture)[0], TrainingConfig(lr=0.1, epochs=20)
    train(ours, x, y, config, 0, torch.device("cuda"))
    train(theirs, x, y, config, 0, CPU)
    for got, wanted in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-12)
