"""Judgement of generated images against scipy, against loops over pairs, and on cases whose answer is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from prdc import compute_prdc
from scipy import linalg
from torch import Tensor

from recollect.analysis.coverage import density_and_coverage
from recollect.analysis.frechet import frechet_distance
from recollect.analysis.generated import agreement, class_agreement, feature_similarity, similarity_within_classes
from recollect.analysis.membership import member_advantage, nearest_label, nearest_ncc, nearest_training
from recollect.analysis.metrics import ncc
from recollect.core import RecollectError


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(("n", "k", "f"), [(60, 40, 7), (6, 9, 12), (30, 30, 1)])
def test_the_frechet_distance_is_that_of_a_matrix_root(n: int, k: int, f: int) -> None:
    """With fewer samples than features the covariances are singular."""
    a, b = drawn(n, f) @ drawn(f, f, seed=1), 0.5 * drawn(k, f, seed=2) + 1
    first, second = (np.atleast_2d(np.cov(rows.numpy().T)) for rows in (a, b))
    root = linalg.sqrtm(first @ second)
    apart = ((a.mean(dim=0) - b.mean(dim=0)) ** 2).sum()
    wanted = float(apart) + np.trace(first + second - 2 * root).real
    assert frechet_distance(a, b) == pytest.approx(wanted, rel=1e-5)
    assert frechet_distance(a, b) == pytest.approx(frechet_distance(b, a), rel=1e-6)


def test_features_of_two_networks_do_not_compare() -> None:
    with pytest.raises(RecollectError, match="the same layer of the same network"):
        frechet_distance(drawn(4, 3), drawn(4, 2))
    with pytest.raises(RecollectError, match="at least two"):
        frechet_distance(drawn(1, 3), drawn(4, 3))


@pytest.mark.parametrize("neighbours", [1, 3, 5])
def test_density_and_coverage_are_those_of_their_authors(neighbours: int) -> None:
    real, made = drawn(70, 5), 0.7 * drawn(50, 5, seed=1) + 0.6
    wanted = compute_prdc(real.numpy(), made.numpy(), neighbours)
    density, coverage = density_and_coverage(made, real, neighbours)
    assert 0 < coverage < 1
    assert density == pytest.approx(wanted["density"])
    assert coverage == pytest.approx(wanted["coverage"])


def test_one_real_image_again_and_again_is_dense_and_covers_little() -> None:
    real = drawn(40, 3)
    middle = real[real.norm(dim=1).argmin()]
    density, coverage = density_and_coverage(middle.repeat(40, 1), real)
    assert density > 0.5
    assert coverage < 0.5


def test_density_needs_real_images_of_the_same_features() -> None:
    with pytest.raises(RecollectError, match=r"of more than 5 real images, got \[9, 2\] and \[5, 2\]"):
        density_and_coverage(drawn(9, 2), drawn(5, 2))


def test_agreement_counts_for_each_generator_and_class() -> None:
    labels = torch.tensor([[0, 1, 2, 2], [0, 0, 1, 1]])
    outputs = torch.nn.functional.one_hot(torch.tensor([[0, 1, 2, 0], [1, 2, 0, 1]]), 4).double()
    assert agreement(outputs, labels).tolist() == [0.75, 0.25]
    by_class = class_agreement(outputs[0], labels[0], 4).tolist()
    assert by_class[:3] == [1, 1, 0.5]
    assert math.isnan(by_class[3])


def test_similarity_is_the_mean_over_pairs() -> None:
    features, labels = drawn(2, 6, 5), torch.tensor([0, 0, 0, 1, 1, 2])

    def cosine(i: int, j: int) -> float:
        return float(torch.nn.functional.cosine_similarity(features[1, i], features[1, j], dim=0))

    pairs = [(i, j) for i in range(6) for j in range(6) if i != j]
    within = [cosine(i, j) for i, j in pairs if labels[i] == labels[j]]
    assert float(feature_similarity(features)[1]) == pytest.approx(np.mean([cosine(*pair) for pair in pairs]))
    assert similarity_within_classes(features[1], labels) == pytest.approx(np.mean(within))
    assert math.isnan(similarity_within_classes(features[1], torch.arange(6)))


def wanted_at(values: list[float]) -> int:
    return values.index(max(values))


def test_the_nearest_image_is_found_among_all() -> None:
    samples, references = drawn(5, 1, 4, 4), drawn(7, 1, 4, 4, seed=3)
    wanted = [max(float(ncc(one[None], other[None])) for other in references) for one in samples]
    assert nearest_ncc(samples, references).tolist() == pytest.approx(wanted)
    labels = torch.tensor([4, 4, 7, 1, 0, 7, 2])
    first = [wanted_at([float(ncc(one[None], other[None])) for other in references]) for one in samples]
    assert nearest_label(samples, references, labels).tolist() == [int(labels[index]) for index in first]


def test_references_stand_beside_the_nearest_training_image() -> None:
    training, labels, held_out = drawn(8, 1, 4, 4), torch.arange(8) % 2, drawn(5, 1, 4, 4, seed=3)
    found = nearest_training(3 * training[:2] + 1, training, labels, held_out)
    means = torch.stack([training[::2].mean(dim=0), training[1::2].mean(dim=0)])
    assert found.generated == pytest.approx(1)
    assert found.class_means == pytest.approx(float(nearest_ncc(means, training).mean()))
    assert found.held_out == pytest.approx(float(nearest_ncc(held_out, training).mean()))


def test_copies_of_training_images_have_an_advantage_and_strangers_none() -> None:
    training, held_out = drawn(40, 1, 4, 4), drawn(60, 1, 4, 4, seed=3)
    copies = member_advantage(training + 0.1 * drawn(40, 1, 4, 4, seed=4), training, held_out)
    assert copies.references == 40
    assert 0.1 < copies.low < copies.mean < copies.high
    assert copies.share == 1
    assert copies.luck == pytest.approx(1 / 201)
    strangers = member_advantage(drawn(200, 1, 4, 4, seed=5), training, held_out)
    assert abs(strangers.mean) < 0.03
    assert strangers.luck > 0.05
    turned = member_advantage(held_out[:40], training, held_out[:40])
    assert turned.high < 0
    assert turned.share == 0


def test_one_image_near_to_everything_does_not_pass_for_evidence() -> None:
    """All generated images are like one training image: the bootstrap is sure, the divisions are not."""
    training, held_out = drawn(30, 1, 4, 4), drawn(30, 1, 4, 4, seed=3)
    one = member_advantage(training[:1] + 0.05 * drawn(100, 1, 4, 4, seed=4), training, held_out)
    assert one.low > 0
    assert one.luck > 0.3


def test_an_advantage_needs_images_of_both_kinds() -> None:
    with pytest.raises(RecollectError, match="give at least one of each"):
        member_advantage(drawn(3, 1, 4, 4), drawn(3, 1, 4, 4), drawn(0, 1, 4, 4))
    with pytest.raises(RecollectError, match="of one shape"):
        member_advantage(drawn(3, 1, 4, 4), drawn(3, 1, 4, 4), drawn(3, 1, 5, 4))
    with pytest.raises(RecollectError, match="a level"):
        member_advantage(drawn(3, 1, 4, 4), drawn(3, 1, 4, 4), drawn(3, 1, 4, 4), level=1.5)
