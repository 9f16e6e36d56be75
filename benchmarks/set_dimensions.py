"""``python -m benchmarks.set_dimensions``: the preset point-set, with points in fewer dimensions.

How well training clouds match a candidate up to the order of their points, beside held-out clouds, by NCC.
"""

from __future__ import annotations

import argparse

import torch
from rich.console import Console
from rich.table import Table

from recollect import attack, judge
from recollect.check import check_network
from recollect.data import clouds
from recollect.presets import load_preset
from recollect.stages.judging import match_rule
from recollect.symmetries import group_of
from recollect.zoo import build_network
from recollect.zoo.training import train


def row(dimensions: int) -> list[str]:
    config, device = load_preset("point-set"), torch.device("cpu")
    data, heldout = clouds(10, values=dimensions), clouds(1000, held_out=True, values=dimensions)
    shape = tuple(data.x.shape[1:])
    net = build_network(config.model, shape, config.seed)
    train(net, data.x, data.y, config.training, config.seed, device)
    residual = check_network(net, shape, x=data.x, y=data.y, loss=config.training.loss, device=device).residual
    assert residual is not None
    pool = attack(net, shape, config.attack, config.seed, "cpu").pool
    found = judge(pool, data.x, data.mean, heldout.x, match_rule(config, group_of(net, shape)), "ncc")
    assert found.null is not None
    assert found.recovered is not None
    own, null = found.matches.ncc, found.null.ncc
    return [
        str(dimensions),
        f"{own.max():.2f}, {own.median():.2f}, {own.min():.2f}",
        f"{null.median():.2f}, {null.quantile(0.99):.2f}",
        f"{int(found.recovered.sum())} of {len(own)}",
        f"{residual.first_layer.relative:.2f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dimensions", nargs="+", type=int, default=[2, 8, 16, 32, 64])
    table = Table("dimensions", "training: best, median, worst", "held-out: median, 99%", "recovered", "residual")
    for dimensions in parser.parse_args().dimensions:
        table.add_row(*row(dimensions))
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
