"""The section about generated images: its picture pixel by pixel, its table cell by cell, and what damage does."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from recollect.core import RecollectError
from recollect.report.class_grid import class_grid, generated_grid
from recollect.report.generated import score_rows

RECORD = {
    "images": 4,
    "generators": [{"attack_accuracy": 0.5}, {"attack_accuracy": 0.75}],
    "mean": {"attack_accuracy": 0.625, "frechet_training": 123.456, "class_feature_cosine": 0.9},
    "deviation": {"attack_accuracy": 0.125, "frechet_training": 1.25, "class_feature_cosine": None},
    "pooled": {"member_luck": 0.5},
    "references": {"held_out_accuracy_classifier": 0.98, "real_frechet": 17.0},
}


def write(folder: Path, images: torch.Tensor, nearest: torch.Tensor, labels: list[int]) -> None:
    (folder / "generated.json").write_text(json.dumps(RECORD))
    tensors = {"images": images, "nearest": nearest.clone(), "labels": torch.tensor(labels)}
    save_file(tensors, folder / "generated.safetensors")


def test_every_tile_is_where_its_class_and_generator_say() -> None:
    """28 pixels are enlarged twice: tiles are 58 apart, a margin of 32 to the left and of 17 above."""
    images = torch.arange(6).reshape(3, 2, 1, 1, 1).expand(3, 2, 3, 28, 28) / 10
    nearest = images + 0.4
    pixels = np.asarray(class_grid(images, nearest, [0, 1, 2], ["1", "2"])).astype(float) / 255
    for row in range(3):
        for column in range(2):
            centre = (17 + row * 58 + 28, 32 + column * 58 + 28)
            assert pixels[centre] == pytest.approx(float(images[row, column, 0, 0, 0]), abs=0.01)
            beside = (centre[0], centre[1] + 2 * 58 + 16)
            assert pixels[beside] == pytest.approx(float(nearest[row, column, 0, 0, 0]), abs=0.01)


def test_a_table_of_means_deviations_and_real_images() -> None:
    rows = {row[0]: row[1:] for row in score_rows({"this run": RECORD, "other": {"mean": {"attack_accuracy": 0.1}}})}
    assert rows["attack accuracy"] == ["62.5% ± 12.5%", "10.0%", "98.0%"]
    assert rows["Frechet distance to training images"] == ["123.5 ± 1.2", "—", "17.0"]
    assert rows["the same within a class"] == ["0.900", "—", "—"]
    assert "label agreement" not in rows


def test_damaged_files_are_explained_and_missing_ones_left_out(tmp_path: Path) -> None:
    assert generated_grid(tmp_path) is None
    images = torch.zeros(2, 4, 1, 8, 8)
    write(tmp_path, images, images, [0, 1])
    found = generated_grid(tmp_path)
    assert found is not None
    write(tmp_path, images, images, [0, 1, 2])
    with pytest.raises(RecollectError, match="do not fit its labels"):
        generated_grid(tmp_path)
    write(tmp_path, images, images[:1], [0, 1])
    with pytest.raises(RecollectError, match="run the match stage again"):
        generated_grid(tmp_path)
