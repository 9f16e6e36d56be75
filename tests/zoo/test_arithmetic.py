"""Number types of training: what they are here, and that global settings are put back."""

from __future__ import annotations

import pytest
import torch

from recollect.core import RecollectError
from recollect.zoo import MLPArchitecture, TrainingConfig, build_network, train
from recollect.zoo.arithmetic import effective, training_arithmetic

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def settings() -> tuple[str, bool, bool]:
    cudnn = torch.backends.cudnn
    return torch.get_float32_matmul_precision(), cudnn.allow_tf32, cudnn.deterministic


@pytest.mark.parametrize(
    ("name", "device", "inside"),
    [
        ("tf32", CUDA, ("high", True, True)),
        ("tf32", CPU, ("highest", False, True)),
        ("float32", CUDA, ("highest", False, True)),
        ("float64", CUDA, ("highest", False, True)),
    ],
)
def test_tf32_only_where_asked_for_and_only_meanwhile(name, device: torch.device, inside: tuple) -> None:
    before = settings()
    with training_arithmetic(name, device):
        assert settings() == inside
    assert settings() == before
    with pytest.raises(KeyError), training_arithmetic(name, device):
        raise KeyError
    assert settings() == before


def test_the_name_says_what_a_device_does() -> None:
    assert effective("tf32", CPU) == "float32"
    assert effective("tf32", CUDA) == "tf32"
    assert effective("float64", CPU) == "float64"


def test_training_in_tf32_is_float32_on_the_cpu_and_leaves_nothing_behind() -> None:
    before = settings()
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y = torch.tensor([1, -1] * 3)
    trained = []
    for dtype in ("tf32", "float32"):
        net = build_network(MLPArchitecture(hidden=(5,), first_layer_scale="standard"), (4,), seed=0)
        train(net, x, y, TrainingConfig(lr=0.1, epochs=20, dtype=dtype), 0, CPU)
        trained.append(list(net.parameters()))
    assert all(a.dtype == torch.float32 and torch.equal(a, b) for a, b in zip(*trained, strict=True))
    net = build_network(MLPArchitecture(hidden=(5,), first_layer_scale="standard"), (4,), seed=0)
    with pytest.raises(RecollectError, match="diverged"):
        train(net, x, y, TrainingConfig(loss="l2", lr=1e9, epochs=200, dtype="tf32"), 0, CPU)
    assert settings() == before
