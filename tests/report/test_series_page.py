"""The page of a series: complete, self-contained, escaped, and with the numbers of series.json."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recollect.core import RecollectError
from recollect.report import write_series_report
from recollect.report.charts import ACCENT
from recollect.report.matches import Matches, Sample
from recollect.report.series_attacks import attack_tables
from recollect.report.series_bars import bars, stand_alone
from recollect.report.series_charts import curve, heat_map, lines_of
from recollect.report.series_scatter import scatters
from recollect.report.series_tables import listing, series_verdict

EVIL = '<script>alert(1)</script>"><img src=x onerror=alert(2)>'


def member(slug: str, place: list[int], **figures: Any) -> dict[str, Any]:
    known = {
        "member": slug, "name": slug.replace("-", " "), "place": place, "settings": {}, "state": "done",
        "failure": None, "score": "ssim", "reference_count": 100, "null_count": 400, "good_ssim04": 5,
        "null_good_ssim04": 1, "recovered": 9, "null_recovered": 4, "ncc80": 3, "null_ncc80": 2, "top10_ssim": 0.5,
        "mean_dssim": 0.4, "null_mean_dssim": 0.45, "training_loss": 1e-6, "training_error": 0.01, "test_error": 0.25,
        "seconds": 61.4, "peak_memory_bytes": 3 * 2**30, "trials": 8, "diverged_trials": 0,
    }  # fmt: skip
    return known | figures


def axis(label: str, *points: tuple[str, Any]) -> dict[str, Any]:
    listed = [{"name": f"{line or label} {value}", "line": line, "value": value} for line, value in points]
    return {"label": label, "key": f"x.{label}", "points": listed}


def one_axis(**changes: Any) -> dict[str, Any]:
    counts = (2, 31, 7, 12)
    made = [member(f"decay-{place}", [place], good_ssim04=count) for place, count in enumerate(counts)]
    made[3]["name"] = "none"
    points = [("", 1e-5), ("", 1e-3), ("", 1e-1), ("none", 0.0)]
    facts = {"format": 1, "name": "decay", "title": "A title", "paper": "A paper"}
    return facts | {"axes": [axis("decay", *points)], "members": made} | changes


def two_axes() -> dict[str, Any]:
    axes = [axis("kernel", ("", 3), ("", 5), ("", 9)), axis("channels", ("", 8), ("", 16))]
    made = [member(f"k-{i}-{j}", [i, j], good_ssim04=10 * i + j) for i in range(3) for j in range(2)]
    return one_axis(axes=axes, members=made)


def matches_of(count: int, score: str = "ssim") -> Matches:
    empty = dict.fromkeys(("label", "psnr", "distance", "candidate", "votes"))
    samples = tuple(
        Sample(index=k, output=float(k), ncc=0.1, ssim=k / count, recovered=k > 1, **empty) for k in range(count)
    )
    return Matches(score, 0.4, samples, {})


def put(folder: Path, record: dict[str, Any]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "series.json").write_text(json.dumps(record))
    (folder / "config.toml").write_text(f"title = '''{EVIL}'''\n")
    samples = [{"index": k, "output": k - 1.5, "ncc": 0.5, "ssim": k / 4, "recovered": k > 2} for k in range(4)]
    for row in record["members"]:
        path = folder / "members" / row["member"]
        path.mkdir(parents=True, exist_ok=True)
        (path / "report.html").write_text("")
        (path / "matches.json").write_text(json.dumps({"score": "ssim", "threshold": 0.5, "samples": samples}))
    return folder


class Tags(HTMLParser):
    def __init__(self, page: Path) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


@pytest.mark.parametrize("record", [one_axis(), two_axes()], ids=["curve", "maps"])
def test_the_page_loads_nothing_and_links_to_the_members_alone(tmp_path: Path, record: dict[str, Any]) -> None:
    page = write_series_report(put(tmp_path / "series", record))
    tags = Tags(page).found
    for tag, attributes in tags:
        assert tag not in ("script", "link", "iframe", "object", "base")
        assert not any(name.startswith("on") for name in attributes)
        assert (attributes.get("src") or "data:image/png;base64,").startswith("data:image/png;base64,")
    links = [attributes["href"] for tag, attributes in tags if tag == "a"]
    assert links == [f"members/{row['member']}/report.html" for row in record["members"]]
    assert all((page.parent / str(link)).is_file() for link in links)
    text = page.read_text()
    assert "http:" not in text
    assert "https:" not in text
    assert "url(" not in text
    policy = next(attributes["content"] for _, attributes in tags if attributes.get("http-equiv"))
    assert str(policy).startswith("default-src 'none'")
    assert sum(tag == "img" for tag, _ in tags) == (3 if len(record["axes"]) == 1 else 4)
    assert all(len(attributes["alt"] or "") > 20 for tag, attributes in tags if tag == "img")


def test_nothing_from_the_folder_becomes_html(tmp_path: Path) -> None:
    record = one_axis(name=EVIL, title=EVIL, paper=EVIL)
    record["members"][0] |= {"name": EVIL, "state": "failed", "failure": EVIL}
    record["axes"][0]["label"] = "$\\frac{_<"
    record["axes"][0]["points"][3]["line"] = "_$x^{"
    html = write_series_report(put(tmp_path / "series", record)).read_text()
    assert "<script" not in html
    assert "<img src=x" not in html
    assert html.count("&lt;script&gt;alert(1)") >= 6


def test_the_table_has_the_numbers_and_leaves_out_what_nobody_knows() -> None:
    headings, first, *_ = listing(one_axis())
    row = dict(zip(headings, first, strict=True))
    assert row == {
        "member": "decay 0", "SSIM > 0.4": "2/100 (1/400)", "recovered": "9/100 (4/400)", "training error": "1.0%",
        "test error": "25.0%", "time": "61 s", "top-10 SSIM": "0.500", "mean DSSIM": "0.400 (0.450)",
        "training loss": "1e-06", "peak memory": "3.0 GiB",
    }  # fmt: skip
    record = one_axis()
    for known in record["members"]:
        known |= {"peak_memory_bytes": None, "null_good_ssim04": None}
    record["members"][1]["state"] = "pending"
    headings, first, second, *_ = listing(record)
    assert "peak memory" not in headings
    assert first[1] == "2/100"
    assert (headings[-1], first[-1], second[-1]) == ("state", "done", "pending")


def test_attacks_side_by_side_by_the_count_of_the_series() -> None:
    record = one_axis()
    assert attack_tables(record) == []
    record["members"][1]["baselines"] = {"kkt_adam": member("", [], good_ssim04=22, null_good_ssim04=3)}
    (table,) = attack_tables(record)
    assert table.headings == ["member", "the attack", "kkt adam"]
    assert table.rows[1] == ["decay 1", "31/100 (1/400)", "22/100 (3/400)"]
    assert table.rows[0] == ["decay 0", "2/100 (1/400)", "—"]


def test_attacks_whose_trials_were_judged_each_by_itself() -> None:
    def each(mean: float, deviation: float | None) -> dict[str, Any]:
        means = {"mean_dssim_stretch_3": mean, "null_mean_dssim_stretch_3": 0.4, "mean_dssim_clamp_3": mean / 2}
        spread = dict.fromkeys(means, deviation)
        return {"each_trial": {"trials": 5, "mean": means, "deviation": spread}}

    record = one_axis()
    record["members"][0] |= {**each(0.3, 0.0123), "baselines": {"dip": member("", [], **each(0.35, None))}}
    stretched, clamped = attack_tables(record)
    assert stretched.rows[0] == ["decay 0", "0.300 ± 0.012 (0.400)", "0.350 (0.400)"]
    assert clamped.rows[0] == ["decay 0", "0.150 ± 0.012", "0.175"]


def test_attacks_by_generators_are_compared_by_what_they_make() -> None:
    record = one_axis()
    for row, accuracy in zip(record["members"], (0.9, 0.8, 0.7, 0.6), strict=True):
        own = {"label_agreement": 1.0, "attack_accuracy": accuracy, "density": 0.5, "frechet_training": 120.0}
        row |= {**own, "baselines": {"inversion": own | {"attack_accuracy": 0.25}}}
    accuracy, density, frechet = attack_tables(record)
    assert accuracy.rows[0] == ["decay 0", "90.0%", "25.0%"]
    assert density.rows[3][1:] == ["0.500", "0.500"]
    assert frechet.rows[0][1:] == ["120", "120"]


def test_the_page_shows_every_attack(tmp_path: Path) -> None:
    record = one_axis()
    record["members"][0]["baselines"] = {EVIL: member("", [], good_ssim04=22)}
    html = write_series_report(put(tmp_path / "series", record)).read_text()
    assert "Attack by attack" in html
    assert "22/100 (1/400)" in html
    assert "<script" not in html


def test_the_verdict_names_the_member_where_most_was_found() -> None:
    assert series_verdict(one_axis()) == (
        "4 of 4 members are done. Most is found at decay 1: 31 of 100 training samples with SSIM > 0.4 "
        "(1 of 400 held-out ones)."
    )
    record = one_axis()
    for place, known in enumerate(record["members"]):
        known |= {"score": "ncc", "recovered": place}
    assert "Most is found at none: 3 of 100 training samples recovered (4 of 400" in series_verdict(record)
    record["members"][-1]["luck_probability"] = 0.02
    assert "Most is found at decay 2: 2 of 100" in series_verdict(record)
    for known in record["members"]:
        known["luck_probability"] = 0.02
    assert series_verdict(record) == "4 of 4 members are done. In none of them is anything found beyond chance."
    for known in record["members"]:
        known |= {"score": None, "recovered": None, "state": "pending"}
    assert series_verdict(record) == "0 of 4 members are done."


def test_the_curve_goes_through_the_counts_and_a_lone_member_across() -> None:
    record = one_axis()
    assert [(line.name, line.x, line.across) for line in lines_of(record)] == [
        ("", [1e-5, 1e-3, 1e-1], False),
        ("none", [0.0], True),
    ]
    axes = curve(record, {"good_ssim04": "good"}, "count").axes[0]
    assert axes.lines[0].get_xydata().tolist() == [[1e-5, 2], [1e-3, 31], [1e-1, 7]]
    assert axes.lines[0].get_color() == ACCENT
    assert list(axes.lines[1].get_ydata()) == [12, 12]
    assert axes.get_xscale() == "log"
    assert axes.get_ylim()[0] == 0


def test_values_that_are_no_numbers_stand_side_by_side() -> None:
    record = one_axis(axes=[axis("loss", ("", "l2"), ("", "huber"))])
    record["members"] = record["members"][:2]
    record["members"][1]["good_ssim04"] = None
    axes = curve(record, {"good_ssim04": "good"}, "count").axes[0]
    assert np.array_equal(axes.lines[0].get_xydata(), [[0, 2], [1, np.nan]], equal_nan=True)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["loss l2", "loss huber"]


def test_a_map_has_the_first_axis_downwards() -> None:
    record = two_axes()
    record["members"][0]["good_ssim04"] = None
    axes = heat_map(record, "good_ssim04", whole=True).axes[0]
    table = axes.images[0].get_array()
    assert np.ma.filled(table, -1).tolist() == [[-1, 1], [10, 11], [20, 21]]
    assert [text.get_text() for text in axes.texts] == ["—", "1", "10", "11", "20", "21"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["8", "16"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["3", "5", "9"]


def test_a_panel_for_each_member_where_it_stands_in_the_grid() -> None:
    record = two_axes()
    found = {row["member"]: matches_of(2 + place) for place, row in enumerate(record["members"]) if place != 2}
    panels = scatters(record, found).axes
    assert len(panels) == 6
    drawn = [sum(len(layer.get_offsets()) for layer in panel.collections) for panel in panels]
    assert drawn == [2, 3, 0, 5, 6, 7]
    assert "k 2 1\n21 of 100; errors 1%, 25%" in panels[5].get_title()


def test_a_series_that_has_not_begun_is_said(tmp_path: Path) -> None:
    with pytest.raises(RecollectError, match=r"there is no .*series\.json; go on with --resume"):
        write_series_report(tmp_path)
    blank = dict.fromkeys(member("x", [0]))
    known = {"name": "x", "member": "x", "place": [0], "state": "pending"}
    record = one_axis(axes=[axis("decay", ("", 0.5))], members=[blank | known])
    (tmp_path / "series.json").write_text(json.dumps(record))
    text = write_series_report(tmp_path).read_text()
    assert "nothing to draw yet" in text
    assert "0 of 1 members are done" in text
    assert "<a " not in text


def changes(count: int, **figures: Any) -> dict[str, Any]:
    """A series of one run and what becomes of it when something is changed, as of an ablation."""
    made = [member(f"change-{place}", [place], good_ssim04=place, **figures) for place in range(count)]
    return one_axis(axes=[axis("change", *((f"without part {place}", None) for place in range(count)))], members=made)


def test_members_with_names_of_their_own_are_bars_side_by_side(tmp_path: Path) -> None:
    """As many as there are: lines with a legend would leave no room for themselves."""
    record = changes(30)
    assert stand_alone(record)
    assert not stand_alone(one_axis())
    (panel,) = bars(record, {"good_ssim04": "SSIM > 0.4"}).axes
    assert [bar.get_width() for bar in panel.patches] == list(range(30))
    assert [label.get_text() for label in panel.get_yticklabels()][:2] == ["without part 0", "without part 1"]
    page = write_series_report(put(tmp_path / "run", record)).read_text()
    assert "Bars of SSIM &gt; 0.4 for every member" in page
    assert (tmp_path / "run" / "figures" / "bars.png").is_file()


def test_generated_images_have_a_panel_for_each_figure_and_no_bar_for_what_is_unknown(tmp_path: Path) -> None:
    generated = {"label_agreement": 1.0, "attack_accuracy": 0.9, "density": 0.4, "coverage": 0.1, "feature_cosine": 0.3}
    generated |= {"class_feature_cosine": 0.9, "frechet_training": 120.0, "member_advantage": 0.0}
    record = changes(3, **generated)
    record["members"][1] |= dict.fromkeys(generated)
    page = write_series_report(put(tmp_path / "run", record)).read_text()
    assert "Bars of attack accuracy, density, cosine within classes, Frechet distance for every member" in page
    widths = [bar.get_width() for bar in bars(record, {"density": "density"}).axes[0].patches]
    np.testing.assert_equal(widths, [0.4, np.nan, 0.4])
