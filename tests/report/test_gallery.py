"""The gallery's numbers: those of the files, in the right order, with the right tiles."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from recollect.report.folder import read_run
from recollect.report.gallery import name_column, number_column
from recollect.report.pairs import gallery


def add_baseline(folder: Path, name: str) -> None:
    baseline = folder / "baselines" / name
    baseline.mkdir(parents=True)
    for file in ("config.toml", "summary.json", "matches.json"):
        (baseline / file).write_bytes((folder / file).read_bytes())
    status = json.loads((folder / "status.json").read_text())
    (baseline / "status.json").write_text(json.dumps(status | {"name": name}))
    pairs = load_file(folder / "pairs.safetensors")
    save_file(pairs | {"reconstruction": 1 - pairs["reconstruction"]}, baseline / "pairs.safetensors")


def test_items_are_the_samples_best_first_attack_by_attack(make_run: Callable[..., Path]) -> None:
    folder = make_run(n=20, score="ssim")
    add_baseline(folder, "weights")
    samples = json.loads((folder / "matches.json").read_text())["samples"]
    best = sorted(samples, key=lambda sample: -sample["ssim"])
    made = gallery(read_run(folder))
    assert made is not None
    assert made.column("index").values == [sample["index"] for sample in best] * 2
    assert [made.column("attack").text(row) for row in (0, 19, 20, 39)] == ["this run"] * 2 + ["weights"] * 2
    assert made.column("score").label == "SSIM"
    assert [made.column("label").text(row) for row in range(20)] == [str(sample["label"]) for sample in best]
    assert made.column("label").names == ("-1", "1")
    assert [column.name for column in made.choices()] == ["label", "attack", "state"]
    assert len(made.cards()) == 20


def test_attacks_share_the_tiles_of_training_images(make_run: Callable[..., Path]) -> None:
    folder = make_run(n=12)
    add_baseline(folder, "weights")
    made = gallery(read_run(folder))
    assert made is not None
    reconstructions, references = made.tiles
    assert references[:12] == references[12:]
    assert len(set(reconstructions)) == 24
    assert made.sprites.count == 36


def test_nothing_that_is_not_json_gets_into_the_numbers(make_run: Callable[..., Path]) -> None:
    folder = make_run(n=3)
    record = json.loads((folder / "matches.json").read_text())
    record["samples"] = [dict.fromkeys(sample) for sample in record["samples"]]
    (folder / "matches.json").write_text(json.dumps(record))
    made = gallery(read_run(folder))
    assert made is not None
    text = json.dumps(made.as_json(), allow_nan=False)
    assert json.loads(text)["columns"][1]["names"] == ["unknown"]
    assert made.bounds() is None
    assert made.cards()[0]["title"] == "NCC —"


def test_candidates_without_reference_data_keep_their_order(make_run: Callable[..., Path]) -> None:
    folder = make_run()
    for name in ("matches.json", "pairs.safetensors"):
        (folder / name).unlink()
    largest = torch.finfo(torch.float32).max
    duals = torch.tensor([2.0, 7.0, largest])
    save_file({"candidates": torch.randn(3, 1, 6, 7), "duals": duals}, folder / "distilled.safetensors")
    made = gallery(read_run(folder))
    assert made is not None
    assert made.ranked
    assert made.column("score").values == [2.0, 7.0, None]
    assert made.tile_names == ("candidate",)


def test_vectors_and_points_have_no_gallery(make_run: Callable[..., Path]) -> None:
    assert gallery(read_run(make_run((5,)))) is None
    assert gallery(read_run(make_run((2,)))) is None


def test_columns_of_names_sort_numbers_by_size() -> None:
    assert name_column("label", "class", ["10", "-1", "9", "10"]).names == ("-1", "9", "10")
    assert name_column("attack", "attack", ["weights", "kkt"]).names == ("weights", "kkt")
    assert number_column("x", "x", [0.123456789, None, float("nan"), "evil"]).values == [0.12346, None, None, None]
