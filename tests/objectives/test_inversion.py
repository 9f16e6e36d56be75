"""Every term of the inversion loss against a direct formula in float64; what reaches the generator, and what not."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
import torch
from torch import Tensor, nn

from recollect.candidates.generator import Generated, Generator
from recollect.core import RecollectError, TrialRng
from recollect.counter_random import TrialStreams
from recollect.features import Tap, Tapped
from recollect.objectives import inversion_terms as terms
from recollect.objectives.inversion import INVERSION, RECONSTRUCTION, TERMS, Inversion
from recollect.targets.classifier import ClassifierTarget
from recollect.zoo.classifier import ClassifierArchitecture, build_classifier

SHAPE = (1, 16, 16)
STEP = torch.tensor(4)
T, M, N = 2, 5, 4


def rng(trials: tuple[int, ...] = (0, 1)) -> TrialRng:
    return TrialRng(3, trials, torch.float64, torch.device("cpu"))


def network() -> nn.Module:
    """With statistics of batch norm that training could have left."""
    net = build_classifier(ClassifierArchitecture(channels=(3, 4), hidden=6, outputs=N), SHAPE, 0).double()
    for part in net.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean = torch.linspace(-0.3, 0.4, part.num_features, dtype=torch.float64)
            part.running_var = torch.linspace(0.5, 2, part.num_features, dtype=torch.float64)
    return net


def generator() -> Generator:
    return Generator(M, SHAPE, N, TrialStreams.of(rng()), torch.arange(N), latent=5, width=4, bounded=False)


def objective(weights: Mapping[str, float], perturbation: str = "random") -> Inversion:
    own = {name: torch.tensor([value, 2 * value], dtype=torch.float64) for name, value in weights.items()}
    radius = torch.tensor([0.05, 0.1], dtype=torch.float64)
    return Inversion(own, radius, TrialStreams.of(rng()), perturbation)  # pyright: ignore[reportArgumentType]


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def batch() -> Generated:
    own = generator()
    return own.generate(own.init(rng()), STEP)


def test_divergence_and_cross_entropy() -> None:
    outputs, labels = 3 * drawn(T, M, N), torch.arange(T * M).reshape(T, M) % N
    asked = drawn(T, M, N, seed=1).softmax(dim=2)
    for trial in range(T):
        divergence = entropy = 0.0
        for i in range(M):
            answer = [math.exp(value) for value in outputs[trial, i].tolist()]
            answer = [value / sum(answer) for value in answer]
            divergence += sum(p * math.log(p / q) for p, q in zip(asked[trial, i].tolist(), answer, strict=True)) / M
            entropy -= math.log(answer[int(labels[trial, i])]) / M
        assert float(terms.divergence(outputs, asked)[trial]) == pytest.approx(divergence, rel=1e-12)
        assert float(terms.cross_entropy(outputs, labels)[trial]) == pytest.approx(entropy, rel=1e-12)
    hot = nn.functional.one_hot(labels, N).double()
    assert torch.allclose(terms.divergence(outputs, hot), terms.cross_entropy(outputs, labels))


def test_cosine_and_orthogonality() -> None:
    features = drawn(T, M, 7)
    for trial in range(T):
        cosines = [
            [float(nn.functional.cosine_similarity(one, other, dim=0)) for other in features[trial]]
            for one in features[trial]
        ]
        apart = [cosines[i][j] for i in range(M) for j in range(M) if i != j]
        gram = sum((cosines[i][j] - (i == j)) ** 2 for i in range(M) for j in range(M)) / M**2
        assert float(terms.mean_cosine(features)[trial]) == pytest.approx(sum(apart) / (M * (M - 1)))
        assert float(terms.orthogonality(features)[trial]) == pytest.approx(gram)


def test_cosine_within_classes() -> None:
    """Over pairs of one label alone; without such a pair there is nothing to make different."""
    features, labels = drawn(T, M, 7), torch.tensor([[0, 1, 0, 0, 1], [0, 1, 2, 3, 1]])
    for trial in range(T):
        apart = [
            float(nn.functional.cosine_similarity(features[trial, i], features[trial, j], dim=0))
            for i in range(M)
            for j in range(M)
            if i != j and labels[trial, i] == labels[trial, j]
        ]
        assert float(terms.class_cosine(features, labels)[trial]) == pytest.approx(sum(apart) / len(apart))
    alone = terms.class_cosine(features[:, :3], torch.tensor([[0, 1, 2], [3, 1, 2]]))
    assert torch.allclose(alone, torch.zeros_like(alone), atol=1e-12)


def test_variation_and_pixel_range() -> None:
    images = 0.5 + drawn(T, M, 3, 4, 5)
    for trial in range(T):
        rough = outside = 0.0
        for image in images[trial]:
            for channel in image.tolist():
                for h in range(4):
                    for w in range(5):
                        rough += (channel[h + 1][w] - channel[h][w]) ** 2 if h < 3 else 0
                        rough += (channel[h][w + 1] - channel[h][w]) ** 2 if w < 4 else 0
                        outside += max(0, -channel[h][w]) + max(0, channel[h][w] - 1)
        assert float(terms.variation(images)[trial]) == pytest.approx(rough / M)
        assert float(terms.pixel_range(images)[trial]) == pytest.approx(outside / M)
    assert not terms.pixel_range(images.clamp(0, 1)).any()


def plain_gradient_norm(net: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    loss = nn.functional.cross_entropy(net(images), labels)
    grads = torch.autograd.grad(loss, list(net.parameters()), create_graph=True)
    return torch.cat([grad.flatten() for grad in grads]).norm()


def test_gradient_norm_and_its_own_gradient() -> None:
    net = network().eval()
    made = batch()
    images, labels = made.images.detach().requires_grad_(), made.conditions.labels
    norms = terms.gradient_norm(ClassifierTarget(net, SHAPE), images, labels)
    wanted = torch.stack([plain_gradient_norm(net, images[trial], labels[trial]) for trial in range(T)])
    assert torch.allclose(norms, wanted, rtol=1e-10)
    ours, theirs = (torch.autograd.grad(value.sum(), images)[0] for value in (norms, wanted))
    assert torch.allclose(ours, theirs, rtol=1e-8, atol=1e-14)
    assert ours.abs().max() > 0


def test_statistics_are_those_that_batch_norm_would_take() -> None:
    """A layer of batch norm in training mode records mean and variance of what enters it."""
    net, images = network().eval(), batch().images
    found = terms.statistics(ClassifierTarget(net, SHAPE).observe(images, with_moments=True).moments)
    layers = {name: part for name, part in net.named_modules() if isinstance(part, nn.BatchNorm2d)}
    tapped = Tapped(net, {name: Tap(name, "input") for name in layers})
    for trial in range(T):
        wanted = 0.0
        for name, values in tapped(images[trial])[1].items():
            layer, recorder = layers[name], nn.BatchNorm2d(values.shape[1], momentum=1.0, dtype=torch.float64).train()
            recorder(values)
            count = values.numel() / values.shape[1]
            mean, variance = recorder.running_mean, recorder.running_var * (count - 1) / count  # pyright: ignore[reportOperatorIssue]
            shift = (mean - layer.running_mean) ** 2 / layer.running_var  # pyright: ignore[reportOperatorIssue]
            wanted += float((shift + (variance / layer.running_var - 1) ** 2).mean())
        assert float(found[trial]) == pytest.approx(wanted, rel=1e-9)


def test_a_channel_that_was_constant_in_training_keeps_statistics_finite() -> None:
    net = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(4), nn.Linear(4, 2)).double()
    assert isinstance(net[1], nn.BatchNorm1d)
    assert net[1].running_var is not None
    net[1].running_var[0] = 0.0
    images = torch.rand(1, 6, 1, 2, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    seen = ClassifierTarget(net.eval(), (1, 2, 2)).observe(images, with_moments=True)
    assert bool(terms.statistics(seen.moments).isfinite().all())


def test_perturbations_stay_in_their_ball_and_the_adversarial_one_hurts() -> None:
    classifier, made, radius = ClassifierTarget(network(), SHAPE), batch(), torch.tensor([0.05, 0.1]).double()
    images, labels = made.images, made.conditions.labels
    random = terms.random_perturbation(images, radius, TrialStreams.of(rng()), STEP)
    adversarial = terms.adversarial_perturbation(images, radius, classifier, labels)
    for moved in (random, adversarial):
        largest = (moved - images).abs().amax(dim=(1, 2, 3, 4))
        assert bool((largest <= radius + 1e-12).all())
        assert bool((largest > 0.9 * radius).all())
    plain, by_chance, on_purpose = (
        terms.cross_entropy(classifier.observe(x).outputs, labels) for x in (images, random, adversarial)
    )
    assert bool((on_purpose > plain).all())
    assert bool((on_purpose > by_chance).all())


@pytest.mark.parametrize("name", TERMS)
def test_every_term_reaches_the_generator_and_is_weighted_per_trial(name: str) -> None:
    classifier, own = ClassifierTarget(network(), SHAPE), generator()
    weights = own.init(rng())
    once, thrice = objective({name: 1.0}), objective({name: 3.0})
    value, larger = (found(classifier, own.generate(weights, STEP), STEP)[name] for found in (once, thrice))
    assert value.shape == (T,)
    assert torch.allclose(3 * value, larger)
    gradient = once.gradient(classifier, own, weights, STEP)
    assert set(gradient) == set(own.names)
    for layer in ("start.weight", "grid.weight", "image.weight"):
        assert bool((gradient[layer].flatten(1).abs().amax(dim=1) > 0).all())


def test_the_gradient_is_that_of_finite_differences() -> None:
    classifier, own = ClassifierTarget(network(), SHAPE), generator()
    weights, loss = own.init(rng()), objective(RECONSTRUCTION | {"statistics": 0.2})
    direction = {name: drawn(*value.shape, seed=7) for name, value in weights.items()}

    def total(shift: float) -> Tensor:
        moved = {name: value + shift * direction[name] for name, value in weights.items()}
        return torch.stack(list(loss(classifier, own.generate(moved, STEP), STEP).values())).sum()

    gradient = loss.gradient(classifier, own, weights, STEP)
    slope = torch.stack([(value * direction[name]).sum() for name, value in gradient.items()]).sum()
    assert torch.allclose(slope, (total(1e-6) - total(-1e-6)) / 2e-6, rtol=1e-5)


def test_a_trial_alone_has_the_losses_and_gradients_it_has_in_a_batch() -> None:
    classifier, own, loss = ClassifierTarget(network(), SHAPE), generator(), objective(RECONSTRUCTION)
    weights, chosen = own.init(rng()), torch.tensor([1])
    some = {name: value[chosen] for name, value in weights.items()}
    together = loss.gradient(classifier, own, weights, STEP)
    alone = loss.for_trials(chosen).gradient(classifier, own.for_trials(chosen), some, STEP)
    for name, value in alone.items():
        assert torch.allclose(together[name][chosen], value, rtol=1e-8, atol=1e-10)


def test_the_classifier_is_never_touched() -> None:
    """Weights, statistics, mode and hooks of the network given, and of the copy inside, after steps with every term."""
    net = network().train()
    classifier = ClassifierTarget(net, SHAPE)
    inside = classifier._tapped.module
    before = {name: value.clone() for name, value in net.state_dict().items()}
    own, loss = generator(), objective(dict.fromkeys(TERMS, 1.0), "adversarial")
    weights = own.init(rng())
    for step in range(3):
        grads = loss.gradient(classifier, own, weights, torch.tensor(step))
        weights = {name: value - 0.1 * grads[name] for name, value in weights.items()}
    for watched in (net, inside):
        assert all(torch.equal(watched.state_dict()[name], value) for name, value in before.items())
        assert all(parameter.grad is None for parameter in watched.parameters())
    assert net.training
    assert not inside.training
    assert all(parameter.requires_grad for parameter in net.parameters())


def test_only_what_has_a_weight_is_computed() -> None:
    classifier, made = ClassifierTarget(network(), SHAPE), batch()
    assert set(objective(INVERSION)(classifier, made, STEP)) == set(INVERSION)
    assert set(objective(RECONSTRUCTION)(classifier, made, STEP)) == set(RECONSTRUCTION)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(RecollectError, match="no term 'beauty'"):
        objective({"beauty": 1.0})
    with pytest.raises(RecollectError, match="no term has a weight"):
        objective({})
    plain = nn.Sequential(nn.Flatten(), nn.Linear(256, 5), nn.ReLU(), nn.Linear(5, N)).double()
    with pytest.raises(RecollectError, match="no batch norm"):
        objective({"statistics": 1.0})(ClassifierTarget(plain, SHAPE), batch(), STEP)
    with pytest.raises(RecollectError, match="at least two"):
        ClassifierTarget(nn.Sequential(nn.Flatten(), nn.Linear(256, 1)).double(), SHAPE)
