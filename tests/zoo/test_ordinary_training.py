"""Ordinary training against torch.optim by hand, resumed against uninterrupted, and what it refuses."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor, nn

from recollect.core import RecollectError
from recollect.zoo.classifier import Classifier, ClassifierArchitecture, build_classifier
from recollect.zoo.ordinary_training import OrdinaryTraining, accuracy, outputs_of, train_ordinarily
from recollect.zoo.training import Progress, TrainingState

CPU = torch.device("cpu")
SHAPE = (1, 16, 16)
SMALL = ClassifierArchitecture(channels=(4, 6), hidden=8, outputs=3, dropout=0.2, head_dropout=0.5)


def data(n: int = 25) -> tuple[Tensor, Tensor]:
    """Three classes that differ in which third of the picture is bright."""
    y = torch.arange(n) % 3
    x = 0.2 * torch.rand(n, *SHAPE, generator=torch.Generator().manual_seed(0))
    for index, label in enumerate(y.tolist()):
        x[index, :, 5 * label : 5 * label + 5] += 0.7
    return x, y


def classifier(seed: int = 0) -> Classifier:
    return build_classifier(SMALL, SHAPE, seed)


@dataclass
class Watch:
    every: int
    seen: list[Progress] = field(default_factory=list)

    def __call__(self, progress: Progress) -> None:
        self.seen.append(progress)


@pytest.mark.parametrize("name", ["adam", "sgd"])
def test_an_epoch_takes_the_steps_of_torch(name: str) -> None:
    """Batches of 8 over 25 samples: the one left over joins the last batch."""
    x, y = data()
    ours, theirs = classifier(), classifier()
    config = OrdinaryTraining(optimiser=name, lr=0.01, epochs=2, batch_size=8, schedule="constant", dtype="float64")  # pyright: ignore[reportArgumentType]
    train_ordinarily(ours, x, y, config, 3, CPU)
    theirs.double().train()
    kind = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[name]
    optimiser = kind(
        theirs.parameters(), lr=0.01, weight_decay=config.weight_decay, **({"momentum": 0.9} if name == "sgd" else {})
    )
    for epoch in range(2):
        torch.manual_seed(3 * 1_000_003 + epoch)
        order = torch.randperm(25)
        for batch in (order[:8], order[8:16], order[16:]):
            optimiser.zero_grad()
            nn.functional.cross_entropy(theirs(x[batch].double()), y[batch]).backward()
            optimiser.step()
    for got, wanted in zip(ours.state_dict().values(), theirs.state_dict().values(), strict=True):
        assert torch.allclose(got.double(), wanted.double(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["adam", "sgd"])
def test_going_on_from_a_saved_state_gives_the_same_bits(name: str) -> None:
    x, y = data()
    config = OrdinaryTraining(optimiser=name, lr=0.01, epochs=5, batch_size=8)  # pyright: ignore[reportArgumentType]
    whole, rest, watch = classifier(), classifier(seed=9), Watch(every=2)
    train_ordinarily(whole, x, y, config, 3, CPU, [watch])
    assert [progress.epoch for progress in watch.seen] == [2, 4, 5]
    torch.rand(3)  # whatever else draws numbers in between does not matter
    train_ordinarily(rest, x, y, config, 3, CPU, state=TrainingState(2, watch.seen[0].params))
    for name_, wanted in whole.state_dict().items():
        assert torch.equal(rest.state_dict()[name_], wanted)


def test_it_learns_leaves_evaluation_mode_and_states_its_accuracy() -> None:
    x, y = data(60)
    net = classifier()
    progress = train_ordinarily(net, x[:40], y[:40], OrdinaryTraining(epochs=15, batch_size=8, lr=0.01), 0, CPU)
    assert not net.training
    assert progress.error == 0
    assert accuracy(net, x[40:], y[40:]) == 1
    assert accuracy(net, x[40:], (y[40:] + 1) % 3) == 0


def test_asking_for_outputs_changes_nothing() -> None:
    net = classifier().train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    x, _ = data()
    assert torch.equal(outputs_of(net, x), outputs_of(net, x))
    assert net.training
    assert all(torch.equal(net.state_dict()[name], value) for name, value in before.items())


@pytest.mark.parametrize("shape", [(1, 16, 16), (3, 17, 30), (1, 28, 28), (3, 32, 32)])
def test_a_classifier_takes_images_of_any_size(shape: tuple[int, int, int]) -> None:
    net = build_classifier(ClassifierArchitecture(outputs=7), shape, 0).eval()
    assert net(torch.zeros(2, *shape)).shape == (2, 7)
    kinds = {type(part) for part in net.modules()}
    assert {nn.Conv2d, nn.BatchNorm2d, nn.LeakyReLU, nn.Dropout, nn.Linear} <= kinds


@pytest.mark.parametrize("shape", [(1, 15, 28), (2, 28, 28), (784,)])
def test_other_samples_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(RecollectError, match="1 or 3 channels"):
        build_classifier(ClassifierArchitecture(outputs=7), shape, 0)


def test_labels_that_do_not_fit_are_refused() -> None:
    x, y = data()
    with pytest.raises(RecollectError, match="the network has 3 outputs"):
        train_ordinarily(classifier(), x, y + 1, OrdinaryTraining(), 0, CPU)
    with pytest.raises(RecollectError, match="classes counted from 0"):
        train_ordinarily(classifier(), x, y - 1, OrdinaryTraining(), 0, CPU)


def test_training_that_diverges_says_so() -> None:
    x, y = data()
    with pytest.raises(RecollectError, match=r"lower training\.lr"):
        train_ordinarily(classifier(), x, y, OrdinaryTraining(optimiser="sgd", lr=1e30, epochs=1), 0, CPU)
