"""Before an audit runs: the network is looked at, a few steps are timed, and the plan is made and said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from recollect.audit import plan
from recollect.audit.budget import Ledger
from recollect.audit.speed import seconds_per_step
from recollect.audit.subject import Subject
from recollect.build import build_problems
from recollect.check import check_network
from recollect.check.findings import Findings
from recollect.config import AttackConfig, Config, updated
from recollect.core import RecollectError
from recollect.devices import resolve_devices
from recollect.readable import readable_duration
from recollect.targets import is_perceptron

_CHECKED_SAMPLES = 500
"""In the residual of the check, whose cost grows with their square."""


@dataclass(frozen=True)
class Prepared:
    """Everything an audit starts from; ``words`` is the plan as it is said."""

    config: Config
    findings: Findings
    seen: str | None
    seen_words: str
    network: Sequence[str]
    """What was inferred about the network, and from what."""
    skipped: Mapping[str, str]
    words: str

    @property
    def told(self) -> str:
        """All that the user should know before it begins."""
        return "\n".join([" ".join(self.network), self.seen_words, self.words])


def checked(subject: Subject, device: torch.device) -> Findings:
    x, y = subject.labelled_inputs()
    return check_network(subject.net, subject.sample_shape, x=x, y=y, device=device, most_samples=_CHECKED_SAMPLES)


def prepare(config: Config, subject: Subject, precision: str | None, rate: float, ledger: Ledger) -> Prepared:
    """The configuration of the audit: sizes follow from the speed measured here and the time that is left."""
    devices = resolve_devices(config.device)
    findings = checked(subject, devices[0])
    fitting, skipped = plan.chosen(plan.Traits.of(subject.net, findings, subject.box))
    sections = _sections(subject, findings, precision, config.seed, devices)
    searching = ledger.left - plan.kept_free(ledger.budget)
    baselines, lines = {}, []
    for method in fitting[1:]:
        section = sections[method.name]
        if method.share:
            steps = _affordable_steps(subject, section, config.seed, devices, method.share * searching)
            section |= {"steps": steps}
        baselines[method.name] = section
        lines.append(f"{method.words} ({_about(method.share * searching)})")
    left = searching * (1 - sum(method.share for method in fitting[1:]))
    size, main = _sized(subject, sections["kkt"], config.seed, devices, left)
    how = f"{size.batches} batches of {size.batch} trials of {main['candidates']} candidates, {size.steps} steps each"
    lines.insert(0, f"{fitting[0].words} ({_about(left)}: {how})")
    match = {"each_candidate_once": False, "quantile": 1 - rate, "score": "ncc"}
    if len(subject.sample_shape) == 3 and "weights" in skipped:
        match["vote_ratio"] = 1.5
    sweep = {"sampler": "random", "batch": size.batch}
    chosen: dict[str, Any] = {"attack": main, "baselines": baselines, "sweep": sweep, "match": match}
    if config.data is not None and subject.seen is not None:
        chosen["data"] = config.data.model_dump() | {"centred": subject.seen.name == "centred"}
    return Prepared(
        config=updated(config, chosen, "the plan of the audit"),
        findings=findings,
        seen=None if subject.seen is None else subject.seen.name,
        seen_words=subject.seen_words,
        network=subject.facts(),
        skipped=skipped,
        words="Plan, within " + readable_duration(ledger.budget) + ": " + "; ".join(lines) + ".",
    )


def _sections(
    subject: Subject, findings: Findings, precision: str | None, seed: int, devices: list[torch.device]
) -> dict[str, dict[str, Any]]:
    """The attack section of every method, without its steps."""
    samples = None if subject.data is None else len(subject.data.x)
    common = {"candidates": plan.candidates_for(samples)} | ({} if precision is None else {"precision": precision})
    probe = build_problems(subject.net, subject.sample_shape, AttackConfig(candidates=2), seed, devices[:1])[0]
    plain = is_perceptron(probe.target)
    kkt = plan.kkt_settings(findings, len(probe.target.layers), plain, subject.box)
    return {
        "kkt": kkt | common,
        "activation": plan.activation_settings(subject.box) | common,
        "weights": {"method": "weights"},
        "generator": plan.generator_settings(subject.sample_shape, findings.task.outputs) | common,
    }


def _sized(
    subject: Subject, section: dict[str, Any], seed: int, devices: list[torch.device], seconds: float
) -> tuple[plan.Size, dict[str, Any]]:
    """The main attack, with fewer candidates where the network is too slow for as many as one would like."""
    batch = 4 if devices[0].type == "cpu" else 16 * len(devices)
    while True:
        drawn = _drawn(section, batch, seed)
        size = plan.size_for(seconds, batch, seconds_per_step(subject.net, subject.sample_shape, drawn, seed, devices))
        if size is not None:
            search = section["search"] | {"trials": size.batch}
            return size, section | {"search": search, "steps": size.steps}
        if section["candidates"] <= 20:
            raise RecollectError(
                f"{readable_duration(max(0.0, seconds))} are left for searching, too little for "
                f"{plan.LEAST_STEPS} steps on this network; give a larger --budget."
            )
        section = section | {"candidates": max(20, section["candidates"] // 4)}


def _affordable_steps(
    subject: Subject, section: dict[str, Any], seed: int, devices: list[torch.device], seconds: float
) -> int:
    trials = section["search"]["trials"] if "search" in section else 1
    timed = seconds_per_step(subject.net, subject.sample_shape, _drawn(section, trials, seed), seed, devices)
    return int(min(2000, max(50, seconds / timed)))


def _drawn(section: Mapping[str, Any], trials: int, seed: int) -> AttackConfig:
    attack = AttackConfig.model_validate(dict(section))
    if attack.search is None:
        return attack
    search = attack.search.model_copy(update={"trials": trials})
    return attack.model_copy(update={"search": search}).drawn(seed)


def _about(seconds: float) -> str:
    return f"about {readable_duration(seconds)}" if seconds >= 1 else "at once"
