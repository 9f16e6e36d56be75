"""Numbers of generated images on cases whose answers are known: real images, copies, noise."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from recollect.data import TaskData
from recollect.runs import RunFolder
from recollect.stages.generated import averages, class_rows, deviations, judge_generated
from recollect.stages.generated_scores import Scene, scores_of
from recollect.stages.independent import Judge, Panel

SHAPE, CLASSES = (1, 6, 6), 2
CPU = torch.device("cpu")


class Halves(nn.Module):
    """Class 1 where the lower half is the brighter one."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = nn.Linear(36, 2, bias=False)
        self.head = nn.Linear(2, 2, bias=False)
        upper = torch.arange(36) < 18
        self.mean.weight.data = torch.stack([upper, ~upper]).float()
        self.head.weight.data = torch.eye(2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.mean(x.flatten(1)))


def pictures(n: int, seed: int) -> TaskData:
    y = torch.arange(n) % CLASSES
    images = 0.6 * torch.rand(n, *SHAPE, generator=torch.Generator().manual_seed(seed))
    for index, label in enumerate(y.tolist()):
        images[index, :, 3 * label : 3 * label + 3] += 0.4
    return TaskData(images, y, images, torch.zeros(SHAPE), torch.arange(n), (0, 1))


@pytest.fixture
def scene() -> Scene:
    panel = Panel({"classifier": Judge(Halves(), 1.0)}, pictures(30, 2), pictures(40, 3))
    return Scene(Halves(), None, pictures(40, 1), panel)


def test_copies_of_training_images_are_members(scene: Scene) -> None:
    assert scene.training is not None
    found = scores_of(scene.training.images, scene.training.y, scene)
    assert found["label_agreement"] == found["attack_accuracy"] == 1
    assert found["nearest_training_ncc"] == pytest.approx(1)
    assert found["member_advantage"] > 0.2  # pyright: ignore[reportOptionalOperand]
    assert found["frechet_training"] == pytest.approx(0, abs=1e-6)
    assert found["density"] == pytest.approx(1, abs=0.2)
    assert found["coverage"] > 0.9  # pyright: ignore[reportOptionalOperand]
    assert found["frechet_held_out"] > 0.001  # pyright: ignore[reportOptionalOperand]


def test_other_real_images_are_none(scene: Scene) -> None:
    other = pictures(40, 9)
    found = scores_of(other.images, other.y, scene)
    assert found["attack_accuracy"] == 1
    assert abs(found["member_advantage"]) < 0.05  # pyright: ignore[reportArgumentType]


def test_wrong_labels_and_one_image_again_and_again(scene: Scene) -> None:
    other = pictures(40, 9)
    assert scores_of(other.images, 1 - other.y, scene)["attack_accuracy"] == 0
    same = scores_of(other.images[:2].repeat(10, 1, 1, 1), torch.arange(20) % 2, scene)
    assert same["class_feature_cosine"] == pytest.approx(1)
    assert same["coverage"] < 0.5  # pyright: ignore[reportOptionalOperand]
    assert same["class_feature_cosine"] > same["feature_cosine"]  # pyright: ignore[reportOperatorIssue]


def test_a_run_folder_is_judged_generator_by_generator(scene: Scene, tmp_path: Path) -> None:
    """A generator that diverged is left out; the others are averaged, and their images shown beside the nearest."""
    folder = RunFolder.create(tmp_path / "run", "test", ("match",))
    labels = torch.arange(8).sort().values // 4
    real, made = pictures(80, 5), pictures(80, 6)
    sets = [torch.cat([part.images[part.y == label][:4] for label in (0, 1)]) for part in (real, made)]
    broken = torch.full_like(sets[0], torch.nan)
    candidates = torch.stack([sets[0], broken, sets[1].flip(0)])
    diverged = torch.tensor([0, 1, 0], dtype=torch.uint8)
    folder.write_tensors("candidates.safetensors", {"candidates": candidates, "labels": labels, "diverged": diverged})
    folder.write_json("summary.json", {})
    judge_generated(folder, scene, CPU)
    found, summary = folder.read_json("generated.json"), folder.read_json("summary.json")
    assert [each["attack_accuracy"] for each in found["generators"]] == [1, 0]
    assert (summary["generators"], summary["attack_accuracy"]) == (2, 0.5)
    assert summary["attack_accuracy_deviation"] == pytest.approx(0.5**0.5)
    assert 0 < summary["member_luck"] <= 1
    shown = folder.read_tensors("generated.safetensors")
    assert shown["images"].shape == (2, 6, *SHAPE)
    assert torch.equal(shown["images"][1, :3], candidates[0, 4:7])
    assert scene.training is not None
    training = scene.training.images.flatten(1)
    unit = nn.functional.normalize(training - training.mean(dim=1, keepdim=True))
    image = shown["images"][1, 4].flatten()
    best = int((unit @ (image - image.mean())).argmax())
    assert torch.equal(shown["nearest"][1, 4], scene.training.images[best])


def test_averages_and_deviations_are_those_of_a_sample() -> None:
    each = [{"a": 1.0}, {"a": 2.0}, {"a": 6.0}]
    assert averages(each) == {"a": 3.0}
    assert deviations(each)["a"] == pytest.approx(7**0.5)
    assert deviations(each[:1]) == {"a": None}
    assert averages([]) == {}


def test_rows_of_classes_show_the_first_images_of_each_generator() -> None:
    sets = torch.arange(2 * 9.0).reshape(2, 9, 1, 1, 1)
    labels = torch.tensor([0, 0, 0, 0, 0, 1, 1, 1, 1])
    rows = class_rows(sets, labels, columns=6).flatten(2).squeeze(2)
    assert rows.tolist() == [[0, 1, 2, 9, 10, 11], [5, 6, 7, 14, 15, 16]]
