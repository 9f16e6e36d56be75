"""What is inferred about a network, where from, and that a declaration goes before everything."""

from __future__ import annotations

import pytest
import torch
from tests.fuzz.seeds import CORPUS
from torch import nn

from recollect.core import RecollectError
from recollect.loading.description import Fact, describe
from recollect.loading.exported import read_exported


def mlp(outputs: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 5), nn.ReLU(), nn.Linear(5, outputs))


def cnn(side: int, pooled: bool = False) -> nn.Module:
    middle = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)]
    flat = [nn.Flatten(), nn.Linear(4 * (side - 2) ** 2, 3)]
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), *(middle if pooled else flat))


def test_from_the_network_alone() -> None:
    found = describe(mlp(1))
    assert found.task == Fact("binary", "from the outputs")
    assert found.classes == Fact(2, "from the outputs")
    assert found.input_shape == Fact((12,), "from the first layer")
    assert found.value_range == Fact(None, "unknown")
    assert found.parameters == 12 * 5 + 5 + 5 + 1
    assert describe(mlp(4)).classes == Fact(4, "from the outputs")
    assert describe(cnn(9)).input_shape == Fact((3, 9, 9), "from the first layer")
    program = describe(read_exported(CORPUS / "convolution.pt2"))
    assert program.input_shape == Fact((1, 3, 3), "from the program")


def test_from_the_data() -> None:
    samples = torch.linspace(-0.5, 0.75, 6 * 12).reshape(6, 3, 2, 2)
    found = describe(mlp(1), samples, torch.tensor([1, -1, 1, 1, -1, -1]))
    assert found.task == Fact("binary", "from the data")
    assert found.input_shape == Fact((3, 2, 2), "from the data")
    assert found.value_range == Fact((-0.5, 0.75), "from the data")
    assert describe(mlp(1), samples, torch.rand(6)).task == Fact("regression", "from the data")
    assert describe(mlp(1), samples, torch.arange(6)).classes == Fact(None, "from the data")
    assert describe(mlp(6), samples, torch.arange(6)).task == Fact("multiclass", "from the outputs")
    assert found.sentences == [
        "Task: binary, 2 classes (from the data).",
        "Inputs: 3x2x2 (from the data).",
        "Values of inputs: -0.5 to 0.75 (from the data).",
        "Network: 71 parameters, 1 output.",
    ]


def test_truth_values_are_labels() -> None:
    found = describe(mlp(1), torch.rand(2, 12), torch.tensor([True, False]))
    assert found.task == Fact("binary", "from the data")
    assert describe(mlp(3), torch.rand(2, 12), torch.tensor([True, False])).classes == Fact(3, "from the outputs")


def test_declarations_go_first() -> None:
    samples = torch.rand(6, 3, 2, 2)
    found = describe(
        mlp(1), samples, torch.tensor([0, 1] * 3), task="regression", input_shape=(3, 2, 2), value_range=(-1.0, 1.0)
    )
    assert {found.task.origin, found.input_shape.origin, found.value_range.origin} == {"declared"}
    assert found.task.value == "regression"
    assert found.value_range.value == (-1.0, 1.0)
    assert describe(mlp(3), classes=3).classes == Fact(3, "declared")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: describe(cnn(9, pooled=True)), "does not tell the size of an input, sides of 3 to 320 fit; give its"),
        (lambda: describe(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Linear(5, 5), nn.Linear(3, 1))), "no square image fits"),
        (lambda: describe(nn.Bilinear(2, 2, 1)), "first layer of the network does not tell"),
        (lambda: describe(mlp(1), torch.rand(2, 13)), "cannot be evaluated and differentiated on inputs of shape [13]"),
        (
            lambda: describe(mlp(1), torch.rand(2, 12), input_shape=(3, 4)),
            "[3, 4] were declared and the data",
        ),
        (lambda: describe(mlp(1), task="ternary"), "no task 'ternary'; choose from binary, multiclass, regression"),
        (lambda: describe(mlp(3), task="binary"), "has 3 outputs, and the task binary needs one"),
        (lambda: describe(mlp(1), task="multiclass"), "has 1 output, and the task multiclass needs several"),
        (lambda: describe(mlp(3), classes=4), "4 classes were declared and the network has outputs for 3"),
        (lambda: describe(mlp(3), torch.rand(2, 12), torch.tensor([1, 3])), "a label 3, the network has 3 outputs"),
        (lambda: describe(mlp(3), torch.rand(2, 12), torch.tensor([-1, 1])), "a label -1, the network has 3 outputs"),
        (lambda: describe(mlp(1), torch.rand(0, 12)), "the samples are empty (their shape is [0, 12])"),
        (lambda: describe(mlp(3), torch.rand(2, 12), torch.tensor([])), "there are no labels; give one for each"),
        (
            lambda: describe(mlp(3), torch.rand(2, 12), torch.tensor([0, 1, 2])),
            "the samples have the shape [2, 12] and the labels [3]; give one label for each sample",
        ),
        (lambda: describe(mlp(1), value_range=(1.0, 0.0)), "[1.0, 0.0] is no range of values"),
    ],
)
def test_what_does_not_fit_is_explained(call, said: str) -> None:
    with pytest.raises(RecollectError) as caught:
        call()
    assert said in str(caught.value)
