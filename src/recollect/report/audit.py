"""audit.json as data: the calibrated verdict of an audit, where a run folder holds one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recollect.report.parsing import number, numbers, read_object
from recollect.report.roc import Roc
from recollect.report.words import METHODS, NOTHING, decimal, text, whole

AFFECTED_LIMIT = 500
_LEVELS = ("obstacle", "caution", "ok")


@dataclass(frozen=True)
class Audit:
    """What an audit says. Measured, declared and interpreted sentences are never mixed."""

    verdict: str
    leak: bool | None
    facts: list[tuple[str, str]]
    attacks: list[list[str]]
    """Headings, then a row for each attack; empty where there is none."""
    affected: list[list[str]]
    affected_count: int
    roc: Roc | None
    measured: list[str]
    declared: list[str]
    interpretation: list[str]
    not_excluded: list[str]
    environment: list[tuple[str, str]]


_ATTACK_HEADINGS = ("attack", "passed", "threshold", "by luck alone", "time")
AFFECTED_HEADINGS = ("sample", "class", "score", "p-value", "attack", "candidate")


def read_audit(folder: Path) -> Audit | None:
    """None when the run was no audit. Keys that are missing or odd are left out, as in every file of a run."""
    record = read_object(folder / "audit.json")
    if record is None:
        return None
    leak, affected = record.get("leak"), _objects(record.get("affected"))
    attacks = _objects(record.get("attacks"))
    names = {text(entry.get("name")): _attack_name(entry) for entry in attacks}
    return Audit(
        verdict=text(record.get("verdict") or "The audit recorded no verdict."),
        leak=leak if isinstance(leak, bool) else None,
        facts=_facts(record),
        attacks=_attack_table(attacks),
        affected=[_affected(entry, names) for entry in affected[:AFFECTED_LIMIT]],
        affected_count=len(affected),
        roc=_roc(record.get("roc")),
        measured=_sentences(record.get("measured")),
        declared=_sentences(record.get("declared")),
        interpretation=_sentences(record.get("interpretation")),
        not_excluded=_sentences(record.get("not_excluded")),
        environment=_environment(record.get("environment")),
    )


def read_findings(folder: Path) -> tuple[list[tuple[str, str, str]], str]:
    """Level, topic and sentence of what a check found, gravest first, and its closing words.

    An audit has them in ``audit.json``; ``recollect check RUN --json > RUN/check.json`` gives them to any run.
    """
    audit, check = read_object(folder / "audit.json"), read_object(folder / "check.json")
    found = (audit or {}).get("assumptions") or check
    entries = _objects(found.get("findings") if isinstance(found, dict) else found)
    rows = [(text(entry.get("level")), text(entry.get("topic")), text(entry.get("sentence"))) for entry in entries]
    closing = found.get("closing") if isinstance(found, dict) else None
    rows.sort(key=lambda row: _LEVELS.index(row[0]) if row[0] in _LEVELS else -1)
    return rows, closing if isinstance(closing, str) else ""


def _facts(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    confidence = number(record.get("confidence"))
    level = "beyond luck, at least" if confidence is None else f"beyond luck, at least ({confidence:.0%} confidence)"
    count = "training samples that pass" if record.get("leak") is False else "training samples recovered"
    facts = [
        (count, _of(record.get("recovered"), record.get("reference_count"))),
        (level, NOTHING if record.get("leak") is False else whole(record.get("at_least"))),
        ("held-out samples that pass too", _of(record.get("null_recovered"), record.get("null_count"))),
        ("false-positive rate", _percent(record.get("false_positive_rate"))),
    ]
    return [fact for fact in facts if fact[1] != NOTHING]


def _attack_table(attacks: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Columns that are empty for all attacks, as without data, are left out; sentences stand among the measured."""
    rows = [_attack(entry) for entry in attacks]
    kept = [place for place in range(len(_ATTACK_HEADINGS)) if any(row[place] != NOTHING for row in rows)]
    return [[row[place] for place in kept] for row in (_ATTACK_HEADINGS, *rows)] if kept else []


def _attack_name(entry: Mapping[str, Any]) -> str:
    name, method = text(entry.get("name")), text(entry.get("method"))
    words = METHODS.get(method, method)
    return words if method in (name, NOTHING) else f"{name} ({words})"


def _attack(entry: Mapping[str, Any]) -> list[str]:
    seconds = number(entry.get("seconds"))
    return [
        _attack_name(entry),
        whole(entry.get("recovered")),
        decimal(entry.get("threshold")),
        text(number(entry.get("luck_probability"))),
        NOTHING if seconds is None else "under 0.1 s" if seconds < 0.1 else f"{seconds:.1f} s",
    ]


def _affected(entry: Mapping[str, Any], names: Mapping[str, str]) -> list[str]:
    attack = text(entry.get("attack"))
    known = [text(entry.get("index")), text(entry.get("label")), decimal(entry.get("score"))]
    return [*known, text(number(entry.get("p_value"))), names.get(attack, attack), text(entry.get("candidate"))]


def _roc(record: object) -> Roc | None:
    if not isinstance(record, dict):
        return None
    false, true, area = (
        numbers(record.get("false_positive")),
        numbers(record.get("true_positive")),
        number(record.get("auc")),
    )
    if area is None or len(false) != len(true) or len(false) < 2:
        return None
    span = numbers(record.get("auc_interval"))
    return Roc(false, true, area, (span[0], span[1]) if len(span) == 2 else None)


def _environment(record: object) -> list[tuple[str, str]]:
    if not isinstance(record, dict):
        return []
    facts: list[tuple[str, str]] = []
    for key, value in record.items():
        inner = value.items() if isinstance(value, dict) else [(key, value)]
        facts += [(text(name).replace("_", " "), text(part)) for name, part in inner]
    return facts


def _objects(values: object) -> list[dict[str, Any]]:
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def _sentences(values: object) -> list[str]:
    return [text(value) for value in values] if isinstance(values, list) else []


def _of(part: object, total: object) -> str:
    return whole(part) if whole(total) == NOTHING or whole(part) == NOTHING else f"{whole(part)} of {whole(total)}"


def _percent(value: object) -> str:
    found = number(value)
    return NOTHING if found is None else f"{found:.3%}".replace(".000%", "%")
