"""recollect: search a trained network for its training samples, and judge what was found against chance."""

__version__ = "0.1.0"

from recollect.analysis import MatchRule, distil, judge, match, scaled_reconstruction, summarise
from recollect.api import Reconstruction, attack
from recollect.config import AttackConfig, SearchConfig, TrialSettings
from recollect.core import RecollectError
from recollect.data import heldout_set, load, training_set
from recollect.loading.description import describe
from recollect.loading.from_sklearn import from_sklearn
from recollect.report import pair_grid

__all__ = [
    "AttackConfig",
    "MatchRule",
    "RecollectError",
    "Reconstruction",
    "SearchConfig",
    "TrialSettings",
    "attack",
    "describe",
    "distil",
    "from_sklearn",
    "heldout_set",
    "judge",
    "load",
    "match",
    "pair_grid",
    "scaled_reconstruction",
    "summarise",
    "training_set",
]
