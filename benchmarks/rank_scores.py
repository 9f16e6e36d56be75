"""``python -m benchmarks.rank_scores FOLDER --choose TARGET ... --report TARGET ...``: the score that ranks best.

Reads what ``benchmarks.trial_scores`` wrote. A score is a sum of ranks of at most three traits, with signs, so nothing
is fitted but which; it is chosen by its mean Spearman correlation on some targets and reported on others.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations, product
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

from recollect.config import TrialSettings

Score = tuple[tuple[int, str], ...]
"""Signs and traits; a trait with sign 1 is better where it is larger."""

FIRST_LAYER: Score = ((-1, "residual_0"),)
MOST = 3
TRUTH = {"recovered", "mean_ncc", "ncc80", "ssim04"}
NO_TRAITS = {"trial", "diverged", *TrialSettings.model_fields, *TRUTH}


@dataclass(frozen=True)
class Target:
    """Trials of one network: ranks of each trait within it, and what each trial recovered."""

    name: str
    ranks: dict[str, np.ndarray]
    recovered: np.ndarray

    def rate(self, score: Score) -> np.ndarray:
        return reduce(np.add, [sign * self.ranks[trait] for sign, trait in score])

    def spearman(self, score: Score) -> float:
        """With the recovered count; 0 where one of them is constant, since it ranks nothing."""
        rated, truth = rankdata(self.rate(score)), rankdata(self.recovered)
        if np.ptp(rated) == 0 or np.ptp(truth) == 0:
            return 0.0
        return float(np.corrcoef(rated, truth)[0, 1])

    def kept(self, score: Score) -> float:
        """Of what the best trial recovers, the share that the best rated one does; nan where nobody recovers."""
        best = self.recovered.max()
        return float(self.recovered[self.rate(score).argmax()] / best) if best else math.nan


def read_target(path: Path) -> Target:
    """Trials that diverged, or have a trait that is no number, are not ranked."""
    known = json.loads(path.read_text(encoding="utf-8"))
    rows = [row for row in known["trials"] if row.get("recovered") is not None]
    traits = [name for name in rows[0] if name not in NO_TRAITS] if rows else []
    rows = [row for row in rows if all(isinstance(row.get(name), float | int) for name in traits)]
    rows = [row for row in rows if all(math.isfinite(row[name]) for name in traits)]
    if len(rows) < 2:
        raise SystemExit(f"'{path}' has {len(rows)} trials to rank; two are needed.")
    ranks = {name: rankdata([row[name] for row in rows]) for name in traits}
    return Target(known["case"], ranks, np.array([row["recovered"] for row in rows], dtype=float))


def scores_of(targets: Sequence[Target]) -> list[Score]:
    """Every signed sum of at most three traits that all targets have; short ones first, so they win where equal."""
    traits = [name for name in targets[0].ranks if all(name in target.ranks for target in targets)]
    return [
        tuple(zip(signs, names, strict=True))
        for size in range(1, MOST + 1)
        for names in combinations(traits, size)
        for signs in product((-1, 1), repeat=size)
    ]


def chosen(scores: Sequence[Score], spearmans: np.ndarray, places: Sequence[int]) -> Score:
    """The best mean over the targets at these places; ``spearmans`` is ``[scores, targets]``."""
    return scores[int(np.argmax(spearmans[:, list(places)].mean(axis=1).round(9)))]


def words(score: Score) -> str:
    return " ".join(f"{'+' if sign > 0 else '-'}{trait}" for sign, trait in score)


def line(target: Target, score: Score) -> str:
    """Both figures of a score, and of the first layer's residual."""
    found = [figure(rated) for rated in (score, FIRST_LAYER) for figure in (target.spearman, target.kept)]
    figures = "".join(f"{value:>10.2f}" for value in found)
    return f"{target.name:<24}{len(target.recovered):>7}{target.recovered.max():>6.0f}{figures}"


HEADINGS = f"{'target':<24}{'trials':>7}{'best':>6}{'Spearman':>10}{'kept':>10}{'residual':>10}{'kept':>10}"


def report(targets: Sequence[Target], choosing: Sequence[str], top: int) -> list[str]:
    """All tables, as lines."""
    scores = scores_of(targets)
    spearmans = np.array([[target.spearman(score) for target in targets] for score in scores])
    places = [place for place, target in enumerate(targets) if target.name in choosing]
    best, means = chosen(scores, spearmans, places), spearmans[:, places].mean(axis=1)
    order = [int(place) for place in np.argsort(-means.round(9), kind="stable")]
    alone = [place for place in order if len(scores[place]) == 1]
    lines = [f"Chosen on {', '.join(targets[place].name for place in places)}: {words(best)}", ""]
    lines += ["mean Spearman there, of single traits:", *(f"{means[p]:>8.2f}  {words(scores[p])}" for p in alone[:top])]
    lines += ["of all sums:", *(f"{means[p]:>8.2f}  {words(scores[p])}" for p in order[:top]), ""]
    others = [target for target in targets if target.name not in choosing]
    lines += ["Targets that it was not chosen on:", HEADINGS, *(line(target, best) for target in others), ""]
    lines += ["Each target, with the sum chosen on all others:", HEADINGS]
    for place, target in enumerate(targets if len(targets) > 1 else []):
        left = chosen(scores, spearmans, [other for other in range(len(targets)) if other != place])
        lines.append(f"{line(target, left)}  {words(left)}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--choose", nargs="+", required=True, metavar="TARGET")
    parser.add_argument("--report", nargs="+", metavar="TARGET", help="all others where it is left out")
    parser.add_argument("--top", type=int, default=8, help="lines of the tables of scores")
    asked = parser.parse_args()
    found = {path.stem: path for path in sorted(asked.folder.glob("*.json"))}
    names = [*asked.choose, *(asked.report or [name for name in found if name not in asked.choose])]
    missing = [name for name in names if name not in found]
    if missing or set(asked.choose) & set(asked.report or []):
        raise SystemExit(f"--choose and --report name different targets among {', '.join(found)}.")
    targets = [read_target(found[name]) for name in dict.fromkeys(names)]
    print("\n".join(report(targets, asked.choose, asked.top)))


if __name__ == "__main__":
    main()
