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
@given(st.sampled_from(sorted(SIGN_BY_TASK)), st.data())
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


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_first_of_each_of_several_classes_in_file_order(data):
    labels = data.draw(st.lists(st.sampled_from([-4, 0, 3, 5, 90]), min_size=2, max_size=40))
    distinct = sorted(set(labels))
    classes = data.draw(st.none() | st.integers(2, 5))
    kept = distinct if classes is None else distinct[:classes]
    if len(distinct) < (classes or 2):
        with pytest.raises(RecollectError):
            training_set(source_of(labels), "classes", None, classes)
        return
    per_class = data.draw(st.integers(1, min(labels.count(label) for label in kept)))
    got = training_set(source_of(labels), "classes", per_class * len(kept), classes)
    room = dict.fromkeys(kept, per_class)
    chosen = []
    for index, label in enumerate(labels):
        if room.get(label):
            room[label] -= 1
            chosen.append((index, kept.index(label)))
    assert list(zip(got.indices.tolist(), got.y.tolist(), strict=True)) == chosen
    assert (got.labels, got.classes) == (tuple(kept), len(kept))
    assert got.y.dtype == torch.int64
    everything = training_set(source_of(labels), "classes", None, classes)
    assert everything.y.tolist() == [kept.index(label) for label in labels if label in kept]


def test_a_class_is_the_same_one_in_heldout_data():
    training = training_set(source_of([3, 9, 5, 3]), "classes", None)
    assert (training.y.tolist(), training.labels) == ([0, 2, 1, 0], (3, 5, 9))
    got = heldout_set(source_of([9, 1, 5, 9, 3, 3]), "classes", 3, training.mean, training.labels)
    assert (got.indices.tolist(), got.y.tolist(), got.labels) == ([0, 2, 4], [2, 1, 0], (3, 5, 9))
    assert torch.equal(got.mean, training.mean)
    with pytest.raises(RecollectError, match="has only 0 labelled 5; choose another task or other data"):
        heldout_set(source_of([3, 9, 9]), "classes", None, training.mean, training.labels)
    with pytest.raises(RecollectError, match="'classes' came without the labels of the training set"):
        heldout_set(source_of([3, 9, 5]), "classes", None, training.mean)
    with pytest.raises(RecollectError, match="'binary' came with the labels of the training set"):
        heldout_set(source_of([3, 9]), "binary", None, training.mean, training.labels)


def test_binary_tasks_have_no_classes():
    assert (training_set(source_of([0, 1]), "binary", 2).labels, TASKS[-1]) == (None, "classes")


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
        ([0, 1], "parity", 2, "no task 'parity'; choose one of odd_even, vehicles_animals, binary, classes"),
        ([0, 1], "odd_even", 3, "n = 3 samples cannot be split"),
        ([0, 1], "odd_even", 0, "n = 0 samples cannot be split"),
        ([0, 1], "odd_even", -2, "n = -2 samples cannot be split"),
        ([0, 1, 1], "odd_even", 4, "has only 1 labelled -1; ask for at most 2 in all"),
        ([1, 1, 3], "odd_even", 2, "has only 0 labelled -1; choose another task"),
        ([1, 1, 3], "odd_even", None, "has only 0 labelled -1; choose another task"),
        ([0, 5, 10], "vehicles_animals", 2, "needs the labels 0 to 9 of CIFAR-10, found 0 to 10"),
        ([-1, 5], "vehicles_animals", 2, "found -1 to 5"),
        ([0, 1, 2], "binary", 2, "exactly two distinct labels, found 3"),
        ([4, 4], "binary", 2, "exactly two distinct labels, found 1"),
        (
            [0, 1, 2, 2],
            "classes",
            4,
            "n = 4 samples cannot be split into 3 equal classes; the nearest number that can is 3",
        ),
        ([0, 1, 2], "classes", 2, "the nearest number that can is 3"),
        ([0, 1, 2, 0, 1], "classes", 6, "has only 1 labelled 2; ask for at most 3 in all"),
        ([4, 4], "classes", 2, "1 of the 1 labels in 'mine' were asked for; choose other data"),
    ],
)
def test_refusals(labels, task, n, said):
    with pytest.raises(RecollectError) as caught:
        training_set(source_of(labels), task, n)
    assert said in str(caught.value)


def test_it_is_said_which_setting_asks_for_too_many():
    few = source_of([0, 1, 1])
    with pytest.raises(RecollectError, match=r"ask for at most 2 in all \(data\.n\)"):
        training_set(few, "odd_even", 4)
    with pytest.raises(RecollectError, match=r"ask for at most 2 in all \(data\.holdout_count\)"):
        heldout_set(few, "odd_even", 4, torch.zeros(few.images.shape[1:]))


def test_classes_are_counted_and_belong_to_their_task():
    with pytest.raises(RecollectError, match="4 of the 3 labels in 'mine' were asked for; ask for 2 to 3"):
        training_set(source_of([0, 1, 2]), "classes", None, classes=4)
    with pytest.raises(RecollectError, match="classes = 2 goes with the task 'classes', got the task 'binary'"):
        training_set(source_of([0, 1]), "binary", None, classes=2)
