"""Margins against a loop over samples and classes."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from recollect.check.margins import directions, margins, measure, require_labels
from recollect.core import RecollectError


@given(n=st.integers(1, 12), C=st.integers(2, 6), seed=st.integers(0, 1000))
def test_several_outputs_against_a_loop(n: int, C: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    outputs = torch.randn(n, C, generator=generator, dtype=torch.float64)
    y = torch.randint(0, C, (n,), generator=generator)
    expected = [
        row[label] - max(value for other, value in enumerate(row) if other != label)
        for row, label in zip(outputs.tolist(), y.tolist(), strict=True)
    ]
    torch.testing.assert_close(margins(outputs, y), torch.tensor(expected, dtype=torch.float64))
    u = directions(outputs, y)
    assert u.sum(dim=1).tolist() == [0] * n
    assert u.abs().sum(dim=1).tolist() == [2] * n
    wrong = (outputs.argmax(dim=1) != y).double().mean()
    assert measure(margins(outputs, y)).error == pytest.approx(float(wrong))


def test_near_the_smallest_positive_one() -> None:
    found = measure(torch.tensor([-3.0, 1.0, 1.1 - 1e-6, 1.11, 2.0, 2.1, 0.0]))
    assert found.samples == 7
    assert found.error == pytest.approx(2 / 7)
    assert (found.smallest, found.largest, found.within_tenth, found.within_twice) == (1.0, pytest.approx(2.1), 2, 4)


def test_no_sample_is_right() -> None:
    found = measure(torch.tensor([-3.0, -1.0]))
    assert (found.error, found.smallest, found.within_tenth, found.within_twice) == (1.0, None, 0, 0)


@pytest.mark.parametrize(
    ("y", "outputs", "expected"),
    [
        ([0, 1], 1, "for labels of +1 and -1, but the data have 0, 1"),
        ([-1, 1], 3, "3 outputs, for labels 0 to 2, but the data have -1, 1"),
        ([0, 3], 3, "but the data have 0, 3"),
        ([0, 1, 2], 3, "2 samples and labels of shape [3]"),
        ([[0], [1]], 3, "labels of shape [2, 1]"),
    ],
)
def test_labels_that_do_not_fit(y: list[int], outputs: int, expected: str) -> None:
    with pytest.raises(RecollectError) as caught:
        require_labels(torch.tensor(y), 2, outputs)
    assert expected in str(caught.value)
