"""The two-dimensional experiment in six panels, as in Haim et al. 2022, Fig. 2."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from recollect.core import RecollectError
from recollect.report.charts import GREY, INK
from recollect.report.folder import Run
from recollect.report.parsing import number, read_tensors
from recollect.zoo import MLPArchitecture, build_network

REACH = 1.5
_TRAINING = {1: "#c92a2a", -1: "#1c5fb0"}
_CANDIDATES = {1: "#c026a8", -1: "#2b8a3e"}


@dataclass(frozen=True)
class Points:
    """Points of the plane with a class each; the class is 0 where it is not known."""

    xy: Float[Tensor, "k 2"]
    labels: Int[Tensor, " k"]

    def __getitem__(self, chosen: Bool[Tensor, " k"]) -> Points:
        return Points(self.xy[chosen], self.labels[chosen])


def circle_figure(run: Run) -> Figure:
    """Data, network, first candidates, last candidates, those with large multipliers, those without repeats."""
    figure = Figure(figsize=(9.6, 7.0), layout="constrained")
    panels = figure.subplots(2, 3, sharex=True, sharey=True).flatten()
    training = _training(run)
    start, end, strong = _attack(run)
    threshold = min_dual(run)
    _training_panel(panels[0], "(a) training points", training)
    _field(panels[1], run)
    _candidate_panel(panels[2], "(c) before the attack", start, None, "the start was not kept")
    _candidate_panel(panels[3], "(d) after the attack", end, training, "no candidates yet")
    least = "large multipliers" if threshold is None else f"multiplier at least {threshold:g}"
    _candidate_panel(panels[4], f"(e) {least}", strong, training, "no multipliers or no threshold")
    distilled = _distilled(run, end)
    _candidate_panel(panels[5], "(f) repeats removed", distilled, training, "nothing distilled")
    _legend(figure)
    return figure


def points_figure(run: Run) -> Figure:
    """One panel, for baselines: all candidates of a run over the training points."""
    figure = Figure(figsize=(4.0, 4.2), layout="constrained")
    _candidate_panel(figure.add_subplot(), "all candidates", _attack(run)[1], _training(run), "no candidates")
    return figure


def min_dual(run: Run) -> float | None:
    """The multiplier below which candidates are dropped: ``match.distil_min_dual`` of the configuration."""
    match = run.config.get("match")
    return number(match.get("distil_min_dual")) if isinstance(match, dict) else None


def _training(run: Run) -> Points | None:
    if run.reference is None or run.matches is None:
        return None
    labels = [0 if sample.label is None else sample.label for sample in run.matches.samples]
    return Points(run.reference, torch.tensor(labels, dtype=torch.int64))


def _attack(run: Run) -> tuple[Points | None, Points | None, Points | None]:
    """First, last and strong candidates, of all trials that did not diverge together."""
    stored = run.candidates()
    if "candidates" not in stored:
        return None, None, None
    last = stored["candidates"]
    trials, m = last.shape[:2]
    alive = ~stored.get("diverged", torch.zeros(trials)).bool()
    label = stored.get("labels", torch.zeros(m, dtype=torch.int64)).long().expand(trials, m)[alive].flatten()
    end = Points(last[alive].flatten(0, 1), label)
    start = Points(stored["start"][alive].flatten(0, 1), label) if "start" in stored else None
    threshold = min_dual(run)
    if "duals" not in stored or threshold is None:
        return start, end, None
    return start, end, end[stored["duals"][alive].flatten() >= threshold]


def _distilled(run: Run, end: Points | None) -> Points | None:
    xy = run.distilled.get("candidates")
    if xy is None:
        return None
    if end is None or not len(end.xy) or not len(xy):
        return Points(xy, torch.zeros(len(xy), dtype=torch.int64))
    # Distilled points are some of the candidates; their class is that of the candidate they came from.
    # The fast path of cdist multiplies, and would turn the infinities into nan again.
    others = end.xy.double().nan_to_num(nan=math.inf)
    distances = torch.cdist(xy.double(), others, compute_mode="donot_use_mm_for_euclid_dist")
    nearest = distances.argmin(dim=1)
    return Points(xy, end.labels[nearest])


def _training_panel(axes: Axes, title: str, training: Points | None) -> None:
    _frame(axes, title)
    if training is None:
        _note(axes, "no reference data")
    else:
        _scatter(axes, training, "x", _TRAINING, size=34, strength=1)


def _candidate_panel(axes: Axes, title: str, found: Points | None, training: Points | None, absent: str) -> None:
    """Candidates over faint training points; what lies outside the panel is counted in its title."""
    beyond = 0 if found is None else int((~(found.xy.abs() <= REACH).all(dim=1)).sum())
    _frame(axes, title + (f", {beyond} outside" if beyond else ""))
    if training is not None:
        _scatter(axes, training, "x", _TRAINING, size=26, strength=0.45)
    if found is None:
        _note(axes, absent)
    else:
        _scatter(axes, found, "o", _CANDIDATES, size=14, strength=0.85)


def _scatter(axes: Axes, points: Points, marker: str, colours: dict[int, str], size: float, strength: float) -> None:
    signs = points.labels.sign()
    for sign, colour in (*colours.items(), (0, GREY)):
        chosen = points[signs == sign].xy.double().cpu().numpy()
        axes.scatter(chosen[:, 0], chosen[:, 1], s=size, marker=marker, color=colour, alpha=strength, linewidths=1)


def _field(axes: Axes, run: Run) -> None:
    line = torch.linspace(-REACH, REACH, 121, dtype=torch.float64)
    plane = torch.cartesian_prod(line, line)
    outputs = _network_outputs(run, plane)
    several = outputs is not None and outputs.shape[1] > 1
    _frame(axes, "(b) largest output less the next" if several else "(b) the network's output")
    if outputs is None:
        _note(axes, "no weights in the run folder")
        return
    largest_two = outputs.topk(2, dim=1).values if several else None
    output = outputs[:, 0] if largest_two is None else largest_two[:, 0] - largest_two[:, 1]
    values = output.reshape(len(line), len(line)).T.numpy()
    largest = max(float(abs(values).max()), 1e-12)
    extent = (-REACH, REACH, -REACH, REACH)
    axes.imshow(values, extent=extent, origin="lower", cmap="RdBu_r", vmin=-largest, vmax=largest)


def _network_outputs(run: Run, x: Float[Tensor, "n 2"]) -> Float[Tensor, "n C"] | None:
    path = run.path / "model" / "weights.safetensors"
    architecture = run.model.get("architecture")
    if not isinstance(architecture, dict) or not path.exists():
        return None
    try:
        net = build_network(MLPArchitecture(**architecture), (2,), seed=0)
        names = net.state_dict().keys()
        net.load_state_dict(read_tensors(path, names) or {})
    except (ValueError, TypeError, RuntimeError) as error:
        raise RecollectError(
            f"{path} does not fit the architecture in model.json beside it; train the target again."
        ) from error
    with torch.no_grad():
        return net(x)


def _note(axes: Axes, text: str) -> None:
    axes.text(0, 0, text, ha="center", va="center", color=INK, fontsize=9)


def _frame(axes: Axes, title: str) -> None:
    axes.set_title(title, fontsize=10, color=INK)
    axes.set(xlim=(-REACH, REACH), ylim=(-REACH, REACH), aspect="equal", xticks=(-1, 0, 1), yticks=(-1, 0, 1))
    axes.tick_params(colors=INK, color=GREY, labelsize=8)
    for spine in axes.spines.values():
        spine.set_color(GREY)


def _legend(figure: Figure) -> None:
    axes = figure.axes[0]
    entries = [("x", _TRAINING, "training"), ("o", _CANDIDATES, "candidate")]
    handles = [
        axes.scatter([], [], marker=marker, color=colours[sign], s=26, label=f"{name}, class {sign:+d}")
        for marker, colours, name in entries
        for sign in (1, -1)
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=9, labelcolor=INK)
