"""recollect: search a trained network for its training samples, and judge what was found against chance."""

__version__ = "0.1.0"

TYPE_CHECKING = False  # as in typing, which takes longer to import than all that is here

if TYPE_CHECKING:
    from recollect.analysis import MatchRule, distil, judge, match, scaled_reconstruction, summarise
    from recollect.api import Reconstruction, attack
    from recollect.config import AttackConfig, SearchConfig, TrialSettings
    from recollect.core import RecollectError
    from recollect.data import heldout_set, load, training_set
    from recollect.loading.description import describe
    from recollect.loading.from_sklearn import from_sklearn
    from recollect.report import pair_grid
else:
    _HOMES = {
        "analysis": ("MatchRule", "distil", "judge", "match", "scaled_reconstruction", "summarise"),
        "api": ("Reconstruction", "attack"),
        "config": ("AttackConfig", "SearchConfig", "TrialSettings"),
        "core": ("RecollectError",),
        "data": ("heldout_set", "load", "training_set"),
        "loading.description": ("describe",),
        "loading.from_sklearn": ("from_sklearn",),
        "report": ("pair_grid",),
    }

    def __getattr__(name: str) -> object:
        """Imported when it is asked for: PyTorch takes seconds, in which the command line must be able to stop."""
        from importlib import import_module

        for home, names in _HOMES.items():
            if name in names:
                return getattr(import_module(f"recollect.{home}"), name)
        raise AttributeError(f"module 'recollect' has no attribute '{name}'")


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


def __dir__() -> list[str]:
    return [*globals(), *__all__]
