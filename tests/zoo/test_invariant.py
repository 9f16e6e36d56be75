"""Networks that do not see how a sample was moved: by averaging, and by sharing weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from recollect.core import RecollectError
from recollect.networks import NetworkFacts, load_network, save_network
from recollect.runs import RunFolder
from recollect.symmetries import group_of, named_group
from recollect.zoo import (
    MLP,
    Architecture,
    DeepSetArchitecture,
    GroupConvArchitecture,
    MLPArchitecture,
    Symmetrised,
    TrainingConfig,
    build_network,
    train,
)

IMAGE, SET = (2, 6, 6), (4, 3)
CASES: list[tuple[Architecture, tuple[int, ...]]] = [
    *((MLPArchitecture(hidden=(9, 7), group=name), IMAGE) for name in ("flip", "klein4", "rotations", "d4")),
    (MLPArchitecture(hidden=(9,), group="permutations"), SET),
    *(
        (GroupConvArchitecture(group=name, kernel=kernel, channels=(3, 4), hidden=(5,)), IMAGE)
        for name, kernel in (("flip", 2), ("klein4", 3), ("rotations", 3), ("d4", 2), ("d4", 3))
    ),
    (DeepSetArchitecture(elements=(9, 8), hidden=(7,), outputs=2), SET),
]


def network(architecture: Architecture, shape: tuple[int, ...]) -> nn.Module:
    standard = architecture.model_copy(update={"first_layer_scale": "standard"})
    return build_network(standard, shape, seed=3)


@pytest.mark.parametrize(("architecture", "shape"), CASES)
def test_outputs_do_not_change_along_the_orbit(architecture: Architecture, shape: tuple[int, ...]) -> None:
    net, x = network(architecture, shape), torch.randn(5, *shape, dtype=torch.float64)
    group = group_of(net, shape)
    assert group.size > 1
    orbits = group.orbit(x)
    outputs = net(orbits.flatten(0, 1)).unflatten(0, (5, group.size))
    assert float((outputs - outputs[:, :1]).detach().abs().max()) < 1e-9 * float(outputs.detach().abs().max())
    assert float(outputs[:, 0].detach().std(dim=0).min()) > 1e-3 * float(outputs.detach().abs().max())


def test_a_group_convolution_sees_what_a_larger_group_would_not() -> None:
    """Rotations are not reflections: the network must tell an image from its mirror image."""
    net = network(GroupConvArchitecture(group="rotations", channels=(3, 4), hidden=(5,)), IMAGE)
    x = torch.randn(5, *IMAGE, dtype=torch.float64)
    difference = (net(x) - net(x.flip(-1))).detach().abs()
    assert float(difference.min()) > 1e-4 * float(net(x).detach().abs().max())


def test_the_reynolds_average_is_the_mean_over_moved_inputs() -> None:
    net = network(MLPArchitecture(hidden=(9, 7), group="klein4"), IMAGE)
    assert isinstance(net, Symmetrised)
    x = torch.randn(5, *IMAGE, dtype=torch.float64)
    expected = sum(net.net(moved) for moved in (x, x.flip(-1), x.flip(-2), x.flip(-1, -2))) / 4
    assert torch.allclose(net(x), expected, rtol=1e-12)
    trivial = network(MLPArchitecture(hidden=(9, 7)), IMAGE)
    assert isinstance(trivial, MLP)
    assert torch.equal(trivial(x), net.net(x))


@pytest.mark.parametrize("bias", ["first", "none"])
@pytest.mark.parametrize("kind", [GroupConvArchitecture, DeepSetArchitecture])
def test_they_are_homogeneous_and_their_first_layer_has_the_scale_asked_for(kind: type, bias: str) -> None:
    shape = IMAGE if kind is GroupConvArchitecture else SET
    net = build_network(kind(bias=bias, first_layer_scale=1e-2), shape, seed=0)
    x = torch.randn(5, *shape, dtype=torch.float64)
    scale = float(torch.cat([p.detach().flatten() for p in list(net.parameters())[: 1 + (bias == "first")]]).std())
    assert scale == pytest.approx(1e-2, rel=0.2)
    if bias == "none":
        before, layers = net(x), len(list(net.parameters()))
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.mul_(2)
        assert torch.allclose(net(x), 2**layers * before)


@pytest.mark.parametrize(("architecture", "shape"), CASES[-4:])
def test_they_can_be_trained_and_saved(architecture: Architecture, shape: tuple[int, ...], tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    net, x = network(architecture, shape), torch.randn(8, *shape, dtype=torch.float64, generator=generator)
    y = torch.arange(8) % 2
    config = TrainingConfig(epochs=1000, lr=0.1, loss="cross_entropy", dtype="float32")
    if architecture.outputs is None:
        y, config = 2 * y - 1, config.model_copy(update={"loss": "logistic"})
    before = train(build_network(architecture, shape, 3), x, y, config.model_copy(update={"epochs": 1}), 0, CPU).loss
    assert train(net, x, y, config, 0, CPU).loss < 0.9 * before
    save_network(RunFolder(tmp_path), net, NetworkFacts(architecture=architecture, sample_shape=shape, training={}))
    loaded, facts = load_network(tmp_path)
    assert facts.architecture == architecture
    assert torch.equal(loaded(x.float()), net(x.float()))
    assert group_of(loaded, shape).name == group_of(net, shape).name


CPU = torch.device("cpu")


def test_samples_that_do_not_fit_are_explained() -> None:
    with pytest.raises(RecollectError, match=r"a set needs samples of shape \[elements, values\]"):
        build_network(DeepSetArchitecture(), IMAGE, 0)
    with pytest.raises(RecollectError, match="at least 9 pixels a side"):
        build_network(GroupConvArchitecture(kernel=5), IMAGE, 0)
    with pytest.raises(RecollectError, match="cannot be turned"):
        build_network(MLPArchitecture(group="d4"), (1, 4, 5), 0)
    assert not group_of(build_network(DeepSetArchitecture(), (9, 2), 0), (9, 2)).whole
    assert named_group("permutations:256", (9, 2)).size > 200
