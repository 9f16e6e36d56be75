"""Features against the layers called by hand, alone, under functional_call and under vmap."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from recollect.core import RecollectError
from recollect.features import Tap, Tapped, feature_taps, features_of
from recollect.zoo.classifier import ClassifierArchitecture, build_classifier

SHAPE = (1, 16, 16)


class Branching(nn.Module):
    """Layers named in another order than they are called, a functional activation, log-probabilities at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(5, 3)
        self.first = nn.Linear(256, 5)
        self.side = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.relu(self.first(x.flatten(1)))
        self.side(hidden)
        return torch.log_softmax(self.last(hidden), dim=1)


class Convolutional(nn.Module):
    """Outputs that no Linear layer makes."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Conv2d(1, 4, 3)
        self.head = nn.Conv2d(4, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.relu(self.body(x))).mean(dim=(2, 3))


def images(n: int = 4) -> Tensor:
    return torch.rand(n, *SHAPE, generator=torch.Generator().manual_seed(1))


def test_the_input_of_the_last_linear_layer_is_found() -> None:
    net = build_classifier(ClassifierArchitecture(outputs=4), SHAPE, 0).eval()
    assert torch.equal(features_of(net, images()), net.hidden(net.convolutions(images())))


def test_the_layer_is_found_by_what_it_does_not_by_where_it_stands() -> None:
    net = Branching()
    assert feature_taps(net, SHAPE) == {"features": Tap("last", "input"), "logits": Tap("last", "output")}
    wanted = torch.relu(net.first(images().flatten(1)))
    assert torch.equal(features_of(net, images()), wanted)


def test_a_named_submodule_gives_its_output() -> None:
    net = Convolutional()
    torch.testing.assert_close(features_of(net, images(), "body", rows=3), net.body(images()).flatten(1))


def test_what_cannot_be_found_is_said_in_one_sentence() -> None:
    with pytest.raises(RecollectError, match="it has no Linear layer; name the submodule"):
        feature_taps(Convolutional(), SHAPE)
    linear_inside = nn.Sequential(nn.Flatten(), nn.Linear(256, 3), nn.Tanh())
    with pytest.raises(RecollectError, match=r"none of its Linear layers \(1\) does"):
        feature_taps(linear_inside, SHAPE)
    with pytest.raises(RecollectError, match="no submodule called 'neck'; choose one of body, head"):
        feature_taps(Convolutional(), SHAPE, "neck")
    with pytest.raises(RecollectError, match=r"cannot be evaluated on inputs of shape \[2, 3\]"):
        feature_taps(Branching(), (2, 3))


def test_features_follow_functional_call_and_vmap() -> None:
    """Two sets of weights at once, against one network for each."""
    nets = [build_classifier(ClassifierArchitecture(channels=(3, 4), outputs=4), SHAPE, seed).eval() for seed in (0, 1)]
    tapped = Tapped(nets[0], feature_taps(nets[0], SHAPE))
    own = [dict(net.named_parameters()) | dict(net.named_buffers()) for net in nets]
    stacked = {f"module.{name}": torch.stack([values[name] for values in own]).detach() for name in own[0]}
    x = images()
    outputs, seen = vmap(lambda values: functional_call(tapped, values, (x,)))(stacked)
    for index, net in enumerate(nets):
        assert torch.allclose(outputs[index], net(x), atol=1e-6)
        assert torch.allclose(seen["features"][index], features_of(net, x), atol=1e-6)


def test_the_network_itself_is_left_alone() -> None:
    net = build_classifier(ClassifierArchitecture(outputs=4), SHAPE, 0).train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    features_of(net, images())
    assert net.training
    assert all(parameter.requires_grad for parameter in net.parameters())
    assert not any(part._forward_hooks for part in net.modules())
    assert all(torch.equal(net.state_dict()[name], value) for name, value in before.items())
