"""The page: complete, self-contained, escaped, and with the numbers that the files hold."""

from __future__ import annotations

import json
import os
import re
import shutil
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from recollect.core import RecollectError
from recollect.report import write_report
from recollect.report.saving import save

EVIL = '<script>alert(1)</script>"><img src=x onerror=alert(2)>'


class Page(HTMLParser):
    """Tags with their attributes, and the text of every table cell, term and paragraph."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[str]] = []
        self.pieces: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th") and self.rows:
            self.rows[-1].append("")

    def handle_data(self, data):
        self.pieces.append(data)
        if self.rows and self.rows[-1] and data.strip():
            self.rows[-1][-1] += data.strip()

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def row(self, label: str) -> list[str]:
        return next(row for row in self.rows if row and row[0].startswith(label))


def rewrite(path: Path, change: dict[str, object]) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))


@pytest.mark.parametrize("shape", [(1, 6, 7), (3, 8, 8), (2,), (5,)], ids=["grey", "colour", "points", "vectors"])
def test_the_page_loads_nothing(make_run, shape):
    page = Page(write_report(make_run(shape)))
    for tag, attributes in page.tags:
        assert tag not in ("link", "iframe", "object", "base", "embed")
        assert not any(name.startswith("on") for name in attributes)
        assert (attributes.get("src") or "data:image/png;base64,").startswith("data:image/png;base64,")
        assert (attributes.get("href") or "#").startswith("#")
        assert "url(" not in (attributes.get("style") or "")
    assert "http" not in page.text
    assert all(place.startswith('url("data:image/') for place in re.findall(r"url\(.{14}", page.text))
    assert "@import" not in page.text


def test_the_only_script_that_may_run_is_the_page_s_own(make_run):
    html = write_report(make_run()).read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html).group(1)
    scripts = re.findall(r"<script>(.*?)</script>", html, flags=re.DOTALL)
    assert policy.startswith("default-src 'none'; img-src data:; ")
    assert len(scripts) == 1
    digest = b64encode(sha256(scripts[0].encode()).digest()).decode()
    assert re.search(r"script-src ([^;]*);", policy).group(1) == f"'sha256-{digest}'"
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", scripts[0])


def test_anchors_lead_to_sections(make_run):
    page = Page(write_report(make_run()))
    names = [attributes["id"] for tag, attributes in page.tags if tag == "section"]
    assert [attributes["href"] for tag, attributes in page.tags if tag == "a"] == [f"#{name}" for name in names]
    assert len(set(names)) == len(names) >= 10


def test_every_picture_has_words(make_run):
    for shape in ((1, 6, 7), (2,)):
        page = Page(write_report(make_run(shape)))
        drawn = [attributes for tag, attributes in page.tags if tag == "img" or "data-plot" in attributes]
        words = [attributes.get("alt") or attributes.get("aria-label") or "" for attributes in drawn]
        assert len(drawn) >= 5
        assert all(len(text) > 20 for text in words)


def test_pictures_lie_in_the_folder_too(make_run):
    folder = make_run()
    write_report(folder)
    stored = {str(path.relative_to(folder)) for path in folder.rglob("*.png")}
    assert stored == {"grid.png", *(f"figures/{name}.png" for name in ("attack", "histogram", "scores", "training"))}


def test_without_scripts_the_best_pairs_are_there(make_run):
    folder = make_run(n=70)
    html = write_report(folder).read_text()
    samples = json.loads((folder / "matches.json").read_text())["samples"]
    best = sorted(samples, key=lambda sample: -sample["ncc"])[:60]
    assert re.findall(r"<b>NCC (-?[\d.]+)</b>", html) == [f"{sample['ncc']:.3f}" for sample in best]
    assert html.count('aria-label="training image"') == 60


def test_numbers_are_those_in_the_files(make_run):
    folder = make_run()
    page = Page(write_report(folder))
    summary = json.loads((folder / "summary.json").read_text())
    found = summary["recovered"]
    assert summary["verdict"] in page.text
    assert page.row("Recovered: NCC > 0.830")[1:] == [f"{found} of 20 ({found / 20:.1%})", "0 of 30 (0.0%)"]
    assert page.row("NCC ≥ 0.8")[1:] == ["7 of 20 (35.0%)", "2 of 30 (6.7%)"]
    assert page.row("NCC ≥ 0.9")[1:] == ["3 of 20 (15.0%)", "1 of 30 (3.3%)"]
    assert page.row("SSIM > 0.4")[1:] == ["5 of 20 (25.0%)", "4 of 30 (13.3%)"]
    assert page.row("mean DSSIM")[1:] == [f"{0.3125:.3f}", f"{0.4375:.3f}"]
    for words in (summary["recovered_rule"], "stretch", "13.25 s", "recollect demo", "float32", "1.325 ms"):
        assert words in page.text


def test_samples_are_listed_best_first(make_run):
    folder = make_run(score="ssim")
    page = Page(write_report(folder))
    samples = json.loads((folder / "matches.json").read_text())["samples"]
    best_first = sorted(samples, key=lambda sample: -sample["ssim"])
    listed = [row for row in page.rows if row[0].isdigit() and len(row) == 10]
    assert [row[0] for row in listed] == [str(sample["index"]) for sample in best_first]
    assert [row[4] for row in listed] == [f"{sample['ssim']:.3f}" for sample in best_first]


def test_nothing_from_the_folder_becomes_html(make_run):
    folder = make_run(name=EVIL)
    (folder / "config.toml").write_text(f"title = '''{EVIL}'''\n")
    strings = {"verdict": EVIL, "command": EVIL, "recovered_rule": EVIL, "scaling": EVIL, "method": EVIL}
    rewrite(folder / "summary.json", strings | {"device": [EVIL], "dtype": {EVIL: EVIL}, "ncc80": EVIL})
    rewrite(folder / "status.json", {"stages": {EVIL: EVIL}})
    rewrite(folder / "model" / "model.json", {"architecture": {EVIL: EVIL}, "training": {EVIL: [EVIL]}})
    (folder / "trace.jsonl").write_text(json.dumps({"step": 1, "terms": {"$\\frac{_<": [1.0], "_hidden\u6f22": [2.0]}}))
    (folder / "check.json").write_text(json.dumps({"findings": [{"level": EVIL, "sentence": EVIL}], "closing": EVIL}))
    (folder / "audit.json").write_text(json.dumps(evil_audit()))
    html = write_report(folder).read_text()
    assert html.count("<script") == 2
    assert html.count("</script") == 2
    assert "<img src=x" not in html
    assert html.count("&lt;script&gt;alert(1)") >= 30


def evil_audit() -> dict[str, object]:
    words = {name: [EVIL, {EVIL: EVIL}] for name in ("measured", "declared", "interpretation", "not_excluded")}
    attack = dict.fromkeys(("name", "method", "folder", "words", "seconds", "recovered"), EVIL)
    sample = dict.fromkeys(("index", "label", "score", "attack", "candidate"), EVIL)
    environment = {"versions": {EVIL: EVIL}, "device": EVIL}
    return {"verdict": EVIL, "attacks": [attack], "affected": [sample], "environment": environment, **words}


def test_hostile_names_in_the_numbers_stay_numbers(make_run):
    folder = make_run()
    baseline = folder / "baselines" / "odd"
    baseline.mkdir(parents=True)
    for file in ("config.toml", "status.json", "summary.json", "matches.json", "pairs.safetensors"):
        (baseline / file).write_bytes((folder / file).read_bytes())
    rewrite(baseline / "status.json", {"name": f"{EVIL}<!--<script>\u2028]]>"})
    html = write_report(folder).read_text()
    block = re.search(r'id="data">(.*?)</script>', html, flags=re.DOTALL).group(1)
    assert not set("<>&\u2028") & set(block.replace("\\u2028", ""))
    names = next(column for column in json.loads(block)["gallery"]["columns"] if column["name"] == "attack")["names"]
    assert names == ["this run", f"{EVIL}<!--<script>\u2028]]>"]


def test_baselines_have_a_row_and_a_grid_each(make_run):
    folder = make_run()
    for name, method in (("activation", "activation"), ("weights", "weights")):
        baseline = folder / "baselines" / name
        baseline.mkdir(parents=True)
        for file in ("config.toml", "status.json", "summary.json", "matches.json", "pairs.safetensors"):
            (baseline / file).write_bytes((folder / file).read_bytes())
        rewrite(baseline / "status.json", {"name": name})
        rewrite(baseline / "summary.json", {"method": method, "recovered": 1, "null_recovered": 2, "ncc90": None})
    page = Page(write_report(folder))
    assert page.row("activation")[1:4] == ["activation maximisation", "1 (2)", "— (1)"]
    assert page.row("weights")[1] == "first-layer weights"
    assert page.row("this run")[3] == "3 (1)"
    assert page.text.count("activation") >= 3
    assert (folder / "figures" / "baseline-weights.png").exists()


def test_an_empty_run_says_what_is_missing(tmp_path):
    (tmp_path / "config.toml").write_text("")
    (tmp_path / "status.json").write_text('{"format": 1, "stages": {"train": "running"}}')
    page = Page(write_report(tmp_path))
    missing = ("No verdict yet", "no figures yet", "no pairs yet", "No scores", "No curves", "No training curve")
    for words in (
        *missing,
        "No baselines were run",
        "model/model.json is missing",
        "were not checked",
        "not recovered is not thereby safe",
    ):
        assert words in page.text
    assert not [tag for tag, _ in page.tags if tag == "img"]
    assert tmp_path.name in page.text


def test_values_may_all_be_null(make_run):
    folder = make_run(n=3)
    rewrite(folder / "summary.json", dict.fromkeys(json.loads((folder / "summary.json").read_text())))
    record = json.loads((folder / "matches.json").read_text())
    record["samples"] = [dict.fromkeys(sample) for sample in record["samples"]]
    (folder / "matches.json").write_text(json.dumps({**record, "threshold": None, "null": None}))
    (folder / "trace.jsonl").write_text('{"step": 1, "terms": {"stationarity": [null, null]}}\n')
    page = Page(write_report(folder))
    assert "No verdict was recorded" in page.text
    assert "no held-out scores" in page.text


def test_without_reference_data_the_distilled_candidates_are_shown(make_run):
    folder = make_run((1, 6, 7))
    for name in ("matches.json", "pairs.safetensors"):
        (folder / name).unlink()
    kept = {"candidates": torch.randn(5, 1, 6, 7), "duals": torch.tensor([9.0, 8.0, 7.0, 6.0, 5.0])}
    save_file(kept, folder / "distilled.safetensors")
    page = Page(write_report(folder))
    assert "nothing here has been verified: the 5 distilled candidates" in page.text
    assert re.findall(r"multiplier \d\.\d{3}", page.text)[0] == "multiplier 9.000"
    assert (folder / "grid.png").exists()


def test_a_network_trained_elsewhere_is_named(make_run):
    folder = make_run()
    shutil.rmtree(folder / "model", ignore_errors=True)
    (folder / "config.toml").write_text('[source]\nmodule = "nets:make"\nweights = "<i>.pt"\n')
    page = Page(write_report(folder))
    assert "nets:make" in page.text
    assert "It was trained elsewhere" in page.text
    assert "model.json is missing" not in page.text
    assert "i" not in {tag for tag, _ in page.tags}


def test_no_samples_at_all_is_said(make_run):
    folder = make_run(n=0)
    assert "Matching left no pairs" in Page(write_report(folder)).text


def test_writing_twice_gives_the_same_page_and_leaves_no_scraps(make_run):
    folder = make_run()
    first = write_report(folder).read_bytes()
    assert write_report(folder).read_bytes() == first
    assert not list(folder.rglob("*.part*"))


def test_what_a_kill_left_behind_is_taken_over(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lambda path, missing_ok=False: None)  # a process that is killed tidies nothing
        patch.setattr(os, "replace", lambda source, target: None)
        save(tmp_path / "report.html", b"half")
    assert len(list(tmp_path.iterdir())) == 1
    save(tmp_path / "report.html", b"page")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_candidates_that_are_no_images_are_not_said_to_be_missing(make_run):
    folder = make_run()
    for name in ("matches.json", "pairs.safetensors"):
        (folder / name).unlink()
    save_file({"candidates": torch.randn(5, 64), "duals": torch.ones(5)}, folder / "distilled.safetensors")
    text = Page(write_report(folder)).text
    assert "nothing has been verified; the 5 distilled candidates have the shape [64]" in text
    assert "with --shape" in text


def test_a_file_that_cannot_be_written_is_explained_and_cleaned_up(tmp_path):
    (tmp_path / "report.html").mkdir()
    with pytest.raises(RecollectError, match=r"report\.html cannot be written"):
        save(tmp_path / "report.html", b"page")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
