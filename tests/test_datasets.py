"""What is taken from samples before a network sees them: their mean, or one that a group leaves as it is."""

from __future__ import annotations

import pytest
import torch

from recollect.config import Config
from recollect.core import RecollectError
from recollect.datasets import heldout_data, mean_for, training_data
from recollect.symmetries import named_group
from recollect.zoo import build_network


def config(mean_group: str, **more: object) -> Config:
    data = {"name": "sample", "n": 20, "holdout_count": 40, "mean_group": mean_group}
    return Config.model_validate({"name": "own", "data": data, "model": {"hidden": [6], "group": "d4"}} | more)


def test_a_group_averages_the_mean_and_nothing_else() -> None:
    plain, data = training_data(config("trivial")), training_data(config("d4"))
    group = named_group("d4", (1, 28, 28))
    assert torch.allclose(data.mean, group.orbit(plain.mean).mean(dim=0), atol=1e-6)
    assert torch.equal(data.images, plain.images)
    assert torch.allclose(data.x + data.mean, data.images, atol=1e-6)
    assert float((group.orbit(data.mean) - data.mean).abs().max()) < 1e-6
    assert float((plain.mean - data.mean).abs().max()) > 0.05
    heldout = heldout_data(config("d4"), data)
    assert heldout is not None
    assert torch.equal(heldout.mean, data.mean)


def test_an_averaged_network_is_then_invariant_to_turning_images() -> None:
    for name, invariant in (("trivial", False), ("model", True)):
        asked = config(name)
        data = training_data(asked)
        net = build_network(asked.model, (1, 28, 28), 0).double()
        images, mean = data.images.double(), data.mean.double()
        same = torch.allclose(net(images.rot90(1, (-2, -1)) - mean), net(images - mean), rtol=1e-5)
        assert same is invariant


def test_the_mean_of_an_attack_is_that_of_its_data() -> None:
    asked = config("flip", attack={"space": "box"})
    known = mean_for(asked, asked.attack)
    assert known is not None
    assert torch.equal(known, training_data(asked).mean)
    assert mean_for(config("flip"), config("flip").attack) is None


def test_networks_from_elsewhere_say_which_group() -> None:
    with pytest.raises(RecollectError, match=r"name that of this one, such as --set data\.mean_group=flip"):
        training_data(config("model", source={"folder": "runs/own"}))
    with pytest.raises(ValueError, match="there is no group 'mirror'"):
        config("mirror")
