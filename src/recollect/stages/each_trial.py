"""Every trial judged by itself: what other starts find, with mean and deviation over trials."""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Bool, Float
from torch import Tensor

from recollect.analysis import Judgement, summarise
from recollect.runs import RunFolder
from recollect.stages.generated import averages, deviations

TRIAL_MATCHES = "trial_matches.json"
_COUNTS = ("recovered", "good_ssim04", "ncc80")
_MEANS = ("top10_ssim", *(f"mean_dssim_{scaling}_{window}" for scaling in ("stretch", "clamp") for window in (3, 11)))
_FIGURES = (*_COUNTS, *_MEANS, *(f"null_{name}" for name in (*_COUNTS, *_MEANS)))


def write_each_trial(
    folder: RunFolder,
    candidates: Float[Tensor, "T m ..."],
    diverged: Bool[Tensor, " T"],
    judged: Callable[[Tensor], Judgement],
) -> None:
    """``trial_matches.json`` with a row for each trial that came to its end; mean and deviation in the summary."""
    rows = []
    for number, own in enumerate(candidates):
        if not diverged[number]:
            known = summarise(judged(own))
            rows.append({"number": number} | {name: known[name] for name in _FIGURES if known.get(name) is not None})
    folder.write_json(TRIAL_MATCHES, {"trials": rows})
    figures = [{name: row[name] for name in row if name != "number"} for row in rows]
    means = {"trials": len(rows), "mean": averages(figures), "deviation": deviations(figures)}
    folder.update_summary({"each_trial": means})


def forget_each_trial(folder: RunFolder) -> None:
    """What an earlier rule said of the trials one by one, if it did."""
    if folder.has(TRIAL_MATCHES):
        folder.remove(TRIAL_MATCHES)
        folder.update_summary({"each_trial": None})
