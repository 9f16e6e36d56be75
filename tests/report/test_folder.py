"""Reading a run folder: what is missing is None, what is broken is one sentence that names the file."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from recollect.core import RecollectError
from recollect.report import write_pictures, write_report
from recollect.report.folder import read_run

OPTIONAL = [
    "summary.json", "model/model.json", "model/curve.jsonl", "model/weights.safetensors", "trace.jsonl",
    "candidates.safetensors", "matches.json", "pairs.safetensors", "distilled.safetensors",
]  # fmt: skip


def test_a_complete_folder_is_read_as_written(make_run):
    folder = make_run((1, 6, 7))
    run, stored = read_run(folder), json.loads((folder / "matches.json").read_text())
    assert run.name == "demo"
    assert run.summary == json.loads((folder / "summary.json").read_text())
    assert run.config["match"]["distil_min_dual"] == 5.0
    assert [sample.ncc for sample in run.matches.samples] == [sample["ncc"] for sample in stored["samples"]]
    assert run.matches.null["ssim"] == stored["null"]["ssim"]
    assert run.sample_shape == (1, 6, 7)
    assert run.trace.terms["stationarity"].shape == (19, 2)
    assert run.trace.terms["stationarity"][0].tolist() == [9.0, 2.0]
    assert math.isnan(run.trace.terms["stationarity"][10, 1])
    assert run.curve.loss[:2] == [0.5, 0.25]


@pytest.mark.parametrize("score", ["ncc", "ssim", "distance"])
def test_best_first_follows_the_score_and_ends_with_the_unmatched(make_run, score):
    folder = make_run(n=8, score=score)
    record = json.loads((folder / "matches.json").read_text())
    record["samples"][3][score] = None
    (folder / "matches.json").write_text(json.dumps(record))
    ranked = read_run(folder).matches.best_first()
    assert ranked[-1] == 3
    scores = [record["samples"][row][score] for row in ranked[:-1]]
    assert scores == sorted(scores, reverse=score != "distance")


@pytest.mark.parametrize("shape", [(1, 6, 7), (2,)], ids=["images", "points"])
@pytest.mark.parametrize("missing", OPTIONAL)
def test_any_optional_file_may_be_missing(make_run, shape, missing):
    folder = make_run(shape, n=4)
    (folder / missing).unlink(missing_ok=True)
    read_run(folder)


@pytest.mark.parametrize("missing", ["status.json", "config.toml"])
def test_a_folder_without_status_or_configuration_is_no_run_folder(make_run, missing):
    folder = make_run()
    (folder / missing).unlink()
    with pytest.raises(RecollectError, match=f"not a run folder: it has no {missing}"):
        write_report(folder)


def test_a_folder_that_does_not_exist_is_no_run_folder(tmp_path):
    for write in (write_report, write_pictures):
        with pytest.raises(RecollectError, match="not a run folder"):
            write(tmp_path / "nowhere")
    assert not list(tmp_path.iterdir()), "nothing is created for a folder that is not there"


@pytest.mark.parametrize("name", ["status.json", "model/model.json"])
def test_another_format_is_refused(make_run, name):
    folder = make_run()
    record = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps({**record, "format": 2}))
    with pytest.raises(RecollectError, match=rf"{name} has format 2, this version reads format 1"):
        read_run(folder)


@pytest.mark.parametrize("name", ["status.json", *OPTIONAL])
def test_a_truncated_file_is_named(make_run, name):
    folder = make_run((2,), n=4)
    path = folder / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size - 5])
    _check_sentence(folder, name)


@pytest.mark.parametrize("name", ["config.toml", "status.json", *OPTIONAL])
def test_a_file_of_rubbish_is_named(make_run, name):
    folder = make_run((2,), n=4)
    (folder / name).write_bytes(b"\xff\xfe rubbish")
    _check_sentence(folder, name)


@pytest.mark.parametrize("name", ["summary.json", "trace.jsonl", "matches.json"])
def test_json_that_is_no_object_is_named(make_run, name):
    folder = make_run(n=4)
    (folder / name).write_text("[1, 2]\n")
    _check_sentence(folder, name)


@pytest.mark.parametrize("change", [{"score": "luck"}, {"samples": 3}, {"samples": [3]}])
def test_matches_of_the_wrong_kind_are_named(make_run, change):
    folder = make_run(n=4)
    record = json.loads((folder / "matches.json").read_text())
    (folder / "matches.json").write_text(json.dumps({**record, **change}))
    _check_sentence(folder, "matches.json")


def test_pairs_must_have_a_row_for_each_sample(make_run):
    folder = make_run(n=4)
    pairs = load_file(folder / "pairs.safetensors")
    save_file({name: values[:3].clone() for name, values in pairs.items()}, folder / "pairs.safetensors")
    _check_sentence(folder, "pairs.safetensors")


@pytest.mark.parametrize("name", ["duals", "labels", "diverged", "start"])
def test_candidates_must_agree_with_their_companions(make_run, name):
    folder = make_run((2,), n=4)
    stored = load_file(folder / "candidates.safetensors")
    save_file({**stored, name: stored[name][:1].clone()}, folder / "candidates.safetensors")
    _check_sentence(folder, "candidates.safetensors")


def test_weights_that_do_not_fit_are_named(make_run):
    folder = make_run((2,), n=4)
    weights = load_file(folder / "model" / "weights.safetensors")
    name = next(iter(weights))
    save_file({**weights, name: weights[name][:2].clone()}, folder / "model" / "weights.safetensors")
    _check_sentence(folder, "weights.safetensors")


def _check_sentence(folder: Path, name: str) -> None:
    with pytest.raises(RecollectError) as caught:
        write_report(folder)
    message = str(caught.value)
    assert str(folder / name) in message or Path(name).name in message
    assert "\n" not in message
    assert not (folder / "report.html").exists(), "no page is written for a folder that cannot be read"
