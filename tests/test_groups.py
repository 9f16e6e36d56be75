"""Group laws as properties, and what is refused as a group."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from recollect.core import RecollectError
from recollect.groups import Group, own_group
from recollect.symmetries import chosen_group, generated, group_of, named_group, product, sampled

CASES = [
    ("trivial", (2, 3)),
    ("flip", (1, 2, 3)),
    ("klein4", (3, 2, 4)),
    ("rotations", (2, 3, 3)),
    ("d4", (1, 4, 4)),
    ("cyclic", (5, 2)),
    ("permutations", (4, 2)),
    ("flip*cyclic", (3, 2, 2)),
]


def turn(angle: float) -> Tensor:
    return torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]], dtype=torch.float64)


def matrix_group() -> Group:
    """Rotations of the plane by 60 degrees: no permutation does that."""
    return own_group([turn(k * math.pi / 3) for k in range(6)], (2,), "sixths")


GROUPS = [named_group(*case) for case in CASES] + [matrix_group()]


def samples(group: Group, seed: int, count: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, *group.sample_shape, generator=generator, dtype=torch.float64)


groups = st.sampled_from(GROUPS)
seeds = st.integers(0, 10_000)


@settings(deadline=None)
@given(groups, seeds)
def test_inverses_undo_and_lengths_stay(group: Group, seed: int) -> None:
    x = samples(group, seed, group.size)
    element = torch.arange(group.size)
    assert torch.allclose(group.move_back(group.move(x, element), element), x, atol=1e-12)
    assert torch.allclose(group.move(group.move_back(x, element), element), x, atol=1e-12)
    lengths = group.orbit(x).flatten(2).norm(dim=2)
    assert torch.allclose(lengths, x.flatten(1).norm(dim=1)[:, None].expand_as(lengths), rtol=1e-12)


@settings(deadline=None)
@given(groups, seeds)
def test_the_identity_comes_first_and_products_stay_inside(group: Group, seed: int) -> None:
    x = samples(group, seed)
    orbit = group.orbit(x)
    assert torch.allclose(orbit[:, 0], x, atol=1e-12)
    table = group.products()
    for a in range(group.size):
        for b in range(group.size):
            moved = group.move(orbit[:, b], torch.full((len(x),), a))
            assert torch.allclose(moved, orbit[:, table[a, b]], atol=1e-10)
    assert all(sorted(row.tolist()) == list(range(group.size)) for row in table)


@settings(deadline=None)
@given(groups, seeds)
def test_the_orbit_average_is_fixed_and_is_a_projection(group: Group, seed: int) -> None:
    x = samples(group, seed)
    average = group.orbit_average(x)
    assert torch.allclose(group.orbit(average), average.unsqueeze(1).expand_as(group.orbit(x)), atol=1e-12)
    assert float(average.norm()) < 1e-12 or bool(group.stabiliser(average).all())
    assert torch.allclose(group.orbit_average(average), average, atol=1e-12)
    assert torch.allclose(group.orbit_average(group.asymmetric(x)), torch.zeros_like(x), atol=1e-12)
    for element in range(group.size):
        moved = group.move(x, torch.full((len(x),), element))
        assert torch.allclose(group.orbit_average(moved), average, atol=1e-12)


@settings(deadline=None)
@given(groups, seeds)
def test_the_orbit_average_is_the_mean_of_the_orbit(group: Group, seed: int) -> None:
    x = samples(group, seed)
    expected = group.orbit(x).mean(dim=-len(group.sample_shape) - 1)
    assert torch.allclose(group.orbit_average(x), expected, atol=1e-12)


@settings(deadline=None)
@given(groups, seeds)
def test_pull_back_is_the_adjoint_of_the_orbit(group: Group, seed: int) -> None:
    x, weights = samples(group, seed), group.orbit(samples(group, seed + 1)).square()
    assert float((group.orbit(x) * weights).sum()) == pytest.approx(
        float((x * group.pull_back(weights)).sum()), rel=1e-10, abs=1e-10
    )


@settings(deadline=None)
@given(groups, seeds)
def test_stabilisers_are_subgroups_and_move_with_the_sample(group: Group, seed: int) -> None:
    x = samples(group, seed, 1)
    # Averaging over one element's cyclic subgroup makes a sample that this element fixes.
    element, table = seed % group.size, group.products()
    powers = [0]
    while int(table[element, powers[-1]]) != 0:
        powers.append(int(table[element, powers[-1]]))
    half = group.orbit(x)[:, powers].mean(dim=1)
    if float(half.norm()) < 1e-9:  # only the origin is fixed by a rotation of the plane
        return
    fixed = group.stabiliser(half, 1e-9)[0].nonzero().flatten().tolist()
    assert set(powers) <= set(fixed)
    assert {int(table[a, b]) for a in fixed for b in fixed} == set(fixed)
    assert group.size % len(fixed) == 0
    assert int(group.stabiliser(x)[0].sum()) == 1


def test_image_groups_do_what_their_names_say() -> None:
    image = torch.arange(9.0).reshape(1, 3, 3)
    assert torch.equal(named_group("flip", (1, 3, 3)).orbit(image)[1], image.flip(-1))

    def orbit_of(name: str) -> set[tuple[float, ...]]:
        return {tuple(moved.flatten().tolist()) for moved in named_group(name, (1, 3, 3)).orbit(image)}

    turned = [torch.rot90(image, k, (1, 2)) for k in range(4)]
    expected = {
        "klein4": [image, image.flip(-1), image.flip(-2), image.flip(-1, -2)],
        "rotations": turned,
        "d4": turned + [turn.flip(-1) for turn in turned],
    }
    for name, images in expected.items():
        assert orbit_of(name) == {tuple(moved.flatten().tolist()) for moved in images}


def test_set_groups_keep_elements_together() -> None:
    points = torch.tensor([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]])
    orbit = named_group("permutations", (3, 2)).orbit(points)
    assert orbit.shape == (6, 3, 2)
    assert torch.equal(orbit[..., 1], 10 * orbit[..., 0])
    assert {tuple(rows.tolist()) for rows in named_group("cyclic", (3, 2)).orbit(points)[..., 0]} == {
        (1.0, 2.0, 3.0),
        (2.0, 3.0, 1.0),
        (3.0, 1.0, 2.0),
    }


def test_callables_permutations_and_matrices_give_the_same_group() -> None:
    shape = (1, 2, 2)
    by_call = own_group([lambda x: x.flip(-1), lambda x: x], shape)
    by_place = own_group([[0, 1, 2, 3], [1, 0, 3, 2]], shape)
    by_matrix = own_group([torch.eye(4), torch.eye(4)[[1, 0, 3, 2]]], shape)
    x = samples(by_call, 0)
    for other in (by_place, by_matrix):
        assert torch.allclose(by_call.orbit(x), other.orbit(x))
        assert torch.allclose(by_call.pull_back(by_call.orbit(x).square()), other.pull_back(other.orbit(x).square()))
    assert by_call.permutes
    assert not by_matrix.permutes
    scaled = own_group([lambda x: x, lambda x: -x], shape)
    assert torch.allclose(scaled.orbit(x)[:, 1], -x)


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        ([], "at least the identity"),
        ([[0, 1, 2], [0, 0, 1]], "no permutation of 0, ..., 2"),
        ([[0, 1]], "has shape [2], samples have 3 values"),
        ([[1, 2, 0], [2, 0, 1]], "lacks the identity"),
        ([[0, 1, 2], [1, 2, 0]], "is not closed"),
        ([[0, 1, 2], [1, 0, 2], [1, 0, 2]], "has an element twice"),
        ([torch.eye(3), 2 * torch.eye(3)], "is not orthogonal"),
        ([lambda x: x, lambda x: 0 * x], "is not orthogonal"),
    ],
)
def test_what_is_no_group_is_refused_in_one_sentence(actions: list, expected: str) -> None:
    with pytest.raises(RecollectError) as caught:
        own_group(actions, (3,))
    assert expected in str(caught.value)
    assert str(caught.value).count(". ") == 0


def test_large_groups_are_sampled() -> None:
    with pytest.raises(RecollectError, match=r"more than 10000 elements.*permutations:64"):
        named_group("permutations", (10, 2))
    group = named_group("permutations:64", (10, 2))
    assert not group.whole
    x = samples(group, 0)
    element = torch.arange(3) + 5
    assert torch.equal(group.move_back(group.move(x, element), element), x)
    inverses = {tuple(row) for row in group.inverse_actions.tolist()}
    assert inverses == {tuple(row) for row in group.actions.tolist()}
    # The average over all orders is the mean over elements; samples come near it as the root of their number.
    many = sampled("orders", (10,), lambda generator: torch.randperm(10, generator=generator), 4000)
    values = samples(many, 1)
    assert float((many.orbit_average(values) - values.mean(dim=1, keepdim=True)).abs().max()) < 0.08


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("flips", (1, 4, 4), "did you mean 'flip'"),
        ("flip:3", (1, 4, 4), "there is no group 'flip:3'"),
        ("zzz", (1, 4, 4), "choose among trivial, flip"),
        ("d4", (1, 4, 5), "cannot be turned by 90 degrees"),
        ("flip", (4,), "cannot be mirrored"),
    ],
)
def test_names_that_are_none_and_samples_that_do_not_fit(name: str, shape: tuple[int, ...], expected: str) -> None:
    with pytest.raises(RecollectError) as caught:
        named_group(name, shape)
    assert expected in str(caught.value)


def test_products_of_groups() -> None:
    shape = (2, 2, 2)
    both = product(named_group("flip", shape), named_group("cyclic", shape))
    assert both.size == 4
    with pytest.raises(RecollectError, match="same samples"):
        product(named_group("flip", shape), named_group("flip", (1, 2, 2)))
    three = generated("three", (4,), [torch.tensor([1, 2, 0, 3])])
    with pytest.raises(RecollectError, match="not closed"):
        product(three, generated("two", (4,), [torch.tensor([3, 1, 2, 0])]))


def test_the_group_of_a_network() -> None:
    net = torch.nn.Linear(4, 1)
    assert group_of(net, (4,)).trivial
    net.group = named_group("cyclic", (4,))
    assert group_of(net, (4,)).size == 4
    assert chosen_group("model", net, (4,)).size == 4
    assert chosen_group("trivial", net, (4,)).size == 1
    with pytest.raises(RecollectError, match=r"acts on samples of shape \[4\]"):
        group_of(net, (2, 2))


def test_matrices_act_on_samples_in_their_own_precision() -> None:
    quarter = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)
    turns = own_group([torch.linalg.matrix_power(quarter, k) for k in range(4)], (2,))
    x = torch.rand(5, 2)
    assert turns.orbit(x).dtype == torch.float32
    assert torch.allclose(turns.orbit_average(x), torch.zeros(5, 2), atol=1e-6)
    assert turns.stabiliser(x)[:, 0].all()
    assert torch.allclose(turns.pull_back(turns.orbit(x)), 4 * x, atol=1e-6)
    assert torch.allclose(turns.move_back(turns.move(x, torch.arange(5) % 4), torch.arange(5) % 4), x, atol=1e-6)


def test_a_network_may_name_its_group() -> None:
    net = nn.Linear(4, 1)
    net.group = "flip"  # pyright: ignore[reportAttributeAccessIssue, reportArgumentType]
    assert group_of(net, (1, 2, 2)).name == "flip"
    net.group = "flipp"  # pyright: ignore[reportAttributeAccessIssue, reportArgumentType]
    with pytest.raises(RecollectError, match="did you mean 'flip'"):
        group_of(net, (1, 2, 2))
