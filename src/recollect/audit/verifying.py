"""The stage that judges an audit: evidence, judgement, record; or, without data, a ranking that verifies nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch

from recollect.audit.budget import Ledger
from recollect.audit.evidence import attack_folders, gather, write_back
from recollect.audit.judging import judge_audit
from recollect.audit.record import RECORD, Circumstances, record, unverified_record
from recollect.audit.seen import seen_as
from recollect.audit.subject import without_copies
from recollect.audit.unverified import rank
from recollect.audit.words import attack_words, title
from recollect.core import RecollectError
from recollect.datasets import heldout_data, training_data
from recollect.stages.run import Run


class Agreed(Protocol):
    """What judging must know of an audit's terms."""

    @property
    def rate(self) -> float: ...
    @property
    def fail_above(self) -> int: ...
    @property
    def seen(self) -> str | None: ...
    @property
    def seen_words(self) -> str: ...
    @property
    def network(self) -> Sequence[str]: ...
    @property
    def skipped(self) -> Mapping[str, str]: ...
    @property
    def assumptions(self) -> Mapping[str, Any]: ...


def judge(run: Run, terms: Agreed, ledger: Ledger) -> None:
    """Write ``audit.json``, and into each attack's files what the audit says of it."""
    if run.config.data is None or terms.seen is None:
        return _rank(run, terms, ledger)
    data = training_data(run.config)
    heldout = heldout_data(run.config, data)
    if heldout is None:
        raise RecollectError("there are no held-out samples any more; bring the file of --holdout back.")
    heldout, copies = without_copies(heldout, data)
    if not len(heldout.x):
        raise RecollectError("every held-out sample is a copy of a training sample; give others with --holdout.")
    run.narrator.say(f"Matching candidates with {len(data.x)} training and {len(heldout.x)} held-out samples")
    net, _ = run.network()
    seen = seen_as(terms.seen, data)
    known, unknown = seen.matched(data), seen.matched(heldout)
    evidence = gather(run, seen.wrapped(net, data), known, unknown, lambda found: seen.samples(found, data))
    judgement = judge_audit(evidence, terms.rate)
    found = record(judgement, data, _circumstances(run, terms, ledger, copies))
    for finding in judgement.findings:
        figures = {
            "recovered": int(finding.recovered.sum()),
            "recovered_rule": attack_words(finding),
            "threshold": finding.threshold.value,
            "false_positive_rate": finding.threshold.false_positive_rate,
            "luck_probability": finding.luck,
            "null_count": len(finding.evidence.null),
            "null_recovered": int((finding.evidence.null > finding.threshold.value).sum()),
            "verdict": found["verdict"] if finding.evidence.folder == "." else attack_words(finding),
        }
        folder = run.folder.subfolder(finding.evidence.folder)
        write_back(folder, finding.evidence, finding.threshold.value, figures)
        if finding.evidence.folder != ".":
            folder.set_stage("match", "done")
    run.folder.write_json(RECORD, found)
    return None


def _rank(run: Run, terms: Agreed, ledger: Ledger) -> None:
    run.narrator.say("Ranking candidates; without data nothing can be verified")
    kept, candidates = rank(run)
    attacks, measured = [], []
    for name, place in attack_folders(run).items():
        summary = run.folder.subfolder(place).read_json("summary.json")
        sentence = f"{title(name)}: {_trials(summary['trials'])} of {summary['candidates']} candidates."
        unknown = dict.fromkeys(("recovered", "threshold", "luck_probability"))
        facts = {"name": name, "method": summary["method"], "folder": place, "seconds": summary["seconds"]}
        attacks.append(facts | unknown | {"words": sentence})
        measured.append(sentence)
    found = unverified_record(kept, candidates, attacks, measured, _circumstances(run, terms, ledger, 0))
    run.folder.update_summary({"verdict": found["verdict"]})
    run.folder.write_json(RECORD, found)


def _trials(count: int) -> str:
    return f"{count} trial{'s' * (count != 1)}"


def _circumstances(run: Run, terms: Agreed, ledger: Ledger, copies: int) -> Circumstances:
    device = run.device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)
    return Circumstances(
        seconds=ledger.spent,
        device=name,
        fail_above=terms.fail_above,
        seen_words=terms.seen_words,
        network=terms.network,
        skipped=terms.skipped,
        assumptions=terms.assumptions,
        copies=copies,
    )
