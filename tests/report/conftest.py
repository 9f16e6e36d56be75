"""Small made-up run folders: images, colour images and points, complete but for what a test removes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from playwright.sync_api import Browser, Page, sync_playwright
from safetensors.torch import save_file
from tests.servers import absent
from torch import Tensor

from recollect.zoo import MLPArchitecture, build_network

CONFIG = "[attack]\nsteps = 5000\n\n[match]\ndistil_min_dual = 5.0\n"


def put(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def put_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file({name: values.contiguous() for name, values in tensors.items()}, path)


def summary_of(n: int, recovered: int | None) -> dict[str, Any]:
    counts = {"ncc80": 7, "ncc90": 3, "null_ncc80": 2, "null_ncc90": 1, "good_ssim04": 5, "null_good_ssim04": 4}
    return {
        "command": "recollect demo", "version": "0.1.0", "device": "cpu", "dtype": "float32", "seed": 11,
        "trials": 2, "diverged_trials": 1, "candidates": 40, "steps": 5000, "seconds": 13.25,
        "ms_per_step_per_trial": 1.325, "method": "kkt", "reference_count": n, "recovered": recovered,
        "recovered_rule": "NCC above 0.8300, quantile 0.99", "null_count": 30, "null_recovered": 0,
        "top10_ssim": 0.5125, "mean_dssim": 0.3125, "null_mean_dssim": 0.4375, "ssim_window": 3,
        "scaling": "stretch", "vote_ratio": 1.1, "each_candidate_once": False,
        "verdict": f"{recovered} of {n} training samples leak.", **counts,
    }  # fmt: skip


def matches_of(n: int, generator: torch.Generator, score: str) -> dict[str, Any]:
    values = torch.rand(n, 4, generator=generator, dtype=torch.float64).tolist()
    samples = [
        {
            "index": 100 + row, "label": 1 if row % 2 else -1, "output": 12 * output - 6, "ncc": ncc, "ssim": ssim,
            "psnr": 18.0, "distance": distance, "candidate": [0, row], "votes": 2, "recovered": ncc > 0.83,
        }
        for row, (output, ncc, ssim, distance) in enumerate(values)
    ]  # fmt: skip
    null = (0.8 * torch.rand(30, 2, generator=generator, dtype=torch.float64)).T.tolist()
    return {"score": score, "threshold": 0.83, "samples": samples, "null": {"ncc": null[0], "ssim": null[1]}}


def write_model(path: Path, sample_shape: tuple[int, ...]) -> None:
    architecture = {"kind": "mlp", "hidden": [8, 8], "outputs": 1, "bias": "first", "first_layer_scale": 0.5}
    training = {"epochs": 30000, "loss": 2e-5, "error": 0.0, "seconds": 13.1, "test_error": 0.2}
    record = {"format": 1, "architecture": architecture, "sample_shape": list(sample_shape), "training": training}
    put(path / "model.json", record)
    lines = [{"epoch": 1000 * k, "loss": 0.5**k, "error": 0.0 if k > 4 else 0.1} for k in range(1, 12)]
    put(path / "curve.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    net = build_network(MLPArchitecture(**architecture), sample_shape, seed=3)
    put_tensors(path / "weights.safetensors", dict(net.state_dict()))


def write_run(path: Path, sample_shape: tuple[int, ...], n: int = 20, score: str = "ncc", name: str = "demo") -> Path:
    """A complete run folder whose numbers are drawn from a fixed seed."""
    generator = torch.Generator().manual_seed(n)
    put(path / "config.toml", CONFIG)
    stages = {"train": "done", "attack": "done", "match": "done", "report": "running"}
    put(path / "status.json", {"format": 1, "version": "0.1.0", "name": name, "stages": stages})
    matches = matches_of(n, generator, score)
    recovered = sum(sample["recovered"] for sample in matches["samples"])
    put(path / "summary.json", summary_of(n, recovered))
    put(path / "matches.json", matches)
    write_model(path / "model", sample_shape)
    terms = [
        {"step": 100 * k, "seconds": 0.1 * k, "alive": 2,
         "terms": {"stationarity": [9.0 / k, None if k > 5 else 2.0], "dual_floor": [0.0, 0.1 / k]}}
        for k in range(1, 20)
    ]  # fmt: skip
    put(path / "trace.jsonl", "".join(json.dumps(line) + "\n" for line in terms))
    shape = (2, 40, *sample_shape)
    candidates = {
        "candidates": torch.randn(shape, generator=generator),
        "duals": 10 * torch.rand(2, 40, generator=generator),
        "labels": torch.tensor([1, -1] * 20),
        "diverged": torch.tensor([0, 1], dtype=torch.uint8),
    }
    if sample_shape == (2,):
        candidates["start"] = 0.3 * torch.randn(shape, generator=generator)
        kept = {"candidates": candidates["candidates"][0, :9].clone(), "duals": candidates["duals"][0, :9].clone()}
        put_tensors(path / "distilled.safetensors", kept)
    put_tensors(path / "candidates.safetensors", candidates)
    pairs = {key: torch.rand(n, *sample_shape, generator=generator) for key in ("reconstruction", "reference")}
    put_tensors(path / "pairs.safetensors", pairs)
    return path


@pytest.fixture(scope="session")
def write() -> Callable[..., Path]:
    """``write(path, sample_shape, n=..., score=..., name=...)`` for tests that need several folders."""
    return write_run


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Path]:
    def make(sample_shape: tuple[int, ...] = (1, 6, 7), n: int = 20, score: str = "ncc", name: str = "demo") -> Path:
        return write_run(tmp_path / "run", sample_shape, n, score, name)

    return make


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A real browser, once for all tests."""
    chromium = shutil.which("chromium")
    if chromium is None:
        absent("the page is tested in Chromium, which is not installed; on Debian: apt install chromium")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens a page file; afterwards nothing may have been asked of the network and nothing complained about."""
    contexts, complaints, asked = [], [], []

    def complain(message: Any) -> None:
        if message.type in ("error", "warning"):
            complaints.append(message.text)

    def opened(file: Path, width: int = 1200, scheme: str = "light", scripts: bool = True) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=scripts
        )
        contexts.append(context)
        context.on("request", lambda request: asked.append(request.url))
        context.route("**/*", lambda route: route.continue_() if route.request.url == file.as_uri() else route.abort())
        page = context.new_page()
        page.on("console", complain)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(file.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
