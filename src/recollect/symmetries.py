"""Groups by name: reflections and rotations of images, orders of the elements of a set, products, samples of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import reduce

import torch
from jaxtyping import Int
from torch import Tensor, nn

from recollect.core import RecollectError
from recollect.groups import Group, own_group

LARGEST = 10_000
"""Groups of more elements are not listed but sampled."""

Positions = Int[Tensor, " d"]


def trivial(sample_shape: tuple[int, ...]) -> Group:
    """The identity alone."""
    return generated("trivial", sample_shape, [])


def generated(name: str, sample_shape: tuple[int, ...], generators: Sequence[Positions]) -> Group:
    """All products of some permutations of the flattened sample.

    >>> generated("turns", (3,), [torch.tensor([1, 2, 0])]).size
    3
    """
    d = math.prod(sample_shape)
    steps = [tuple(generator.tolist()) for generator in generators]
    found = {tuple(range(d)): None}
    edge = list(found)
    while edge:
        made = [tuple(element[position] for position in step) for element in edge for step in steps]
        edge = [element for element in dict.fromkeys(made) if element not in found]
        found.update(dict.fromkeys(edge))
        if len(found) > LARGEST:
            raise RecollectError(
                f"the group '{name}' of samples {list(sample_shape)} has more than {LARGEST} elements; take some of "
                "them at random, such as 'permutations:64'."
            )
    return _listed(name, sample_shape, torch.tensor(list(found)))


def sampled(
    name: str, sample_shape: tuple[int, ...], draw: Callable[[torch.Generator], Positions], count: int, seed: int = 0
) -> Group:
    """About ``count`` random elements of a group too large to list: the identity, draws, and their inverses.

    Orbit averages over them approximate those over the group; a distance over them is at least that over the group.

    >>> sampled("orders", (10,), lambda generator: torch.randperm(10, generator=generator), 16).size
    17
    """
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.stack([draw(generator) for _ in range(max(1, count // 2))])
    actions = torch.cat([torch.arange(drawn.shape[1])[None], drawn, drawn.argsort(dim=1)])
    return _listed(name, sample_shape, actions.unique(dim=0), whole=False)


def product(first: Group, second: Group) -> Group:
    """All products of two groups that act on the same samples; together they must be a group."""
    if first.sample_shape != second.sample_shape or not (first.permutes and second.permutes):
        raise RecollectError(
            f"the groups '{first.name}' and '{second.name}' do not act on the same samples by permutations "
            f"({list(first.sample_shape)}, {list(second.sample_shape)}); their product is not defined."
        )
    actions = second.actions[:, first.actions].flatten(0, 1).unique(dim=0)
    return own_group(list(actions), first.sample_shape, f"{first.name}*{second.name}")


def checked_name(name: str) -> str:
    """The name itself, when there is such a group; whether it suits the samples shows when it is made."""
    for part in name.split("*"):
        own, colon, count = part.partition(":")
        if own not in GENERATORS or (colon and not (own == "permutations" and count.isdecimal() and int(count) > 1)):
            near = get_close_matches(own, GENERATORS, n=1)
            hint = f"did you mean '{near[0]}'" if near and near[0] != own else f"choose among {', '.join(GENERATORS)}"
            raise ValueError(f"there is no group '{part}'; {hint}, products such as 'flip*cyclic', 'permutations:64'")
    return name


def named_group(name: str, sample_shape: tuple[int, ...]) -> Group:
    """A group by name: ``d4``, a product ``flip*cyclic``, or ``permutations:64``, so many of them at random.

    >>> [named_group(name, (1, 4, 4)).size for name in ("trivial", "flip", "klein4", "rotations", "d4")]
    [1, 2, 4, 4, 8]
    >>> named_group("permutations", (3, 2)).size, named_group("permutations:64", (10, 2)).whole
    (6, False)
    """
    try:
        parts = checked_name(name).split("*")
    except ValueError as error:
        raise RecollectError(f"{error}.") from error
    return reduce(product, [_one_named(part, tuple(sample_shape)) for part in parts])


def group_of(net: nn.Module, sample_shape: tuple[int, ...]) -> Group:
    """The group a network says it is invariant to, as its attribute ``group``; the trivial one when it says nothing.

    A name will do, such as ``net.group = "flip"``.
    """
    found = getattr(net, "group", None)
    if isinstance(found, str):
        return named_group(found, sample_shape)
    if not isinstance(found, Group):
        return trivial(sample_shape)
    if found.sample_shape != tuple(sample_shape):
        raise RecollectError(
            f"the network's group acts on samples of shape {list(found.sample_shape)}, its inputs have "
            f"{list(sample_shape)}; give the network a group that fits."
        )
    return found


def chosen_group(name: str, net: nn.Module, sample_shape: tuple[int, ...]) -> Group:
    """``model`` is the network's own group; anything else is the name of one."""
    return group_of(net, sample_shape) if name == "model" else named_group(name, sample_shape)


def _one_named(name: str, sample_shape: tuple[int, ...]) -> Group:
    own, _, count = name.partition(":")
    places = torch.arange(math.prod(sample_shape)).reshape(sample_shape)
    if not count:
        return generated(own, sample_shape, [place.flatten() for place in GENERATORS[own](places)])

    def order(generator: torch.Generator) -> Positions:
        return places[torch.randperm(len(places), generator=generator)].flatten()

    return sampled(name, sample_shape, order, int(count))


def _listed(name: str, sample_shape: tuple[int, ...], actions: Int[Tensor, "g d"], whole: bool = True) -> Group:
    """Sorted, so that the identity comes first and the order does not depend on how elements were found."""
    ordered = actions.unique(dim=0)
    return Group(name, tuple(sample_shape), ordered, ordered.argsort(dim=1), whole)


def _images(places: Tensor, square: bool = False) -> Tensor:
    if places.ndim < 2 or (square and places.shape[-1] != places.shape[-2]):
        raise RecollectError(
            f"samples of shape {list(places.shape)} cannot be {'turned by 90 degrees' if square else 'mirrored'}; "
            f"choose a group for {'square images' if square else 'images'} only where the samples are such."
        )
    return places


GENERATORS: dict[str, Callable[[Tensor], list[Tensor]]] = {
    "trivial": lambda places: [],
    "flip": lambda places: [_images(places).flip(-1)],
    "klein4": lambda places: [_images(places).flip(-1), places.flip(-2)],
    "rotations": lambda places: [torch.rot90(_images(places, square=True), 1, (-2, -1))],
    "d4": lambda places: [torch.rot90(_images(places, square=True), 1, (-2, -1)), places.flip(-1)],
    "cyclic": lambda places: [places.roll(1, 0)],
    "permutations": lambda places: (
        [places.roll(1, 0), places[[1, 0, *range(2, len(places))]]] if len(places) > 1 else []
    ),
}
"""From numbered positions of a sample to permutations that generate the group. Sets are along a sample's first axis."""
