"""Proposals by Optuna (Akiba et al. 2019): random, TPE and quasi-random, asked for and told one batch at a time.

Every trial is asked for with a sampler seeded by the trial's number, so proposals follow from the seed and from what
has finished, and a sweep that is gone on with makes the same ones as one that was never interrupted.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import count
from types import ModuleType
from typing import Any

from recollect.config import UNIFORM, SearchConfig, TrialSettings
from recollect.core import RecollectError
from recollect.sweep.propose import Proposal
from recollect.sweep.record import Trial
from recollect.sweep.storage import load_optuna, reachable, without_password

_NUMBER, _WORKER, _CONTENT = "recollect_number", "recollect_worker", "recollect_content"


def _random(optuna: ModuleType, seed: int, own: int) -> Any:
    del seed
    return optuna.samplers.RandomSampler(seed=own)


def _tpe(optuna: ModuleType, seed: int, own: int) -> Any:
    """Tree-structured Parzen estimator (Bergstra et al. 2011)."""
    del seed
    return optuna.samplers.TPESampler(seed=own)


def _qmc(optuna: ModuleType, seed: int, own: int) -> Any:
    """Points of one scrambled Sobol sequence, so all of them share its seed."""
    del own
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.samplers.QMCSampler(scramble=True, seed=seed)


SAMPLERS: dict[str, Callable[[ModuleType, int, int], Any]] = {"random": _random, "tpe": _tpe, "qmc": _qmc}
"""From Optuna, the seed of the sweep and that of the trial."""


@dataclass(frozen=True)
class OptunaProposer:
    """A study and our place in it; ``worker`` names this run folder where others may share the study."""

    study: Any
    search: SearchConfig
    sampler: str
    seed: int
    place: str
    worker: str | None = None

    def propose(self, wanted: int, finished: Collection[int]) -> list[Proposal]:
        with reachable(self.place):
            waiting = [trial for trial in self._running() if _number(trial) not in finished]
            for trial in waiting:
                if _number(trial) is None:  # killed while it was being asked for: it is asked for again
                    self.study.tell(trial.number, state=load_optuna().trial.TrialState.FAIL)
            made = sorted(
                (
                    Proposal(number, TrialSettings(**trial.params))
                    for trial in waiting
                    if (number := _number(trial)) is not None
                ),
                key=lambda proposal: proposal.number,
            )[:wanted]
            while len(made) < wanted:
                made.append(self._ask({*finished, *(proposal.number for proposal in made)}))
        return made

    def tell(self, trial: Trial) -> None:
        state = load_optuna().trial.TrialState
        with reachable(self.place):
            own = [known for known in self._own() if _number(known) == trial.number]
            if not own:
                raise RecollectError(
                    f"the storage '{without_password(self.place)}' does not know trial {trial.number}, which this run "
                    "has finished, so it is another study's; give the storage that the sweep was started with."
                )
            # Samplers take a pruned trial for a bad one, and a failed one for none.
            outcome = {"values": trial.score} if trial.complete else {"state": state.PRUNED}
            for known in own:
                if known.state == state.RUNNING:
                    self._report(known, trial)
                    self.study.tell(known.number, **outcome)

    def _report(self, known: Any, trial: Trial) -> None:
        """Scores on the way: samplers rank pruned trials by how far they came, then by the last one."""
        if trial.pruned:
            reporting = load_optuna().trial.Trial(self.study, known._trial_id)
            for place, score in enumerate(trial.rungs, start=1):
                reporting.report(score, place)

    def _ask(self, taken: Collection[int]) -> Proposal:
        optuna = load_optuna()
        trials = len(self.study.get_trials(deepcopy=False))
        number = next(number for number in count() if number not in taken)
        own = _mixed(f"{self.seed} {number}" if self.worker is None else f"{self.seed} {self.worker} {trials}")
        self.study.sampler = SAMPLERS[self.sampler](optuna, self.seed, own)
        asked = self.study.ask(fixed_distributions=self._ranges(optuna))
        if self.worker is not None:
            number = asked.number  # unique among all who share the study
            asked.set_user_attr(_WORKER, self.worker)
        asked.set_user_attr(_NUMBER, number)
        return Proposal(number, TrialSettings(**asked.params))

    def _ranges(self, optuna: ModuleType) -> dict[str, Any]:
        return {
            name: optuna.distributions.FloatDistribution(*getattr(self.search, name), log=name not in UNIFORM)
            for name in TrialSettings.model_fields
        }

    def _own(self) -> list[Any]:
        known = self.study.get_trials(deepcopy=False)
        return [trial for trial in known if self.worker is None or trial.user_attrs.get(_WORKER) == self.worker]

    def _running(self) -> list[Any]:
        running = load_optuna().trial.TrialState.RUNNING
        return [trial for trial in self._own() if trial.state == running]


def open_study(storage: Any, place: str, name: str, content: str) -> Any:
    """The study of this name; one that was made for other settings or another network is refused."""
    optuna = load_optuna()
    with reachable(place):
        study = optuna.create_study(storage=storage, study_name=name, direction="minimize", load_if_exists=True)
        # In this order: whoever shares the study says what it is about before asking for the first trial.
        begun = bool(study.get_trials(deepcopy=False))
        known = study.user_attrs.get(_CONTENT)
        if known is None and not begun:
            study.set_user_attr(_CONTENT, content)
            known = content
    if known != content:
        raise RecollectError(
            f"the storage '{without_password(place)}' holds another study named '{name}', with other settings or of "
            "another network; choose another name with --set name=NAME, or another --storage."
        )
    return study


def _number(trial: Any) -> int | None:
    return trial.user_attrs.get(_NUMBER)


def _mixed(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little")
