"""Outputs, errors and margins of labelled samples, one sample at a time."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from recollect.core import RecollectError
from recollect.data import TaskData
from recollect.outputs import error_rate, network_outputs, require_outputs, sample_outputs
from recollect.zoo.losses import margins


def samples(classes: int | None, n: int = 1203) -> TaskData:
    x = torch.randn(n, 3, generator=torch.Generator().manual_seed(0))
    index = torch.arange(n)
    y = 1 - 2 * (index % 2) if classes is None else index % classes
    labels = None if classes is None else tuple(range(classes))
    return TaskData(x=x, y=y, images=x, mean=torch.zeros(3), indices=index, labels=labels)


def network(outputs: int) -> nn.Module:
    torch.manual_seed(1)
    return nn.Linear(3, outputs).double()


def test_margins_and_errors_of_several_classes() -> None:
    data, net = samples(4), network(4)
    got, meaning = sample_outputs(net, data)
    slow = []
    for x, y in zip(data.x.double(), data.y.tolist(), strict=True):
        said = net(x).tolist()
        slow.append(said[y] - max(value for j, value in enumerate(said) if j != y))
    assert meaning == "margin"
    torch.testing.assert_close(got, torch.tensor(slow, dtype=torch.float64))
    assert error_rate(net, data) == pytest.approx(sum(value <= 0 for value in slow) / len(slow))


def test_the_two_classes_of_a_softmax_have_the_margin_of_their_difference() -> None:
    outputs = torch.randn(9, 2)
    torch.testing.assert_close(margins(outputs, torch.ones(9, dtype=torch.int64)), outputs[:, 1] - outputs[:, 0])


@pytest.mark.parametrize("flat", [False, True])
def test_one_output_is_shown_as_it_is(flat: bool) -> None:
    data, net = samples(None), network(1)
    net = nn.Sequential(net, nn.Flatten(0)) if flat else net
    got, meaning = sample_outputs(net, data)
    assert meaning == "output"
    torch.testing.assert_close(got, net(data.x.double()).flatten())
    assert network_outputs(net, data.x).shape == (1203, 1)
    assert error_rate(net, data) == pytest.approx(float((got * data.y <= 0).double().mean()))


@pytest.mark.parametrize(
    ("outputs", "classes", "said"),
    [
        (1, 3, "the network has 1 output, the data have 3 classes; give the data it was trained on, with a binary"),
        (4, None, "the network has 4 outputs, the data have labels of +-1; give the data it was trained on, with task"),
        (4, 3, "the network has 4 outputs, the data have 3 classes"),
    ],
)
def test_a_network_and_labels_that_do_not_belong_together(outputs: int, classes: int | None, said: str) -> None:
    with pytest.raises(RecollectError) as caught:
        sample_outputs(network(outputs), samples(classes))
    assert said in str(caught.value)
    require_outputs(classes or 1, samples(classes))
