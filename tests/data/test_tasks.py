"""Selection, labels and mean of a task, against a plain loop in float64."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.core import RecollectError
from recollect.data import LabelledImages, heldout_set, training_set
from recollect.data.tasks import TASKS


def source_of(labels: list[int], shape: tuple[int, ...] = (1, 3, 2)) -> LabelledImages:
    images = torch.rand(len(labels), *shape, generator=torch.Generator().manual_seed(len(labels)))
    return LabelledImages(images, torch.tensor(labels), "mine")


SIGN_BY_TASK = {
    "odd_even": {label: 1 if label in (1, 3, 5, 7, 9) else -1 for label in range(10)},
    "vehicles_animals": {label: -1 if label in (2, 3, 4, 5, 6, 7) else 1 for label in range(10)},
    "binary": {2: -1, 5: 1},
}


def chosen_slowly(labels: list[int], task: str, per_class: int) -> tuple[list[int], list[int]]:
    """Walk the file once and keep a sample while its class has room."""
    room = {1: per_class, -1: per_class}
    kept = []
    for index, label in enumerate(labels):
        sign = SIGN_BY_TASK[task][label]
        if room[sign]:
            room[sign] -= 1
            kept.append((index, sign))
    return [index for index, _ in kept], [sign for _, sign in kept]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(TASKS)), st.data())
def test_first_of_each_class_in_file_order(task, data):
    signs = SIGN_BY_TASK[task]
    labels = data.draw(st.lists(st.sampled_from(sorted(signs)), min_size=2, max_size=40))
    counts = [sum(signs[label] == sign for label in labels) for sign in (-1, 1)]
    if min(counts) == 0:
        with pytest.raises(RecollectError):
            training_set(source_of(labels), task, 2)
        return
    per_class = data.draw(st.integers(1, min(counts)))
    source = source_of(labels)
    got = training_set(source, task, 2 * per_class)
    indices, y = chosen_slowly(labels, task, per_class)
    assert got.indices.tolist() == indices
    assert got.y.tolist() == y
    assert torch.equal(got.images, source.images[indices])
    mean = np.mean([source.images[index].numpy().astype(np.float64) for index in indices], axis=0)
    np.testing.assert_allclose(got.mean.numpy(), mean, rtol=1e-6)
    np.testing.assert_allclose(got.x.numpy(), source.images[indices].numpy() - mean, atol=1e-6)
    assert (got.x.dtype, got.mean.dtype, got.y.dtype, got.indices.dtype) == (
        torch.float32,
        torch.float32,
        torch.int64,
        torch.int64,
    )


def test_none_takes_everything_however_unequal():
    got = training_set(source_of([1, 3, 5, 0]), "odd_even", None)
    assert got.indices.tolist() == [0, 1, 2, 3]
    assert got.y.tolist() == [1, 1, 1, -1]


def test_plain_vectors_are_centred_too():
    got = training_set(source_of([0, 1, 0, 1], shape=(5,)), "binary", 4)
    assert got.x.shape == (4, 5)
    torch.testing.assert_close(got.x.double().mean(0), torch.zeros(5, dtype=torch.float64), atol=1e-7, rtol=0)


def test_heldout_keeps_the_training_mean():
    training = training_set(source_of([1, 0, 1, 0]), "odd_even", None)
    fresh = source_of([2, 4, 7, 6, 9, 1])
    got = heldout_set(fresh, "odd_even", 4, training.mean.double())
    assert got.indices.tolist() == [0, 1, 2, 4]
    assert torch.equal(got.mean, training.mean)
    assert torch.equal(got.x, fresh.images[[0, 1, 2, 4]] - training.mean)
    assert got.x.dtype == torch.float32
    assert len(heldout_set(fresh, "odd_even", None, training.mean).y) == 6


def test_heldout_of_another_shape_is_refused():
    with pytest.raises(RecollectError, match=r"shape \(1, 3, 2\) and the training mean has \(3, 3, 2\)"):
        heldout_set(source_of([0, 1]), "odd_even", None, torch.zeros(3, 3, 2))


@pytest.mark.parametrize(
    ("labels", "task", "n", "said"),
    [
        ([0, 1], "parity", 2, "no task 'parity'; choose one of odd_even, vehicles_animals, binary"),
        ([0, 1], "odd_even", 3, "n = 3 samples cannot be split"),
        ([0, 1], "odd_even", 0, "n = 0 samples cannot be split"),
        ([0, 1], "odd_even", -2, "n = -2 samples cannot be split"),
        ([0, 1, 1], "odd_even", 4, "has 1 labelled -1 and 2 labelled +1; ask for at most 2 in all"),
        ([1, 1, 3], "odd_even", 2, "has 0 labelled -1 and 3 labelled +1; choose another task"),
        ([1, 1, 3], "odd_even", None, "has 0 labelled -1 and 3 labelled +1; choose another task"),
        ([0, 5, 10], "vehicles_animals", 2, "needs the labels 0 to 9 of CIFAR-10, found 0 to 10"),
        ([-1, 5], "vehicles_animals", 2, "found -1 to 5"),
        ([0, 1, 2], "binary", 2, "exactly two distinct labels, found 3"),
        ([4, 4], "binary", 2, "exactly two distinct labels, found 1"),
    ],
)
def test_refusals(labels, task, n, said):
    with pytest.raises(RecollectError) as caught:
        training_set(source_of(labels), task, n)
    assert said in str(caught.value)
