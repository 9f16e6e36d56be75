"""``python -m benchmarks.rank_scores FOLDER --choose TARGET ... --report TARGET ...``: the score that ranks best.

Reads what ``benchmarks.trial_scores`` wrote. A score is a residual times powers of at most so many other traits; powers
are few and round. Or it is a residual that leaves the order of the trials within reach of the smallest to what others
confirm (`benchmarks.agreement`). It is chosen on some targets, by its Spearman correlation with the number of
samples recovered plus the share that the trial it picks keeps of the best, and reported on others. "Again" is how well
the other trial of the same settings predicts a trial: what chance leaves to any score.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path

import numpy as np

from recollect.config import TrialSettings
from recollect.report.sweep_trials import rank_correlation

Powers = tuple[tuple[float, str], ...]


@dataclass(frozen=True)
class Score:
    """Larger is better. ``powers`` of traits; a residual's is negative."""

    residual: str
    powers: Powers
    within: float = math.inf
    """Powers rank the trials whose residual is within this multiple of the smallest; below them the residual does."""

    def __str__(self) -> str:
        product = " ".join(f"{trait}^{power:g}" for power, trait in self.powers)
        return product if math.isinf(self.within) else f"{self.residual}, within {self.within:g} {product}"


def alone(residual: str) -> Score:
    return Score(residual, ((-1.0, residual),))


SHIPPED = alone("residual")
"""What `recollect sweep` picks by."""

REACHES = (1.2, 1.3, 1.5)
SHARES = (0.0, 0.5, 1.0, 2.0)
"""Powers of the residual among trials within reach."""

POWERS = (-1.0, -0.3, -0.1, 0.1, 0.3, 1.0)
TRUTH = {"recovered", "mean_ncc", "ncc80", "ssim04"}
NO_TRAITS = {"trial", "diverged", *TrialSettings.model_fields, *TRUTH}


@dataclass(frozen=True)
class Target:
    """Trials of one network: the logarithm of each trait's size, and what each trial recovered."""

    name: str
    traits: dict[str, np.ndarray]
    recovered: np.ndarray
    twins: np.ndarray
    """What both trials of each setting recovered: how far anything could be predicted from the settings."""

    def rate(self, score: Score) -> np.ndarray:
        product = np.sum([power * self.traits[trait] for power, trait in score.powers], axis=0)
        residual = self.traits[score.residual]
        reached = residual <= residual.min() + math.log(score.within)
        return np.where(reached, product - product[reached].min() - residual.min() + 1, -residual)

    def spearman(self, score: Score) -> float:
        """With the recovered count; 0 where one of them is constant, since it ranks nothing."""
        found = rank_correlation(self.rate(score).tolist(), self.recovered.tolist())
        return 0.0 if math.isnan(found) else found

    def kept(self, score: Score) -> float:
        """Of what the best trial recovers, the share that the best rated one does; nan where nobody recovers."""
        best = self.recovered.max()
        return float(self.recovered[self.rate(score).argmax()] / best) if best else math.nan

    def repeated(self) -> tuple[float, float]:
        """Both figures of a score that knows what the other trial of the same settings recovers."""
        if not len(self.twins) or not self.recovered.max():
            return math.nan, math.nan
        one, two = self.twins.T
        kept = (two[one.argmax()] + one[two.argmax()]) / 2 / self.recovered.max()
        return rank_correlation(one.tolist(), two.tolist()), float(kept)


def read_target(path: Path) -> Target:
    """Trials that diverged, or have a trait that is no number, are not ranked."""
    known = json.loads(path.read_text(encoding="utf-8"))
    rows = [row for row in known["trials"] if row.get("recovered") is not None]
    traits = [name for name in rows[0] if name not in NO_TRAITS] if rows else []
    rows = [row for row in rows if all(isinstance(row.get(name), float | int) for name in traits)]
    rows = [row for row in rows if all(math.isfinite(row[name]) for name in traits)]
    if len(rows) < 2:
        raise SystemExit(f"'{path}' has {len(rows)} trials to rank; two are needed.")
    sizes = {name: np.log(np.maximum(np.abs([row[name] for row in rows]), 1e-12)) for name in traits}
    truth = [row.get("recovered") for row in known["trials"]]
    pairs = zip(truth[::2], truth[1::2], strict=False)  # trials come in pairs of one setting
    twins = np.array([pair for pair in pairs if None not in pair], dtype=float).reshape(-1, 2)
    return Target(known["case"], sizes, np.array([row["recovered"] for row in rows], dtype=float), twins)


def scores_of(targets: Sequence[Target], most: int) -> list[Score]:
    """Every residual with at most ``most`` other traits that all targets have; short ones first, to win where equal."""
    traits = [name for name in targets[0].traits if all(name in target.traits for target in targets)]
    residuals = [name for name in traits if name.startswith("residual")]
    agreed = [name for name in traits if name.startswith("found")]
    others = [name for name in traits if name not in residuals and name not in agreed]
    products = [
        Score(residual, ((-1.0, residual), *zip(powers, names, strict=True)))
        for size in range(most + 1)
        for names in combinations(others, size)
        for powers in product(POWERS, repeat=size)
        for residual in residuals
    ]
    return products + [
        Score(residual, ((1.0, found), (-share, residual)), within)
        for found, within, share, residual in product(agreed, REACHES, SHARES, residuals)
    ]


def merits(scores: Sequence[Score], targets: Sequence[Target]) -> np.ndarray:
    """``[scores, targets]``: how well each score ranks, and what it keeps where there is something to keep."""
    return np.array([[t.spearman(s) + (t.kept(s) if t.recovered.max() else 0) for t in targets] for s in scores])


def chosen(scores: Sequence[Score], merit: np.ndarray, places: Sequence[int]) -> Score:
    """The best mean over the targets at these places."""
    return scores[int(np.argmax(merit[:, list(places)].mean(axis=1).round(9)))]


def line(target: Target, score: Score) -> str:
    """Both figures of a score, of the one that ships, and of who knows the other trial of the same settings."""
    found = [figure(each) for each in (score, SHIPPED) for figure in (target.spearman, target.kept)]
    found += target.repeated()
    figures = "".join(f"{value:>10.2f}" for value in found)
    return f"{target.name:<24}{len(target.recovered):>7}{target.recovered.max():>6.0f}{figures}"


HEADINGS = f"{'target':<24}{'trials':>7}{'best':>6}{'Spearman':>10}{'kept':>10}{'residual':>10}{'kept':>10}"
HEADINGS += f"{'again':>10}{'kept':>10}"


def report(targets: Sequence[Target], choosing: Sequence[str], most: int, top: int) -> list[str]:
    """All tables, as lines."""
    scores = scores_of(targets, most)
    merit = merits(scores, targets)
    places = [place for place, target in enumerate(targets) if target.name in choosing]
    best, means = chosen(scores, merit, places), merit[:, places].mean(axis=1)
    order = [int(place) for place in np.argsort(-means.round(9), kind="stable")]
    single = [place for place in order if len(scores[place].powers) == 1]
    lines = [f"Chosen on {', '.join(targets[place].name for place in places)}: {best}", ""]
    lines += ["Spearman + kept there, of residuals:", *(f"{means[p]:>8.2f}  {scores[p]}" for p in single[:top])]
    lines += ["of all scores:", *(f"{means[p]:>8.2f}  {scores[p]}" for p in order[:top]), ""]
    own, others = ([target for target in targets if (target.name in choosing) == known] for known in (True, False))
    lines += ["Targets that it was chosen on:", HEADINGS, *(line(target, best) for target in own), ""]
    lines += ["Targets that it was not chosen on:", HEADINGS, *(line(target, best) for target in others), ""]
    lines += ["Each target, with the score chosen on all others:", HEADINGS]
    for place, target in enumerate(targets if len(targets) > 1 else []):
        left = chosen(scores, merit, [other for other in range(len(targets)) if other != place])
        lines.append(f"{line(target, left)}  {left}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--choose", nargs="+", required=True, metavar="TARGET")
    parser.add_argument("--report", nargs="+", metavar="TARGET", help="all others where it is left out")
    parser.add_argument("--most", type=int, default=1, help="traits beside the residual")
    parser.add_argument("--top", type=int, default=8, help="lines of the tables of scores")
    asked = parser.parse_args()
    found = {path.stem: path for path in sorted(asked.folder.glob("*.json"))}
    names = [*asked.choose, *(asked.report or [name for name in found if name not in asked.choose])]
    missing = [name for name in names if name not in found]
    if missing or set(asked.choose) & set(asked.report or []):
        raise SystemExit(f"--choose and --report name different targets among {', '.join(found)}.")
    targets = [read_target(found[name]) for name in dict.fromkeys(names)]
    print("\n".join(report(targets, asked.choose, asked.most, asked.top)))


if __name__ == "__main__":
    main()
