"""The generator against the same layers written for one trial, its conditions against their definition."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from recollect.candidates.conditioning import Conditioning, draw_conditions, hot_matrix, uses_matrix
from recollect.candidates.generator import Generator
from recollect.candidates.upsampling import upsampling_plan
from recollect.core import RecollectError, TrialRng
from recollect.counter_random import TrialStreams

CONDITIONINGS: tuple[Conditioning, ...] = get_args(Conditioning)
STEP = torch.tensor(11)


def rng(trials: tuple[int, ...] = (0, 1, 2), dtype: torch.dtype = torch.float64) -> TrialRng:
    return TrialRng(5, trials, dtype, torch.device("cpu"))


def generator(
    conditioning: Conditioning = "vector_matrix", shape: tuple[int, ...] = (1, 12, 12), classes: int = 4
) -> Generator:
    asked = torch.arange(7) % classes
    return Generator(6, shape, classes, TrialStreams.of(rng()), asked, conditioning, latent=5, width=4, dropout=0.4)


def slow_images(own: Generator, weights: dict[str, Tensor], trial: int) -> Tensor:
    """One trial with PyTorch's own layers, in order."""
    m, streams = own.batch, own.streams
    conditions = draw_conditions(streams, STEP, m, own.classes, own.conditioning, own.hot, torch.float64)
    vectors = [streams.normal("latent", STEP, (m, own.latent), torch.float64)[trial]]
    if own.conditioning == "label":
        vectors.append(weights["embedding"][trial][conditions.labels[trial]])
    elif own.conditioning != "matrix":
        vectors.append(conditions.distribution[trial])
    features = torch.cat(vectors, dim=1) @ weights["start.weight"][trial]
    features = features.reshape(m, own.plan.start_channels, *own.plan.start)
    for layer in (None, *own.plan.hidden):
        name = "start" if layer is None else layer.name
        if layer is not None:
            deconvolution = nn.ConvTranspose2d(
                layer.channels_in, layer.channels_out, layer.kernel, layer.stride, layer.padding, bias=False
            )
            deconvolution.weight.data = weights[f"{name}.weight"][trial]
            features = deconvolution(features)
        norm = nn.BatchNorm2d(features.shape[1], dtype=torch.float64)
        norm.weight.data, norm.bias.data = weights[f"{name}.gain"][trial], weights[f"{name}.shift"][trial]
        features = nn.functional.leaky_relu(norm(features), 0.2)
        kept = streams.keep(f"dropout.{name}", STEP, features.shape[:2], own.dropout)[trial]
        features = features * kept[:, :, None, None] / (1 - own.dropout)
        if name == "grid" and "matrix" in own.conditioning:
            matrix = torch.zeros(m, 1, own.classes, own.classes, dtype=torch.float64)
            for index, label in enumerate(conditions.labels[trial].tolist()):
                matrix[index, 0, label, :] = matrix[index, 0, :, label] = 1
            features = torch.cat([features, matrix], dim=1)
    last = nn.ConvTranspose2d(features.shape[1], own.sample_shape[0], 3, padding=1)
    last.weight.data, last.bias.data = weights["image.weight"][trial], weights["image.shift"][trial]  # pyright: ignore[reportOptionalMemberAccess]
    return torch.sigmoid(last(features))


@pytest.mark.parametrize("conditioning", CONDITIONINGS)
def test_groups_of_one_convolution_are_generators_of_their_own(conditioning: Conditioning) -> None:
    own = generator(conditioning)
    weights = {name: value + 0.1 * torch.rand_like(value) for name, value in own.init(rng()).items()}
    images = own.generate(weights, STEP).images
    for trial in range(3):
        assert torch.allclose(images[trial], slow_images(own, weights, trial), atol=1e-12)


@pytest.mark.parametrize("conditioning", CONDITIONINGS)
def test_a_trial_alone_makes_what_it_makes_in_a_batch(conditioning: Conditioning) -> None:
    own, alone = generator(conditioning), generator(conditioning).for_trials(torch.tensor([1]))
    weights, own_weights = own.init(rng()), alone.init(rng((1,)))
    together, single = own.generate(weights, STEP), alone.generate(own_weights, STEP)
    assert set(weights) == set(own.names)
    assert all(torch.equal(weights[name][1:2], value) for name, value in own_weights.items())
    assert torch.allclose(together.images[1:2], single.images, atol=1e-12)
    assert torch.equal(together.conditions.labels[1:2], single.conditions.labels)


@pytest.mark.parametrize("hot", [False, True])
@pytest.mark.parametrize("conditioning", CONDITIONINGS)
def test_vector_matrix_and_hidden_label_say_the_same(conditioning: Conditioning, hot: bool) -> None:
    conditions = draw_conditions(TrialStreams.of(rng()), STEP, 200, 10, conditioning, hot)
    labels, distribution = conditions.labels, conditions.distribution
    assert torch.equal(distribution.argmax(dim=2), labels)
    assert torch.allclose(distribution.sum(dim=2), torch.ones(3, 200))
    certain = bool(((distribution == 0) | (distribution == 1)).all())
    assert certain == (hot or conditioning in ("label", "matrix"))
    matrix = hot_matrix(labels, 10, torch.float32)
    full = (matrix.sum(dim=3) == 10) & (matrix.sum(dim=2) == 10)
    assert torch.equal(full.nonzero()[:, 2], labels.flatten())
    assert bool((matrix.sum(dim=(2, 3)) == 19).all())
    assert labels.unique().tolist() == list(range(10))


@settings(max_examples=60, deadline=None)
@given(st.integers(4, 70), st.integers(4, 70), st.integers(2, 12), st.sampled_from(CONDITIONINGS))
def test_every_size_is_reached(height: int, width: int, classes: int, conditioning: Conditioning) -> None:
    """Shapes of the layers alone, on tensors without values."""
    matrix = uses_matrix(conditioning)
    if matrix and classes > min(height, width):
        return
    plan = upsampling_plan((3, height, width), classes, 8, matrix)
    features = torch.empty(1, plan.start_channels, *plan.start, device="meta")
    for layer in (*plan.hidden, plan.last):
        assert max(layer.kernel) <= max(4, max(height, width) // 2 + 1)
        weight = torch.empty(layer.channels_in, layer.channels_out, *layer.kernel, device="meta")
        features = nn.functional.conv_transpose2d(features, weight, stride=layer.stride, padding=layer.padding)
        if layer is plan.to_grid and matrix:
            assert features.shape[2:] == (classes, classes)
            features = torch.cat([features, features[:, :1]], dim=1)
    assert features.shape == (1, 3, height, width)


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (3, 17, 40)])
def test_images_of_any_size_lie_in_the_unit_range(shape: tuple[int, ...]) -> None:
    own = generator(shape=shape, classes=10)
    images = own.decode({name: 20 * value for name, value in own.init(rng()).items()})
    assert images.shape == (3, 7, *shape)
    assert images.min() >= 0
    assert images.max() <= 1
    free = replace(own, bounded=False).decode({name: 20 * value for name, value in own.init(rng()).items()})
    assert free.min() < 0


def test_a_batch_is_a_function_of_weights_and_step() -> None:
    own = generator()
    weights = own.init(rng())
    assert torch.equal(own.generate(weights, STEP).images, own.generate(weights, STEP).images)
    assert not torch.allclose(own.generate(weights, STEP).images, own.generate(weights, STEP + 1).images)
    assert torch.equal(own.decode(weights), own.shown(weights).images)


@pytest.mark.parametrize("hot", [False, True])
@pytest.mark.parametrize("conditioning", CONDITIONINGS)
def test_a_generator_shows_what_it_is_asked_for(conditioning: Conditioning, hot: bool) -> None:
    """Conditions hide the labels given, and a soft one has the values that it would have had for another label."""
    own = replace(generator(conditioning), hot=hot)
    conditions = own.shown(own.init(rng())).conditions
    assert torch.equal(conditions.labels, own.labels.expand(3, -1))
    assert torch.equal(conditions.distribution.argmax(dim=2), conditions.labels)
    step = own.unseen_step
    drawn = draw_conditions(own.streams, step, own.candidates, own.classes, conditioning, hot, torch.float64)
    assert torch.equal(conditions.distribution.sort(dim=2).values, drawn.distribution.sort(dim=2).values)


def test_the_matrix_and_the_latent_decide_about_the_image() -> None:
    """Another label changes an image, and another step does; a condition of nothing would change neither."""
    own = replace(generator(), hot=True, dropout=0.0)
    weights = own.init(rng())
    other = replace(own, labels=(own.labels + 1) % own.classes)
    assert not torch.allclose(own.decode(weights), other.decode(weights), atol=1e-3)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(RecollectError, match="choose the conditioning 'vector' or 'label'"):
        upsampling_plan((3, 32, 32), 100, 8, matrix=True)
    with pytest.raises(RecollectError, match="use another attack"):
        upsampling_plan((784,), 10, 8, matrix=True)
    with pytest.raises(RecollectError, match="unknown conditioning 'colour'"):
        draw_conditions(TrialStreams.of(rng()), STEP, 3, 10, "colour", hot=False)  # pyright: ignore[reportArgumentType]
