"""The parts of the generator attack together: a small classifier, two generators, and images of the class asked for."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from recollect.analysis.generated import agreement
from recollect.candidates.generator import Generator
from recollect.core import TrialRng, Variables
from recollect.counter_random import TrialStreams
from recollect.objectives.inversion import INVERSION, Inversion
from recollect.optimisers import Adam
from recollect.targets.classifier import ClassifierTarget
from recollect.zoo.classifier import ClassifierArchitecture, build_classifier
from recollect.zoo.ordinary_training import OrdinaryTraining, accuracy, outputs_of, train_ordinarily

SHAPE, CLASSES, STEPS = (1, 16, 16), 4, 60
CPU = torch.device("cpu")


def pictures(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Four classes: the quarter of the picture that is bright."""
    labels = torch.arange(n) % CLASSES
    x = 0.3 * torch.rand(n, *SHAPE, generator=torch.Generator().manual_seed(seed))
    for index, label in enumerate(labels.tolist()):
        row, column = 8 * (label // 2), 8 * (label % 2)
        x[index, :, row : row + 8, column : column + 8] += 0.6
    return x, labels


def trained(seed: int) -> nn.Module:
    net = build_classifier(ClassifierArchitecture(channels=(8, 8), hidden=16, outputs=CLASSES), SHAPE, seed)
    train_ordinarily(net, *pictures(80, seed), OrdinaryTraining(epochs=8, batch_size=16, lr=0.01), seed, CPU)
    return net


@pytest.fixture(scope="module")
def attacked() -> nn.Module:
    return trained(0)


class Attack:
    """Generators with rates of their own against one network."""

    def __init__(
        self,
        net: nn.Module,
        trials: tuple[int, ...],
        weights: dict[str, float] = INVERSION,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.rng = TrialRng(2, trials, dtype, CPU)
        streams = TrialStreams.of(self.rng)
        self.classifier = ClassifierTarget(net, SHAPE, dtype=dtype)
        labels = torch.arange(32) % CLASSES
        self.generator = Generator(32, SHAPE, CLASSES, streams, labels, latent=8, width=8, dropout=0.1)
        own = {name: torch.full((len(trials),), weight, dtype=dtype) for name, weight in weights.items()}
        self.objective = Inversion(own, torch.full((len(trials),), 0.1, dtype=dtype), streams)
        rates = torch.tensor([0.01, 0.02], dtype=dtype)[list(trials)]
        self.adam = Adam(dict.fromkeys(self.generator.names, rates), betas=(0.5, 0.99))

    def start(self) -> tuple[Variables, Variables]:
        variables = self.generator.init(self.rng)
        return variables, self.adam.init(variables)

    def go_on(self, variables: Variables, state: Variables, first: int, last: int) -> tuple[Variables, Variables]:
        for number in range(first, last):
            gradient = self.objective.gradient(self.classifier, self.generator, variables, torch.tensor(number))
            variables, state = self.adam.update(variables, gradient, state, torch.ones(()))
        return variables, state


def test_generators_learn_to_make_what_they_are_asked_for(attacked: nn.Module) -> None:
    """Cross-entropy leads; an independent network agrees far more often than the quarter that chance would give."""
    assert accuracy(attacked, *pictures(40, 7)) == 1
    attack = Attack(attacked, (0, 1), {"divergence": 1.0, "cross_entropy": 3.0, "cosine": 0.1})
    variables, _ = attack.go_on(*attack.start(), 0, STEPS)
    untrained, made = attack.generator.shown(attack.start()[0]), attack.generator.shown(variables)
    labels = made.conditions.labels
    reached = agreement(attack.classifier.observe(made.images).outputs, labels)
    before = agreement(attack.classifier.observe(untrained.images).outputs, untrained.conditions.labels)
    assert bool((reached >= 0.9).all())
    assert bool((before < 0.7).all())
    independent = outputs_of(trained(1), made.images.flatten(0, 1).detach())
    assert float(agreement(independent, labels.flatten())) > 0.5


def test_a_resumed_attack_takes_the_same_steps(attacked: nn.Module) -> None:
    attack, again = Attack(attacked, (0, 1)), Attack(attacked, (0, 1))
    whole, _ = attack.go_on(*attack.start(), 0, 6)
    half = attack.go_on(*attack.start(), 0, 3)
    resumed, _ = again.go_on(*half, 3, 6)
    assert all(torch.equal(resumed[name], value) for name, value in whole.items())


def test_a_generator_alone_goes_where_it_goes_among_others(attacked: nn.Module) -> None:
    """In float64: the first steps of Adam follow signs, and those of tiny gradients hang on rounding."""
    both, alone = (Attack(attacked, trials, dtype=torch.float64) for trials in ((0, 1), (1,)))
    together, _ = both.go_on(*both.start(), 0, 3)
    single, _ = alone.go_on(*alone.start(), 0, 3)
    made, own = both.generator.decode(together), alone.generator.decode(single)
    assert torch.allclose(made[1:], own, atol=1e-6)
    assert not torch.allclose(made[:1], own, atol=1e-2)
