"""The stage that searches by a sweep: many trials in batches, their candidates pooled as those of one run."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

from torch import nn

from recollect.build import shared_basis
from recollect.config import AttackConfig, Config, SearchConfig
from recollect.core import RecollectError
from recollect.datasets import mean_for
from recollect.given import Given
from recollect.networks import load_network, save_network
from recollect.progress import Advance
from recollect.runs import RunFolder
from recollect.sharing import shared
from recollect.stages.run import Run
from recollect.stages.swept import save_swept
from recollect.stages.trial_judging import MostRecovered, truth_of
from recollect.sweep.execute import run_trials
from recollect.sweep.linked import run_linked
from recollect.sweep.propose import Proposer, RandomProposer
from recollect.sweep.record import Trial
from recollect.sweep.settings import SweepConfig
from recollect.sweep.storage import JOURNAL, open_storage
from recollect.sweep.study import OptunaProposer, open_study
from recollect.sweep.telling import tracking
from recollect.sweep.trials import Sweep
from recollect.sweep.work import Ledger, Notice, Watch


def sweep_stage(run: Run) -> None:
    if shared():
        raise RecollectError("a sweep runs in one process; start it without torchrun, with --device cuda:all.")
    sweep, search = sections(run.config)
    _keep_network(run)
    net, sample_shape = run.network()
    wanted, attack = search.trials, run.config.attack
    proposer, told = _proposer(run, net), _observers(run, sweep)
    run.narrator.say(
        f"Sweeping over {wanted} trials of {attack.candidates} candidates, {attack.steps} steps, in batches of "
        f"{min(sweep.batch, wanted)} ({sweep.sampler}, {run.config.device})"
    )
    given = Given(shared_basis(net, sample_shape, attack, run.device), mean_for(run.config, attack))
    work = Sweep(
        net, sample_shape, attack, run.config.seed, run.devices, sweep.batch, sweep.score, sweep.pruning, given
    )
    with run.narrator.bar("trials", wanted) as advance:
        ledger = Ledger(run.folder, proposer, wanted, _shown(advance, told), _in_turn(told))
        if sweep.executor == "ray":
            run_linked(work, ledger, sweep.address, run.config.device)
        else:
            run_trials(work, ledger)
    save_swept(run, sweep, ledger.history)


def _keep_network(run: Run) -> None:
    """A copy of a network that another folder holds: a sweep may go on where that folder is not."""
    source = run.config.source
    if source is not None and source.folder is not None and not run.folder.has("model/model.json"):
        save_network(run.folder.subfolder("model"), *load_network(Path(source.folder)))


def _observers(run: Run, sweep: SweepConfig) -> list[Notice]:
    """Who is told of trials that ended: a tracker, and whoever counts what they recovered. The search hears nothing."""
    truth = None if run.narrator.console.quiet else truth_of(run)
    counting: list[Notice] = [] if truth is None else [MostRecovered(run, truth)]
    if sweep.tracker == "none":
        return counting
    return [*counting, tracking(sweep.tracker, run.config.name, run.folder.path, run.narrator.say)]


def _in_turn(observers: Sequence[Notice]) -> Notice:
    def notice(trials: Sequence[Trial]) -> None:
        for observer in observers:
            observer(trials)

    return notice


def sections(config: Config) -> tuple[SweepConfig, SearchConfig]:
    """What makes a configuration a sweep; both are there, or the configuration would be invalid."""
    assert config.sweep is not None
    assert config.attack.search is not None
    return config.sweep, config.attack.search


def _proposer(run: Run, net: nn.Module) -> Proposer:
    sweep, search = sections(run.config)
    if not sweep.by_optuna:
        return RandomProposer(search, run.config.seed)
    place = str(run.folder.path / JOURNAL) if sweep.storage is None else sweep.storage
    storage = open_storage(run.folder.path, sweep.storage)
    study = open_study(storage, place, run.config.name, _content(run.config.attack, sweep, run.config.seed, net))
    worker = None if sweep.storage is None else _worker(run.folder)
    return OptunaProposer(study, search, sweep.sampler, run.config.seed, place, worker)


def _content(attack: AttackConfig, sweep: SweepConfig, seed: int, net: nn.Module) -> str:
    """Two sweeps whose trials can be told to one study have the same; the number of trials may grow."""
    settings = attack.model_dump(mode="json", exclude={"trials": True, "search": {"trials"}})
    known = hashlib.sha256(json.dumps([settings, sweep.score, seed], sort_keys=True).encode())
    for name, value in net.state_dict().items():
        known.update(name.encode())
        known.update(value.detach().cpu().double().contiguous().numpy().tobytes())
    return known.hexdigest()


def _worker(folder: RunFolder) -> str:
    """A name for this run folder among all that share a storage; it stays when the folder moves."""
    if not folder.has("worker.json"):
        folder.write_json("worker.json", {"worker": uuid4().hex})
    return str(folder.read_json("worker.json").get("worker"))


def _shown(advance: Advance, observers: Sequence[Notice]) -> Watch:
    """Best score, and what one trial recovered where somebody counts that."""

    def watch(done: float, best: float) -> None:
        counted = "".join(str(one) for one in observers if isinstance(one, MostRecovered))
        advance(int(done), "" if math.isnan(best) else f"best score {best:.4g}{counted}")

    return watch
