"""The page in a real browser: filters, pointer, keyboard, many samples, colours, small screens and paper."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, expect
from safetensors.torch import load_file, save_file

from recollect.report.audit import read_audit
from recollect.report.folder import read_run
from recollect.report.page import render
from recollect.report.pairs import gallery
from recollect.report.section import Material

EVIL = '<script>alert(1)</script>"><img src=x onerror=alert(2)>'
Visit = Callable[..., Page]


def put_page(folder: Path) -> Path:
    """The page without the pictures that matplotlib draws: they are slow and tested elsewhere."""
    run = read_run(folder)
    page = folder / "page.html"
    page.write_text(render(Material(run, {}, gallery(run), read_audit(folder))), encoding="utf-8")
    return page


def baseline(folder: Path, name: str) -> None:
    """A second attack whose pairs are the run's, upside down, and all of whose scores are lower."""
    path = folder / "baselines" / "other"
    path.mkdir(parents=True)
    for file in ("config.toml", "summary.json"):
        (path / file).write_bytes((folder / file).read_bytes())
    (path / "status.json").write_text(json.dumps({"format": 1, "name": name, "stages": {}}))
    record = json.loads((folder / "matches.json").read_text())
    for sample in record["samples"]:
        sample |= {"ncc": sample["ncc"] / 2, "recovered": False}
    (path / "matches.json").write_text(json.dumps(record))
    pairs = load_file(folder / "pairs.safetensors")
    flipped = pairs["reconstruction"].flip(-2).contiguous()
    save_file({**pairs, "reconstruction": flipped}, path / "pairs.safetensors")


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory, write: Callable[..., Path]) -> Path:
    """Forty samples, two attacks, one of them with a hostile name."""
    folder = write(tmp_path_factory.mktemp("small") / "run", (3, 8, 8), n=40)
    baseline(folder, EVIL)
    return put_page(folder)


@pytest.fixture(scope="session")
def samples(small: Path) -> list[dict]:
    """Best first."""
    found = json.loads((small.parent / "matches.json").read_text())["samples"]
    return sorted(found, key=lambda sample: -sample["ncc"])


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory, write: Callable[..., Path]) -> Path:
    return put_page(write(tmp_path_factory.mktemp("large") / "run", (1, 28, 28), n=5000))


def titles(page: Page) -> list[str]:
    return page.locator("#gallery .card b").all_inner_texts()


def names(samples: list[dict]) -> list[str]:
    return [f"NCC {sample['ncc']:.3f}" for sample in samples]


def choose(page: Page, filter_name: str, words: str) -> None:
    page.locator(f'[data-choice="{filter_name}"]').select_option(label=words)


def test_the_gallery_opens_with_this_run_best_first(visit: Visit, small: Path, samples: list[dict]) -> None:
    page = visit(small)
    recovered = sum(sample["recovered"] for sample in samples)
    assert titles(page) == names(samples)
    expect(page.locator("#count")).to_have_text(f"Showing 40 of 80, {recovered} of them recovered.")
    assert page.locator("#gallery .lit").count() == recovered


def test_filters_by_class_verdict_and_score(visit: Visit, small: Path, samples: list[dict]) -> None:
    page = visit(small)
    choose(page, "label", "-1")
    chosen = [sample for sample in samples if sample["label"] == -1]
    assert titles(page) == names(chosen)
    choose(page, "state", "recovered")
    chosen = [sample for sample in chosen if sample["recovered"]]
    assert titles(page) == names(chosen)
    expect(page.locator("#count")).to_have_text(f"Showing {len(chosen)} of 80.")
    page.get_by_role("button", name="Reset").click()
    expect(page.locator("#gallery .card")).to_have_count(40)
    page.locator("#least").fill("0.5")
    assert titles(page) == names([sample for sample in samples if sample["ncc"] >= 0.5])
    page.locator("#order").select_option(label="lowest first")
    assert titles(page) == names([sample for sample in samples if sample["ncc"] >= 0.5])[::-1]


def test_filter_by_attack_shows_hostile_names_as_text(visit: Visit, small: Path, samples: list[dict]) -> None:
    page = visit(small)
    choose(page, "attack", EVIL)
    halves = [f"NCC {sample['ncc'] / 2:.3f}" for sample in samples]
    shown = titles(page)
    assert [float(text[4:]) for text in shown] == pytest.approx([float(text[4:]) for text in halves], abs=0.0011)
    page.locator('[data-choice="attack"]').select_option("")
    expect(page.locator("#gallery .card")).to_have_count(80)
    assert EVIL in page.locator("#gallery").inner_text()
    assert page.locator("img[src='x']").count() == 0
    assert page.locator("script").count() == 2


def test_nothing_left_is_said_and_can_be_undone(visit: Visit, small: Path) -> None:
    page = visit(small)
    choose(page, "attack", EVIL)
    choose(page, "state", "recovered")
    expect(page.locator("#count")).to_have_text("Showing 0 of 80.")
    expect(page.locator("#none")).to_be_visible()
    page.locator("#all").click()
    expect(page.locator("#none")).to_be_hidden()
    expect(page.locator("#gallery .card")).to_have_count(80)


def test_tiles_show_the_pixels_of_their_pair(visit: Visit, small: Path, samples: list[dict]) -> None:
    page = visit(small)
    pairs = load_file(small.parent / "pairs.safetensors")
    first = samples[0]["index"] - 100
    for place, key in enumerate(("reconstruction", "reference")):
        tile = page.locator("#gallery .card").first.locator(".tile").nth(place)
        shown = np.asarray(Image.open(BytesIO(tile.screenshot())).convert("RGB"))
        zoom = len(shown) // 8
        drawn = shown[zoom // 2 :: zoom, zoom // 2 :: zoom].transpose(2, 0, 1) / 255
        np.testing.assert_allclose(drawn, pairs[key][first].numpy(), atol=0.01)


def test_the_keyboard_reaches_filters_cards_and_details(visit: Visit, small: Path, samples: list[dict]) -> None:
    page = visit(small)
    page.locator("#least").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#count")).not_to_contain_text("Showing 40")
    page.get_by_role("button", name="Reset").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#count")).to_contain_text("Showing 40")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#gallery .card").nth(2)).to_be_focused()
    page.keyboard.press("Enter")
    detail = page.locator("#detail")
    expect(detail).to_be_visible()
    assert str(samples[2]["index"]) in detail.locator("dd").all_inner_texts()
    page.keyboard.press("ArrowLeft")
    assert str(samples[1]["index"]) in detail.locator("dd").all_inner_texts()
    page.keyboard.press("Escape")
    expect(detail).to_be_hidden()
    expect(page.locator("#gallery .card").nth(2)).to_be_focused()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('#gallery')") is None


def test_hovering_over_the_scatter_shows_the_pair(visit: Visit, small: Path, samples: list[dict]) -> None:
    page = visit(small)
    plot = page.locator('[data-plot="scatter-ncc"]')
    readings = json.loads(page.locator("#data").text_content() or "")["plots"]["scatter-ncc"]
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box is not None
    scale = box["width"] / 460
    page.mouse.move(box["x"] + readings["x"][3] * scale, box["y"] + readings["y"][3] * scale)
    tip = plot.locator("xpath=..").locator(".tip")
    expect(tip).to_contain_text(f"NCC {samples[3]['ncc']:.3f}")
    expect(tip).to_contain_text(f"sample {samples[3]['index']}")
    assert tip.locator(".tile").count() == 2
    page.mouse.move(0, 0)
    expect(tip).to_be_hidden()


def test_the_keyboard_reads_every_chart(visit: Visit, small: Path, samples: list[dict]) -> None:
    page = visit(small)
    plots = page.locator("svg[data-plot]")
    assert [plot.get_attribute("data-plot") for plot in plots.all()] == [
        "scatter-ncc", "scatter-ssim", "histogram", "roc", "search", "training"
    ]  # fmt: skip
    for plot in plots.all():
        plot.focus()
        page.keyboard.press("Home")
        tip = plot.locator("xpath=..").locator(".tip")
        first = tip.inner_text()
        page.keyboard.press("ArrowRight")
        assert tip.inner_text() not in ("", first)
        page.keyboard.press("Escape")
        expect(tip).to_be_hidden()
    plots.first.focus()
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    expect(page.locator("#detail")).to_be_visible()
    assert str(samples[0]["index"]) in page.locator("#detail dd").all_inner_texts()


def test_five_thousand_samples_are_shown_as_they_come_into_sight(visit: Visit, large: Path) -> None:
    assert large.stat().st_size < 10_000_000
    page = visit(large)
    expect(page.locator("#count")).to_contain_text("Showing 5,000 of 5,000")
    assert page.locator("#gallery .card").count() <= 360
    assert page.evaluate("document.getElementsByTagName('*').length") < 12_000
    choose(page, "label", "1")
    expect(page.locator("#count")).to_contain_text("Showing 2,500 of 5,000")
    page.locator("#least").fill("0.9")
    page.locator("#order").select_option(label="lowest first")
    page.get_by_role("button", name="Reset").click()
    expect(page.locator("#count")).to_contain_text("Showing 5,000 of 5,000")
    before = page.locator("#gallery .card").count()
    page.locator("#more").scroll_into_view_if_needed()
    page.wait_for_function("count => document.querySelectorAll('#gallery .card').length > count", arg=before)
    page.locator('[data-plot="scatter-ncc"]').focus()
    page.keyboard.press("End")
    expect(page.locator(".tip:visible .tile")).to_have_count(2)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_follow_the_system_and_the_button(visit: Visit, small: Path, scheme: str) -> None:
    page = visit(small, scheme=scheme)
    assert _light(page) == (scheme == "light")
    button = page.locator("#theme")
    assert button.get_attribute("aria-pressed") == str(scheme == "dark").lower()
    button.click()
    assert _light(page) == (scheme == "dark")
    button.click()
    assert _light(page) == (scheme == "light")


def _light(page: Page) -> bool:
    return sum(int(part) for part in re.findall(r"\d+", _colour(page))[:3]) > 380


def _colour(page: Page) -> str:
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


@pytest.mark.parametrize("width", [320, 380, 800])
def test_small_screens_do_not_scroll_sideways(visit: Visit, small: Path, width: int) -> None:
    page = visit(small, width=width)
    page.locator("details").evaluate_all("all => all.forEach((one) => { one.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator("#gallery .card").first.click()
    box = page.locator("#detail").bounding_box()
    assert box is not None
    assert box["width"] <= width


def test_paper_has_light_colours_and_no_controls(visit: Visit, small: Path) -> None:
    page = visit(small, scheme="dark")
    page.locator("#theme").click()
    page.locator("#theme").click()
    assert page.pdf(format="A4").startswith(b"%PDF")
    page.emulate_media(media="print")
    for control in ("#filters", "#theme", "nav", ".numbers"):
        expect(page.locator(control).first).to_be_hidden()
    expect(page.locator("#gallery .card").first).to_be_visible()
    assert _colour(page) == "rgb(255, 255, 255)"
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(page.locator("#configuration pre")).to_be_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    expect(page.locator("#configuration pre")).to_be_hidden()


def test_without_scripts_the_data_can_be_read(visit: Visit, small: Path, samples: list[dict]) -> None:
    page = visit(small, scripts=False)
    assert titles(page) == names(samples)
    expect(page.locator("#filters")).to_be_hidden()
    expect(page.locator("#theme")).to_be_hidden()
    expect(page.locator("noscript p")).to_be_visible()
    expect(page.locator('[data-plot="roc"]')).to_be_visible()
    page.locator("#scores details > summary", has_text="Every training sample").click()
    expect(page.locator("#scores > details .listing tbody tr")).to_have_count(40)
    expect(page.locator("#scores > details .listing tbody tr").first).to_be_visible()


def test_a_run_without_anything_has_a_page_too(visit: Visit, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("")
    (tmp_path / "status.json").write_text('{"format": 1, "stages": {}}')
    page = visit(put_page(tmp_path))
    expect(page.locator("h1")).to_be_visible()
    assert page.locator("#gallery").count() == 0


def test_vectors_can_be_read_point_by_point(visit: Visit, write: Callable[..., Path], tmp_path: Path) -> None:
    page = visit(put_page(write(tmp_path / "run", (5,), n=6)))
    page.locator('[data-plot="scatter-ncc"]').focus()
    page.keyboard.press("Home")
    expect(page.locator(".tip:visible")).to_contain_text("class")


def test_a_policy_stops_what_escaping_might_miss(browser: Browser, small: Path, tmp_path: Path) -> None:
    """The page with live HTML put into it by force: the browser runs none of it."""
    broken = tmp_path / "broken.html"
    live = "<script>document.title = 'taken'</script><b onclick=\"document.title = 'taken'\" id=trap>x</b>"
    broken.write_text(small.read_text(encoding="utf-8").replace("<h1>", f"{live}<h1>", 1), encoding="utf-8")
    page = browser.new_page()
    page.goto(broken.as_uri())
    page.locator("#trap").click()
    assert page.title() == "demo · recollect"
    page.close()
