"""``RECOLLECT_DATA=folder python -m benchmarks.trivial_images``: what Table 1 of Elbaz et al. 2024 gives for no attack.

Mean DSSIM of images that need no network: the mean of the training set, that of the sample's class, a black and a grey
one. The last two have a black and a white pixel in a corner, so that stretching leaves them as they are. A method that
scores no better than they do has shown nothing by its DSSIM alone.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor

from benchmarks.table1 import PUBLISHED
from recollect.analysis.metrics import SCALINGS, ssim
from recollect.config import with_settings
from recollect.datasets import training_data
from recollect.presets import load_preset

TASKS = {"mnist": "odd_even", "cifar10": "vehicles_animals"}


def dssim(shown: Tensor, images: Tensor, scaling: str, window: int) -> float:
    return float((1 - ssim(SCALINGS[scaling](shown), images, window).mean()) / 2)


def nearly(grey: float, like: Tensor) -> Tensor:
    """One value everywhere but at two pixels."""
    flat = torch.full_like(like, grey)
    flat[..., 0, 0], flat[..., 0, 1] = 0.0, 1.0
    return flat


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    print("| data, n | scaling, window | mean image | mean of the class | black | grey |\n|---|---|---|---|---|---|")
    for name, n in dict.fromkeys((name, n) for name, _, n in PUBLISHED):
        chosen = {"data.name": name, "data.task": TASKS[name], "data.n": n}
        data = training_data(with_settings(load_preset("elbaz-mnist-flip-n50"), chosen, "benchmark"))
        images = (data.x + data.mean).float()
        of_class = torch.stack([images[data.y == label].mean(dim=0) for label in data.y])
        shown = (data.mean.float().expand_as(images), of_class, nearly(0.0, images), nearly(0.5, images))
        for scaling in SCALINGS:
            for window in (3, 11):
                cells = " | ".join(f"{dssim(each, images, scaling, window):.3f}" for each in shown)
                print(f"| {name}, {n} | {scaling}, {window} | {cells} |")


if __name__ == "__main__":
    main()
