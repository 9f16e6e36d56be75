"""Charts draw the numbers they are given; the plane's panels hold the right points."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgba
from PIL import Image
from safetensors.torch import load_file, save_file

from recollect.report import pair_grid, write_pictures, write_report
from recollect.report.charts import ACCENT, attack_curves, score_histogram, score_scatter, training_curve
from recollect.report.circle import circle_figure
from recollect.report.folder import read_run
from recollect.zoo import MLPArchitecture, build_network


def drawn_points(axes, colour: str | None = None) -> np.ndarray:
    layers = [
        layer for layer in axes.collections if colour is None or tuple(layer.get_facecolor()[0]) == to_rgba(colour, 0.8)
    ]
    return np.concatenate([np.asarray(layer.get_offsets()) for layer in layers])


def test_grid_png_is_the_pair_grid_of_the_files(make_run):
    folder = make_run((3, 8, 8), score="ssim")
    written = write_pictures(folder)
    pairs = load_file(folder / "pairs.safetensors")
    scores = [sample["ssim"] for sample in json.loads((folder / "matches.json").read_text())["samples"]]
    twin = pair_grid(pairs["reconstruction"], pairs["reference"], scores)
    np.testing.assert_array_equal(np.asarray(Image.open(folder / "grid.png")), np.asarray(twin))
    names = {str(path.relative_to(folder)) for path in written}
    assert names == {"grid.png", *(f"figures/{name}.png" for name in ("scores", "histogram", "attack", "training"))}
    assert all(path.exists() for path in written)


@pytest.mark.parametrize("score", ["ncc", "ssim"])
def test_scatter_shows_every_sample_and_colours_the_recovered(make_run, score):
    matches = read_run(make_run(score=score)).matches
    axes = score_scatter(matches).axes[0]
    every = sorted((sample.output, sample.score(score)) for sample in matches.samples)
    recovered = sorted((sample.output, sample.score(score)) for sample in matches.samples if sample.recovered)
    assert 0 < len(recovered) < len(every)
    np.testing.assert_allclose(sorted(map(tuple, drawn_points(axes))), every)
    np.testing.assert_allclose(sorted(map(tuple, drawn_points(axes, ACCENT))), recovered)
    assert axes.lines[0].get_ydata()[0] == 0.83
    assert axes.get_xlabel() == "network's output for the training sample"


def test_several_classes_are_drawn_against_their_margin(make_run):
    folder = make_run()
    record = json.loads((folder / "matches.json").read_text())
    (folder / "matches.json").write_text(json.dumps({**record, "output": "margin"}))
    matches = read_run(folder).matches
    assert score_scatter(matches).axes[0].get_xlabel().startswith("margin: output of the sample's class less")
    page = write_report(folder).read_text()
    assert "<th>margin</th>" in page.replace(' scope="col"', "")
    assert "against the margin: output of its class less the largest other" in page


def test_the_field_of_several_outputs_is_the_lead_of_the_largest(make_run):
    folder = make_run((2,))
    run = read_run(folder)
    architecture = run.model["architecture"] | {"outputs": 3}
    net = build_network(MLPArchitecture(**architecture), (2,), seed=5)
    save_file(dict(net.state_dict()), folder / "model" / "weights.safetensors")
    model = json.loads((folder / "model" / "model.json").read_text())
    (folder / "model" / "model.json").write_text(json.dumps({**model, "architecture": architecture}))
    panel = circle_figure(read_run(folder)).axes[1]
    assert panel.get_title() == "(b) largest output less the next"
    line = np.linspace(-1.5, 1.5, 121)
    for row, column in ((0, 0), (10, 90), (120, 3)):
        said = sorted(net(torch.tensor([[line[column], line[row]]], dtype=torch.float64))[0].tolist())
        assert panel.images[0].get_array()[row, column] == pytest.approx(said[-1] - said[-2], abs=1e-9)


def test_histogram_shares_sum_to_one_on_both_sides(make_run):
    matches = read_run(make_run()).matches
    axes = score_histogram(matches).axes[0]
    held_out = sum(bar.get_height() for bar in axes.containers[0])
    outline = axes.patches[-1].get_xy()
    edges, heights = np.unique(outline[:, 0]), outline[:, 1]
    assert held_out == pytest.approx(1)
    scores = [sample.ncc for sample in matches.samples]
    assert heights.max() == pytest.approx(np.histogram(scores, edges)[0].max() / len(scores))


def test_attack_curves_hold_each_term_of_each_trial(make_run):
    trace = read_run(make_run()).trace
    axes = attack_curves(trace).axes[0]
    assert axes.get_yscale() == "log"
    assert len(axes.lines) == 4
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [9.0 / k for k in range(1, 20)], rtol=1e-6)
    assert np.isnan(axes.lines[1].get_ydata()[5:]).all()
    assert np.isnan(axes.lines[2].get_ydata()).all()
    labels = [text.get_text() for text in axes.figure.legends[0].get_texts()]
    assert labels == ["stationarity", "dual_floor"]


def test_training_curve_leaves_zeros_out(make_run):
    axes = training_curve(read_run(make_run()).curve).axes[0]
    loss, error = (line.get_ydata() for line in axes.lines)
    np.testing.assert_allclose(loss, [0.5**k for k in range(1, 12)])
    assert [math.isnan(value) for value in error] == [k > 4 for k in range(1, 12)]


def test_the_plane_in_six_panels(make_run):
    folder = make_run((2,))
    stored, pairs = load_file(folder / "candidates.safetensors"), load_file(folder / "pairs.safetensors")
    distilled = load_file(folder / "distilled.safetensors")
    panels = circle_figure(read_run(folder)).axes
    strong = stored["candidates"][0][stored["duals"][0] >= 5.0]
    expected = {
        0: pairs["reference"],
        2: stored["start"][0],
        3: torch.cat([pairs["reference"], stored["candidates"][0]]),
        4: torch.cat([pairs["reference"], strong]),
        5: torch.cat([pairs["reference"], distilled["candidates"]]),
    }
    for place, points in expected.items():
        layers = [np.asarray(layer.get_offsets(), dtype=float).reshape(-1, 2) for layer in panels[place].collections]
        found = sorted(map(tuple, np.concatenate(layers)))
        np.testing.assert_allclose(found, sorted(map(tuple, points.double().numpy())), err_msg=f"panel {place}")
    assert [axes.get_title()[:3] for axes in panels] == [f"({letter})" for letter in "abcdef"]


def test_distilled_points_keep_the_class_of_their_candidate(make_run):
    folder = make_run((2,))
    kept = load_file(folder / "distilled.safetensors")["candidates"]
    stored = load_file(folder / "candidates.safetensors")
    stored["candidates"][0, 20:] = torch.nan
    save_file(stored, folder / "candidates.safetensors")
    panel = circle_figure(read_run(folder)).axes[5]
    positive, negative = (np.asarray(panel.collections[layer].get_offsets()) for layer in (3, 4))
    np.testing.assert_allclose(positive, kept[0::2].double())
    np.testing.assert_allclose(negative, kept[1::2].double())


def test_the_field_is_the_output_of_the_stored_network(make_run):
    folder = make_run((2,))
    run = read_run(folder)
    image = circle_figure(run).axes[1].images[0]
    net = build_network(MLPArchitecture(**run.model["architecture"]), (2,), seed=0)
    net.load_state_dict(load_file(folder / "model" / "weights.safetensors"))
    line = np.linspace(-1.5, 1.5, 121)
    for row, column in ((0, 0), (10, 90), (120, 3)):
        x = torch.tensor([[line[column], line[row]]], dtype=torch.float64)
        assert image.get_array()[row, column] == pytest.approx(net(x).item(), abs=1e-9)
    assert image.origin == "lower"


def test_points_without_anything_but_a_model_still_have_panels(make_run):
    folder = make_run((2,))
    for name in ("candidates", "pairs", "distilled"):
        (folder / f"{name}.safetensors").unlink()
    (folder / "model" / "weights.safetensors").unlink()
    written = write_pictures(folder)
    assert folder / "figures" / "circle.png" in written
    assert all(axes.texts for axes in circle_figure(read_run(folder)).axes)


def test_diverged_candidates_are_not_drawn(make_run):
    folder = make_run((2,))
    stored = load_file(folder / "candidates.safetensors")
    stored["candidates"][1] = torch.nan
    save_file(stored, folder / "candidates.safetensors")
    offsets = [layer.get_offsets() for layer in circle_figure(read_run(folder)).axes[3].collections]
    assert sum(len(points) for points in offsets) == 20 + 40
