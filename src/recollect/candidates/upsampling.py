"""From a vector to an image in a few transposed convolutions: the grids on the way, and the layers between them."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from recollect.core import RecollectError


@dataclass(frozen=True)
class Layer:
    """A transposed convolution; sizes are (rows, columns)."""

    name: str
    channels_in: int
    channels_out: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]

    @property
    def fan_in(self) -> float:
        """Products that meet in one output value, on average."""
        return self.channels_in * self.kernel[0] * self.kernel[1] / (self.stride[0] * self.stride[1])


@dataclass(frozen=True)
class Plan:
    """A start grid, the layer onto the grid where a matrix joins, the layers to the image's size, and the last one."""

    start: tuple[int, int]
    start_channels: int
    to_grid: Layer
    to_image: tuple[Layer, ...]
    last: Layer

    @property
    def hidden(self) -> tuple[Layer, ...]:
        return (self.to_grid, *self.to_image)


def upsampling_plan(sample_shape: tuple[int, ...], classes: int, width: int, matrix: bool) -> Plan:
    """Grids double up to ``N x N``, where the matrix joins, and from the last half of the image on; one layer bridges.

    With 10 classes: 5, 10, 14, 28 or 5, 10, 16, 32. Without a matrix the grid need not be N x N, and is smaller where
    the image is smaller than twice that.

    >>> plan = upsampling_plan((1, 28, 28), classes=10, width=64, matrix=True)
    >>> plan.start, [(layer.name, layer.kernel, layer.stride) for layer in plan.hidden]
    ((5, 5), [('grid', (4, 4), (2, 2)), ('bridge', (5, 5), (1, 1)), ('double1', (4, 4), (2, 2))])
    """
    channels, sides = _checked(sample_shape, classes, matrix)
    grid = tuple(classes if matrix else min(classes, max(2, side // 2)) for side in sides)
    start = (ceil(grid[0] / 2), ceil(grid[1] / 2))
    paths = [_halvings(side, below) for side, below in zip(sides, grid, strict=True)]
    bridge = Layer(
        "bridge",
        width + matrix,
        width,
        *_across(*(_bridging(below, path[0]) for below, path in zip(grid, paths, strict=True))),
    )
    longest = max(len(path) for path in paths)
    doubles, before = [], width
    for index in range(1, longest):
        after = max(before // 2, min(width, 16))
        moves = (_doubling(path[index - longest]) if index > longest - len(path) else _KEEPING for path in paths)
        doubles.append(Layer(f"double{index}", before, after, *_across(*moves)))
        before = after
    return Plan(
        start=start,
        start_channels=2 * width,
        to_grid=Layer("grid", 2 * width, width, *_across(*(_doubling(side) for side in grid))),
        to_image=(bridge, *doubles),
        last=Layer("image", before, channels, *_across(_KEEPING, _KEEPING)),
    )


_Move = tuple[int, int, int]
"""Kernel, stride and padding along one axis."""

_KEEPING: _Move = (3, 1, 1)


def _doubling(after: int) -> _Move:
    """From ``ceil(after / 2)`` to ``after``."""
    return (4, 2, 1) if after % 2 == 0 else (3, 2, 1)


def _bridging(before: int, after: int) -> _Move:
    return _KEEPING if before == after else (after - before + 1, 1, 0)


def _halvings(side: int, least: int) -> list[int]:
    """``side`` halved as often as it stays at or above ``least``, smallest first."""
    path = [side]
    while ceil(path[0] / 2) >= least:
        path.insert(0, ceil(path[0] / 2))
    return path


def _across(rows: _Move, columns: _Move) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
    return (rows[0], columns[0]), (rows[1], columns[1]), (rows[2], columns[2])


def _checked(sample_shape: tuple[int, ...], classes: int, matrix: bool) -> tuple[int, tuple[int, int]]:
    if len(sample_shape) != 3 or min(sample_shape[1:]) < 4:
        raise RecollectError(
            f"a generator makes images [channels, height, width] of at least 4 x 4 pixels, the samples have shape "
            f"{list(sample_shape)}; use another attack for these."
        )
    channels, height, width = sample_shape
    if matrix and classes > min(height, width):
        raise RecollectError(
            f"a conditioning matrix of {classes} classes is {classes} x {classes}, larger than images of {height} x "
            f"{width}; choose the conditioning 'vector' or 'label'."
        )
    return channels, (height, width)
