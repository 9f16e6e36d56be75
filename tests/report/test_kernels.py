"""Kernels of a convolution as images, in the report of a network that has them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from recollect.report import write_report
from recollect.report.folder import read_run
from recollect.report.grid import GAP, TITLE_HEIGHT
from recollect.report.kernels import kernels

CONV = {"kind": "conv", "kernel": 3, "channels": 5, "hidden": [8], "outputs": 1}


def with_kernels(folder: Path, weight: torch.Tensor | None) -> Path:
    model = json.loads((folder / "model" / "model.json").read_text())
    (folder / "model" / "model.json").write_text(json.dumps(model | {"architecture": CONV}))
    tensors = {"layers.3.weight": torch.zeros(8, 4)} | ({} if weight is None else {"layers.0.weight": weight})
    save_file(tensors, folder / "model" / "weights.safetensors")
    return folder


@pytest.mark.parametrize("channels", [1, 3])
def test_each_kernel_is_stretched_and_enlarged(make_run, channels: int) -> None:
    weight = torch.randn(5, channels, 3, 3, generator=torch.Generator().manual_seed(1))
    folder = with_kernels(make_run((channels, 6, 7)), weight)
    page = write_report(folder).read_text()
    assert "5 kernels of 3 x 3 as images" in page
    assert page.count("<img ") == 1
    picture = np.asarray(Image.open(folder / "figures" / "kernels.png").convert("RGB"))
    scale = round(56 / 3)
    second = weight[1].double()
    expected = (second - second.min()) / (second.max() - second.min())
    left = GAP + (3 * scale + GAP)
    for row in range(3):
        for column in range(3):
            pixel = picture[TITLE_HEIGHT + row * scale + 5, left + column * scale + 5] / 255
            assert pixel == pytest.approx(expected[:, row, column].expand(3).numpy(), abs=0.003)


@pytest.mark.parametrize("weight", [None, torch.zeros(5, 2, 3, 3), torch.zeros(5, 12)], ids=["none", "two", "flat"])
def test_what_is_no_picture_is_not_drawn(make_run, weight: torch.Tensor | None) -> None:
    folder = with_kernels(make_run(), weight)
    assert "Kernels of the first layer" not in write_report(folder).read_text()
    assert not (folder / "figures" / "kernels.png").exists()


def test_a_perceptron_has_no_kernels(make_run) -> None:
    assert kernels(read_run(make_run())) is None
