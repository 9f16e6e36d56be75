"""Every picture of a run, drawn once: the page shows the same bytes that lie in the folder."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from PIL import Image

from recollect.analysis import stretch
from recollect.report.charts import (
    SCORE_NAMES,
    attack_curves,
    png,
    score_histogram,
    score_scatter,
    training_curve,
)
from recollect.report.circle import circle_figure, points_figure
from recollect.report.class_grid import generated_grid
from recollect.report.folder import Run, read_run
from recollect.report.grid import image_grid, pair_grid
from recollect.report.kernels import KERNEL_LIMIT, kernels
from recollect.report.orbitope import orbitope_figure, read_orbitope
from recollect.report.saving import save

GRID_LIMIT = 60


@dataclass(frozen=True)
class Picture:
    """A PNG, where it lies in the run folder, and what it shows in words."""

    file: str
    alt: str
    png: bytes
    width: int
    pixelated: bool = False

    @property
    def uri(self) -> str:
        return f"data:image/png;base64,{b64encode(self.png).decode()}"


def write_pictures(run: Path) -> list[Path]:
    """Write ``grid.png`` and ``figures/*.png`` into a run folder, from what the folder holds; return their paths."""
    return save_pictures(run, draw(read_run(run)))


def save_pictures(folder: Path, pictures: dict[str, Picture]) -> list[Path]:
    return [save(folder / picture.file, picture.png) for picture in pictures.values()]


def draw(run: Run) -> dict[str, Picture]:
    """Pictures by name; a picture whose data are missing is left out."""
    drawn = {
        "main": _circle(run) if run.of_points else _grid(run, "grid.png"),
        "scatter": _scatter(run),
        "histogram": _histogram(run),
        "attack": _attack(run),
        "training": _training(run),
        "kernels": _kernels(run),
        "orbitope": _orbitope(run),
        "generated": _generated(run, "figures/generated.png"),
    }
    for baseline in run.baselines:
        file = f"figures/baseline-{baseline.path.name}.png"
        drawn[f"baseline {baseline.path.name}"] = (
            _points(baseline, file) if baseline.of_points else _grid(baseline, file)
        )
        made = f"figures/generated-{baseline.path.name}.png"
        drawn[f"generated {baseline.path.name}"] = _generated(baseline, made)
    return {name: picture for name, picture in drawn.items() if picture is not None}


def grid_score(run: Run) -> str:
    """What pairs of images are ranked by: the score of the run, or NCC where that is a distance."""
    return "ssim" if run.matches is not None and run.matches.score == "ssim" else "ncc"


def _grid(run: Run, file: str) -> Picture | None:
    if not run.of_images:
        return None
    if run.reference is None or run.reconstruction is None or run.matches is None:
        return _distilled_grid(run, file)
    if not len(run.reference):
        return None
    score = grid_score(run)
    scores = [sample.score(score) for sample in run.matches.samples]
    picture = pair_grid(run.reconstruction, run.reference, scores, limit=GRID_LIMIT)
    shown = min(len(scores), GRID_LIMIT)
    return _picture(
        picture, file, f"{shown} reconstructions, each above its training image, best {SCORE_NAMES[score]} first"
    )


def _distilled_grid(run: Run, file: str) -> Picture | None:
    images, duals = run.distilled.get("candidates"), run.distilled.get("duals")
    if images is None or not len(images):
        return None
    titles = ["" if duals is None else f"{float(duals[row]):.2g}" for row in range(len(images))]
    picture = image_grid(stretch(images), titles, limit=GRID_LIMIT)
    shown = min(len(images), GRID_LIMIT)
    return _picture(picture, file, f"{shown} candidates, the largest multiplier first, each stretched to full contrast")


def _kernels(run: Run) -> Picture | None:
    found = kernels(run)
    if found is None:
        return None
    shown = stretch(found[:KERNEL_LIMIT])
    picture = image_grid(shown, [str(place) for place in range(1, len(shown) + 1)], columns=16, limit=KERNEL_LIMIT)
    return _picture(picture, "figures/kernels.png", f"{len(shown)} kernels of the first layer as images")


def _orbitope(run: Run) -> Picture | None:
    found = read_orbitope(run.path)
    alt = "Histogram of candidates from the average of a training sample's orbit to the elements of the orbit"
    return None if found is None else Picture("figures/orbitope.png", alt, png(orbitope_figure(found)), 540)


def _generated(run: Run, file: str) -> Picture | None:
    image = generated_grid(run.path)
    alt = "Generated images, a row for each class, and on the right the training image that each is most like"
    return None if image is None else _picture(image, file, alt)


def _picture(image: Image.Image, file: str, alt: str) -> Picture:
    buffer = BytesIO()
    image.save(buffer, format="PNG", optimize=True)
    return Picture(file, alt, buffer.getvalue(), image.width, pixelated=True)


def _circle(run: Run) -> Picture:
    alt = (
        "Six panels over the plane: training points by class, the network's output, candidates before and after "
        "the attack, those with large multipliers, and those left when repeats are removed"
    )
    return Picture("figures/circle.png", alt, png(circle_figure(run), dpi=150), 960)


def _points(run: Run, file: str) -> Picture:
    return Picture(
        file, f"Candidates of the baseline {run.name} over the training points", png(points_figure(run)), 400
    )


def _scatter(run: Run) -> Picture | None:
    if run.matches is None or not run.matches.samples:
        return None
    name = SCORE_NAMES[run.matches.score]
    across = "its margin" if run.matches.of_margins else "the network's output for it"
    alt = f"{name} of each training sample against {across}; recovered samples are coloured"
    return Picture("figures/scores.png", alt, png(score_scatter(run.matches)), 540)


def _histogram(run: Run) -> Picture | None:
    if run.matches is None or not run.matches.samples:
        return None
    name = SCORE_NAMES[run.matches.score]
    alt = f"Histogram of {name}: training samples against held-out samples"
    return Picture("figures/histogram.png", alt, png(score_histogram(run.matches)), 540)


def _attack(run: Run) -> Picture | None:
    alt = "Loss against step, one line for each term and trial, on a logarithmic axis"
    return None if run.trace is None else Picture("figures/attack.png", alt, png(attack_curves(run.trace)), 540)


def _training(run: Run) -> Picture | None:
    alt = "Loss and share of wrong labels against epoch, on a logarithmic axis"
    return None if run.curve is None else Picture("figures/training.png", alt, png(training_curve(run.curve)), 540)
