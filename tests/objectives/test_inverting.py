"""A loss between generator and classifier: fewer generators at once, each at a step of its own, the same bits."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from recollect.candidates.generator import Generator
from recollect.core import TrialRng
from recollect.counter_random import TrialStreams
from recollect.objectives import Inversion, Inverting
from recollect.targets.classifier import ClassifierTarget

SHAPE, CLASSES, TRIALS = (1, 8, 8), 3, (0, 1, 2, 3, 4)
RNG = TrialRng(7, TRIALS, torch.float64, torch.device("cpu"))
TERMS = ("cross_entropy", "cross_entropy_perturbed", "cosine", "gradient_norm")


def inverting(trials_at_once: int | None = None) -> Inverting:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.LeakyReLU(), nn.Linear(6, CLASSES)).double()
    streams = TrialStreams.of(RNG)
    generator = Generator(5, SHAPE, CLASSES, streams, torch.arange(CLASSES), latent=4, width=4)
    weights = {name: torch.linspace(0.5, 1, len(TRIALS)).double() for name in TERMS}
    loss = Inversion(weights, torch.full((len(TRIALS),), 0.1).double(), streams)
    return Inverting(loss, generator, ClassifierTarget(net, SHAPE), trials_at_once)


def assert_close(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    assert all(torch.allclose(found[name], value, rtol=1e-9, atol=1e-12) for name, value in expected.items())


def test_fewer_generators_at_once_have_the_same_gradients_and_losses() -> None:
    whole, parts = inverting(), inverting(2)
    weights = whole.generator.init(RNG)
    assert_close(parts.gradient(weights, torch.tensor(3)), whole.gradient(weights, torch.tensor(3)))
    assert_close(parts.losses(weights), whole.losses(weights))
    assert whole.losses(weights)["cosine"].shape == (len(TRIALS),)


def test_memory_is_saved_by_halves_until_one_is_left() -> None:
    own, seen = inverting(), []
    while (smaller := own.in_smaller_chunks()) is not None:
        own = smaller
        seen.append(own.trials_at_once)
    assert seen == [2, 1]


def test_generators_that_did_not_begin_together_draw_their_own_steps() -> None:
    own = inverting()
    weights = own.generator.init(RNG)
    steps = torch.tensor([4, 0, 9, 9, 2])
    together = own.gradient(weights, steps)
    for trial, step in enumerate(steps):
        chosen = torch.tensor([trial])
        alone = own.for_trials(chosen).gradient({name: value[chosen] for name, value in weights.items()}, step)
        assert_close(alone, {name: value[chosen] for name, value in together.items()})


def test_losses_are_those_of_one_batch_that_no_step_sees() -> None:
    own = inverting()
    weights = own.generator.init(RNG)
    assert_close(own.losses(weights), own.losses(weights))
    batch = own.generator.generate(weights, torch.tensor(-1))
    expected = own.loss(own.classifier, batch, torch.tensor(-1))
    assert_close(own.losses(weights), expected)
    first = own.loss(own.classifier, own.generator.generate(weights, torch.tensor(0)), torch.tensor(0))
    assert not torch.allclose(own.losses(weights)["cosine"], first["cosine"])
