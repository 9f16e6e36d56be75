"""Two runs side by side: what changed, what is said about it, and what makes them hard to compare."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from safetensors.torch import load_file, save_file

from recollect.core import RecollectError
from recollect.report import write_comparison
from recollect.report.changes import BOTH, EXPOSED, HIDDEN, NEITHER, Comparison, compare
from recollect.report.comparison_page import change_gallery, change_plot, comparison_verdict
from recollect.report.folder import read_run

EVIL = '<script>alert(1)</script>"><img src=x onerror=alert(2)>'


def rewrite(path: Path, change: dict[str, Any]) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))


@pytest.fixture
def folders(write: Callable[..., Path], tmp_path: Path) -> tuple[Path, Path]:
    """Of the first four samples each has another fate; all others are found in neither run."""
    paths = tmp_path / "before", tmp_path / "after"
    fates = (
        ((True, 0.9), (True, 0.95), (False, 0.2), (False, 0.3)),
        ((True, 0.91), (False, 0.5), (True, 0.92), (False, 0.25)),
    )
    for path, fate in zip(paths, fates, strict=True):
        write(path, (1, 6, 7), n=12)
        record = json.loads((path / "matches.json").read_text())
        for row, sample in enumerate(record["samples"]):
            recovered, ncc = fate[row] if row < 4 else (False, 0.1)
            sample |= {"recovered": recovered, "ncc": ncc}
        (path / "matches.json").write_text(json.dumps(record))
    return paths


def compared(folders: tuple[Path, Path]) -> Comparison:
    return compare(read_run(folders[0]), read_run(folders[1]))


def test_every_sample_has_its_fate(folders: tuple[Path, Path]) -> None:
    made = compared(folders)
    states = {change.after.index: change.state for change in made.changes}
    assert [states[100 + row] for row in range(5)] == [BOTH, HIDDEN, EXPOSED, NEITHER, NEITHER]
    assert [change.after.index for change in made.changes][:4] == [102, 101, 103, 100]
    assert made.changes[0].amount("ncc") == pytest.approx(0.72)
    assert made.cautions == ()
    assert comparison_verdict(made) == (
        "Of 12 training samples 2 were recovered before and 2 after: 1 are newly hidden, 1 newly exposed, "
        "1 still recovered."
    )


def test_counts_that_luck_explains_are_called_so(folders: tuple[Path, Path]) -> None:
    (folders[0] / "audit.json").write_text(json.dumps({"leak": True}))
    (folders[1] / "audit.json").write_text(json.dumps({"leak": False}))
    assert comparison_verdict(compared(folders)).endswith("1 still recovered. Luck explains the count after.")
    (folders[0] / "audit.json").write_text(json.dumps({"leak": False}))
    assert comparison_verdict(compared(folders)).endswith("Luck explains the count before and after.")


def test_samples_that_matched_nothing_do_not_stretch_the_axes(folders: tuple[Path, Path]) -> None:
    record = json.loads((folders[1] / "matches.json").read_text())
    record["samples"][5]["ncc"] = -1.0
    (folders[1] / "matches.json").write_text(json.dumps(record))
    plot = change_plot(compared(folders), items=True)
    assert plot.y.low > 0


def test_samples_are_paired_by_index_not_by_row(folders: tuple[Path, Path]) -> None:
    record = json.loads((folders[1] / "matches.json").read_text())
    pairs = load_file(folders[1] / "pairs.safetensors")
    save_file({key: values.flip(0).contiguous() for key, values in pairs.items()}, folders[1] / "pairs.safetensors")
    expected = change_gallery(compared(folders))
    rewrite(folders[1] / "matches.json", {"samples": record["samples"][::-1]})
    made = compared(folders)
    assert [change.rows for change in made.changes][:2] == [(2, 9), (1, 10)]
    assert not any("look different" in words for words in made.cautions)
    shown = change_gallery(made)
    assert expected is not None
    assert shown is not None
    assert shown.column("index").values[:4] == expected.column("index").values[:4]
    references = made.pictures()[0]
    assert references[0].equal(load_file(folders[0] / "pairs.safetensors")["reference"][2])


def test_differences_of_rule_data_and_effort_are_said(folders: tuple[Path, Path]) -> None:
    rewrite(folders[1] / "summary.json", {"scaling": "clamp", "trials": 9})
    record = json.loads((folders[1] / "matches.json").read_text())
    record["samples"][0]["label"] = 7
    record["samples"][11]["index"] = 999
    (folders[1] / "matches.json").write_text(json.dumps(record))
    pairs = load_file(folders[1] / "pairs.safetensors")
    save_file(pairs | {"reference": 1 - pairs["reference"]}, folders[1] / "pairs.safetensors")
    words = " ".join(compared(folders).cautions)
    for part in (
        "scaling is stretch before and clamp after",
        "Samples in the first run alone: 1, in the second alone: 1",
        "another label",
        "look different",
        "2 trials of 5000 steps before, 9 trials of 5000 steps after",
    ):
        assert part in words


def test_the_plot_has_every_sample_and_both_thresholds(folders: tuple[Path, Path]) -> None:
    plot = change_plot(compared(folders), items=False)
    assert len(plot.readings.x) == 12
    assert sum(mark.look == "line dashed" for mark in plot.marks) == 2
    assert {mark.words for mark in plot.marks if mark.look.startswith("dots")} == {
        "newly exposed (1)", "newly hidden (1)", "recovered in both (1)", "recovered in neither (9)"
    }  # fmt: skip
    assert plot.readings.texts[0] == "sample 102: NCC 0.200 before, 0.920 after, newly exposed"


def test_what_cannot_be_compared_is_one_sentence(
    folders: tuple[Path, Path], write: Callable[..., Path], tmp_path: Path
) -> None:
    other = write(tmp_path / "other", (1, 6, 7), n=12, score="ssim")
    with pytest.raises(RecollectError, match=r"judged by NCC and .*other by SSIM; match one of them again"):
        write_comparison(folders[0], other)
    rewrite(other / "matches.json", {"score": "ncc", "samples": [{"index": 5000}] * 12})
    with pytest.raises(RecollectError, match="have no training sample in common; compare runs on the same data"):
        write_comparison(folders[0], other)
    (other / "matches.json").unlink()
    with pytest.raises(RecollectError, match="has no matched samples to compare"):
        write_comparison(folders[0], other)
    with pytest.raises(RecollectError, match="is not a run folder"):
        write_comparison(folders[0], tmp_path / "nowhere")


def test_the_page_in_a_browser(folders: tuple[Path, Path], visit: Callable[..., Page]) -> None:
    (folders[1] / "config.toml").write_text(f"defence = '''{EVIL}'''\n")
    page = visit(write_comparison(*folders))
    expect(page.locator(".verdict")).to_contain_text("2 were recovered before and 2 after")
    assert page.locator(".tally dd").all_inner_texts() == ["1", "1", "1", "9"]
    expect(page.locator("#gallery .card")).to_have_count(1)
    expect(page.locator("#gallery .card")).to_contain_text("sample 101")
    assert page.locator("#gallery .tile").count() == 3
    page.locator('[data-choice="state"]').select_option(label="newly exposed")
    expect(page.locator("#gallery .card")).to_contain_text("sample 102")
    page.locator('[data-plot="changes"]').focus()
    page.keyboard.press("Home")
    expect(page.locator(".tip:visible")).to_contain_text("sample 102")
    expect(page.locator("#settings")).to_contain_text(EVIL)
    expect(page.locator("#settings")).to_contain_text("attack.steps")


def test_vectors_are_compared_without_pictures(write: Callable[..., Path], tmp_path: Path) -> None:
    first, second = (write(tmp_path / name, (5,), n=6) for name in ("a", "b"))
    html = write_comparison(first, second, tmp_path / "page.html").read_text()
    assert "so there is no picture of them" in html
    assert "Both runs have the same configuration." in html
    assert not (second / "comparison.html").exists()
