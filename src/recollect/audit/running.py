"""An audit from start to verdict, in a run folder like any other; interrupted, it goes on where it was."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from recollect import pipeline
from recollect.audit.budget import LEDGER, Ledger
from recollect.audit.preparing import Prepared, prepare
from recollect.audit.record import RECORD
from recollect.audit.searching import search
from recollect.audit.subject import look_at
from recollect.audit.verifying import judge
from recollect.config import Config, to_toml, with_drawn_trials
from recollect.core import RecollectError
from recollect.progress import Narrator
from recollect.runs import RunFolder
from recollect.stages.judging import report_stage
from recollect.stages.run import Run
from recollect.stages.searching import baselines_stage

TERMS = "audit_terms.json"
STAGES = ("baselines", "attack", "match", "report")
"""Baselines come first: the main attack takes what time is left."""


@dataclass(frozen=True)
class Terms:
    """What was agreed before the audit began; none of it changes afterwards."""

    budget: float
    rate: float
    fail_above: int
    seen: str | None
    seen_words: str
    network: Sequence[str]
    skipped: Mapping[str, str]
    plan: str
    assumptions: Mapping[str, Any]


@dataclass(frozen=True)
class Audit:
    run: Run
    terms: Terms
    ledger: Ledger

    @property
    def record(self) -> dict[str, Any]:
        return self.run.folder.read_json(RECORD)

    @property
    def fails(self) -> bool:
        """Whether more was recovered, beyond luck, than was allowed."""
        found = self.record
        return bool(found["leak"]) and int(found["recovered"]) > self.terms.fail_above


def plan_audit(
    config: Config,
    declared: str | None,
    precision: str | None,
    rate: float,
    ledger: Ledger,
    narrator: Narrator,
) -> Prepared:
    """Look at the network, time a few steps, decide what runs; nothing is written.

    ``declared`` is how the network saw its samples (`recollect.audit.seen.WORDS`), where someone said so.
    """
    if not 0 < rate < 1:
        raise RecollectError(f"--false-positive-rate is {rate}; give a number between 0 and 1, such as 0.01.")
    config, subject = look_at(config, declared)
    narrator.say("Checking the network and timing a few steps")
    return prepare(config, subject, precision, rate, ledger)


def start(
    prepared: Prepared,
    out: Path,
    rate: float,
    fail_above: int,
    ledger: Ledger,
    narrator: Narrator,
    command: str,
    overwrite: bool = False,
) -> Audit:
    """A new run folder with its configuration and terms; nothing has been searched yet."""
    pipeline.require_possible(prepared.config, out)
    config = with_drawn_trials(prepared.config)
    terms = Terms(
        ledger.budget,
        rate,
        fail_above,
        prepared.seen,
        prepared.seen_words,
        list(prepared.network),
        dict(prepared.skipped),
        prepared.words,
        prepared.findings.as_json(),
    )
    folder = RunFolder.create(out, config.name, STAGES, overwrite)
    folder.write_text("config.toml", to_toml(config))
    folder.write_json(TERMS, asdict(terms))
    ledger.note(folder)
    narrator.say(prepared.told)
    return Audit(Run(folder, config, narrator, command), terms, ledger)


def resume(out: Path, narrator: Narrator, command: str, device: str | None = None) -> Audit:
    """An audit as its folder describes it; the time it had taken counts."""
    run = pipeline.resume(out, narrator, command, device)
    if not run.folder.has(TERMS) or not run.folder.has(LEDGER):
        raise RecollectError(f"'{out}' holds no audit that was begun; start one with --out {out} --overwrite.")
    stored = run.folder.read_json(TERMS)
    try:
        terms = Terms(**stored)
    except TypeError as error:
        raise RecollectError(f"'{out / TERMS}' is damaged; start anew with --overwrite.") from error
    ledger = Ledger.of(run.folder, terms.budget)
    if run.folder.stages["match"] != "done":
        narrator.say(ledger.words)
    return Audit(run, terms, ledger)


def go(audit: Audit) -> None:
    """Every stage that is not done yet."""
    run, ledger, terms = audit.run, audit.ledger, audit.terms
    with run.folder.locked(), ledger.noting(run.folder):
        for stage, state in run.folder.stages.items():
            if state == "done":
                continue
            run.folder.set_stage(stage, "running")
            if stage == "attack":
                run = search(run, ledger)
            elif stage == "match":
                judge(run, terms, ledger)
            else:
                _OTHER_STAGES[stage](run)
            run.folder.set_stage(stage, "done")


_OTHER_STAGES: dict[str, Callable[[Run], None]] = {"baselines": baselines_stage, "report": report_stage}
