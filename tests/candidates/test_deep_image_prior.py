"""The deep image prior: its gradients against autograd, its trials apart, its starting scale."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from recollect.api import as_reconstruction
from recollect.build import build_problem, build_problems
from recollect.candidates import DeepImagePrior
from recollect.config import AttackConfig, TrialSettings
from recollect.core import RecollectError
from recollect.given import Given
from recollect.problem import Problem, gradient, initial_state, losses
from recollect.solve import solve
from recollect.symmetries import named_group
from recollect.zoo import Symmetrised

CPU = torch.device("cpu")
SHAPE = (3, 6, 7)
KINDS = [(networks, offset) for networks in ("one", "each") for offset in ("learned", "half", "mean")]


def problem(networks: str = "one", offset: str = "learned", shape: tuple[int, ...] = SHAPE, **changes) -> Problem:
    torch.manual_seed(0)
    values = torch.Size(shape).numel()
    net = nn.Sequential(nn.Flatten(), nn.Linear(values, 8), nn.ReLU(), nn.Linear(8, 1, bias=False)).double()
    settings = [TrialSettings(lr_x=0.02, init_scale=0.1), TrialSettings(lr_x=0.01, init_scale=0.02)]
    given = {"candidates": 5, "steps": 12, "precision": "fp64", "trials": settings, "space": "dip"}
    given |= {"dip": {"networks": networks, "offset": offset, "channels": 4}}
    attack, known = AttackConfig.model_validate(given | changes), Given(mean=torch.rand(shape, dtype=torch.float64))
    return build_problem(Symmetrised(net, named_group("flip", shape)), shape, attack, 0, CPU, given=known)


@pytest.mark.parametrize(("networks", "offset"), KINDS)
def test_gradients_agree_with_autograd(networks: str, offset: str) -> None:
    ours = problem(networks, offset, asymmetry={"weight": 0.3, "share": 0.9})
    variables = {name: value.requires_grad_() for name, value in initial_state(ours).variables.items()}
    terms = losses(ours, variables)
    assert terms.keys() == {"stationarity", "dual_floor", "asymmetry"}
    assert float(terms["asymmetry"].detach().min()) > 0
    expected = torch.autograd.grad(torch.stack(list(terms.values())).sum(), list(variables.values()))
    with torch.no_grad():
        found = gradient(ours, {name: value.detach() for name, value in variables.items()})
    assert found.keys() == variables.keys()
    for name, wanted in zip(variables, expected, strict=True):
        assert not found[name].requires_grad
        assert float((found[name] - wanted).norm()) <= 1e-10 * float(wanted.norm())
        assert float(wanted.norm()) > 0 or "coarse.bias" in name


def test_images_are_those_of_the_network_written_out() -> None:
    ours = problem("one", "learned")
    candidates, variables = ours.candidates, initial_state(ours).variables
    assert isinstance(candidates, DeepImagePrior)
    variables["offset"] += 0.1
    images = candidates.decode(variables)
    assert images.shape == (2, 5, *SHAPE)
    for trial in range(2):
        own = {name: value[trial] for name, value in variables.items()}
        features = candidates.noise[trial]
        for layer, size in (("coarse", None), ("middle", (3, 4)), ("fine", (6, 7))):
            if size is not None:
                features = F.interpolate(features, size, mode="bilinear", align_corners=False)
            features = F.instance_norm(F.conv2d(features, own[f"{layer}.weight"], padding=1))
            features = F.leaky_relu(features + own[f"{layer}.bias"][:, None, None], 0.2)
        expected = torch.sigmoid(F.conv2d(features, own["last.weight"], own["last.bias"])) - own["offset"]
        # Interpolation weights were made in float32.
        assert torch.allclose(images[trial], expected, atol=1e-6)


@pytest.mark.parametrize("networks", ["one", "each"])
def test_candidates_of_one_network_differ_by_their_noise_and_each_network_is_its_own(networks: str) -> None:
    ours = problem(networks)
    variables = initial_state(ours).variables
    images = ours.candidates.decode(variables).flatten(2)
    distances = torch.cdist(images[0], images[0]) + torch.eye(5)
    assert float(distances.min()) > 1e-3
    lead = variables["fine.weight"].shape
    assert lead == ((2, 4, 4, 3, 3) if networks == "one" else (2, 5, 4, 4, 3, 3))


@pytest.mark.parametrize("networks", ["one", "each"])
def test_a_trial_alone_equals_the_trial_in_a_batch(networks: str) -> None:
    ours = problem(networks)
    together = ours.candidates.decode(solve(ours).variables)
    start = ours.candidates.decode(initial_state(ours).variables)
    assert float((together - start).abs().max()) > 1e-4
    for trial in range(2):
        one = ours.for_trials(torch.tensor([trial]))
        alone = one.candidates.decode(solve(one).variables)
        assert torch.allclose(alone[0], together[trial], rtol=1e-8, atol=1e-10)


def test_trials_spread_over_devices_come_back_in_order() -> None:
    net = Symmetrised(
        nn.Sequential(nn.Flatten(), nn.Linear(30, 4), nn.ReLU(), nn.Linear(4, 1)), named_group("flip", (1, 5, 6))
    )
    attack = AttackConfig.model_validate(
        {"space": "dip", "candidates": 3, "steps": 4, "precision": "fp64"}
        | {"trials": [TrialSettings(init_scale=s) for s in (0.1, 0.2, 0.3)]}
    )
    several, single = (build_problems(net, (1, 5, 6), attack, 0, [CPU] * count) for count in (2, 1))
    found, expected = (as_reconstruction(parts, solve(parts)).candidates for parts in (several, single))
    assert torch.allclose(found, expected, rtol=1e-8, atol=1e-10)


def test_the_start_deviates_by_the_initial_scale() -> None:
    ours = problem(shape=(1, 16, 16), candidates=40)
    deviation = ours.candidates.decode(initial_state(ours).variables).flatten(1).std(dim=1)
    assert float(deviation[0]) == pytest.approx(0.1, rel=0.5)
    assert float(deviation[1]) == pytest.approx(0.02, rel=0.5)


def test_a_known_mean_makes_images_of_candidates() -> None:
    ours = problem(offset="mean")
    assert isinstance(ours.candidates, DeepImagePrior)
    assert ours.candidates.mean is not None
    images = ours.candidates.decode(solve(ours).variables) + ours.candidates.mean
    assert 0 < float(images.min()) < float(images.max()) < 1


def test_images_that_leave_a_single_pixel_to_begin_from_are_refused() -> None:
    attack = AttackConfig.model_validate({"space": "dip", "candidates": 3, "steps": 2})
    with pytest.raises(RecollectError, match=r"\[4, 4\] pixels leave it a single one"):
        build_problem(nn.Sequential(nn.Flatten(), nn.Linear(16, 1)), (1, 4, 4), attack, 0, CPU)


def test_samples_that_are_no_images_are_refused() -> None:
    with pytest.raises(RecollectError, match=r"makes images \[channels, height, width\]"):
        problem(shape=(6, 7))


def test_it_is_never_compiled() -> None:
    """On the CPU torch.compile (2.13) returns wrong gradients for grouped convolutions, without a word."""
    assert not problem(compile="on").compiled
