"""audit.json on the page: every sentence in its own place, and nothing breaks when keys are odd."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recollect.report import write_report
from recollect.report.audit import read_audit, read_findings

AUDIT: dict[str, Any] = {
    "verdict": "Three samples were recovered.", "leak": True, "false_positive_rate": 0.01, "recovered": 3,
    "reference_count": 20, "at_least": 3, "confidence": 0.95, "null_count": 400, "null_recovered": 4,
    "attacks": [
        {"name": "kkt", "method": "kkt", "folder": ".", "seconds": 61.25, "recovered": 3, "threshold": 0.8125,
         "luck_probability": 1.5e-9, "words": "Found three."},
    ],
    "affected": [{"index": 7, "label": -1, "score": 0.987, "p_value": 0.0025, "attack": "kkt", "candidate": [1, 8]}],
    "roc": {"false_positive": [0, 0.01, 1], "true_positive": [0, 0.5, 1], "auc": 0.75, "auc_interval": [0.7, 0.8]},
    "measured": ["Measured one."], "declared": ["Declared one."], "interpretation": ["Interpreted one."],
    "not_excluded": ["Membership inference."],
    "assumptions": {"findings": [{"level": "ok", "topic": "bias", "sentence": "Fine."},
                                 {"level": "obstacle", "topic": "loss", "sentence": "Not fine."}], "closing": "Mixed."},
    "environment": {"versions": {"torch": "2.13.0"}, "device": "cpu", "seconds": 61.5},
}  # fmt: skip


@pytest.fixture
def audited(make_run: Callable[..., Path]) -> Path:
    folder = make_run()
    (folder / "audit.json").write_text(json.dumps(AUDIT))
    return folder


def test_the_audit_is_read_as_written(audited: Path) -> None:
    audit = read_audit(audited)
    assert audit is not None
    assert audit.facts == [
        ("training samples recovered", "3 of 20"),
        ("beyond luck, at least (95% confidence)", "3"),
        ("held-out samples that pass too", "4 of 400"),
        ("false-positive rate", "1%"),
    ]
    assert audit.attacks == [
        ["attack", "passed", "threshold", "by luck alone", "time"],
        ["KKT reconstruction", "3", "0.812", "1.5e-09", "61.2 s"],
    ]
    assert audit.affected == [["7", "-1", "0.987", "0.0025", "KKT reconstruction", "1, 8"]]
    assert audit.roc is not None
    assert audit.roc.true_at(0.01) == 0.5
    assert audit.environment == [("torch", "2.13.0"), ("device", "cpu"), ("seconds", "61.5")]


def test_measured_declared_and_interpretation_stay_apart(audited: Path) -> None:
    html = write_report(audited).read_text()
    blocks = dict(re.findall(r'<div class="kind (\w+)">(.*?)</div>', html, flags=re.DOTALL))
    assert set(blocks) == {"measured", "declared", "interpretation"}
    for kind, sentence in (("measured", "Measured one."), ("declared", "Declared one.")):
        assert [name for name, block in blocks.items() if sentence in block] == [kind]
    assert "Interpreted one." in blocks["interpretation"]
    assert '<p class="verdict leak">Three samples were recovered.</p>' in html
    assert "Membership inference." in html.split('id="caution"')[1]
    assert "0.750 (0.700 to 0.800)" in html


def test_findings_come_gravest_first_from_audit_or_check(audited: Path) -> None:
    assert read_findings(audited) == ([("obstacle", "loss", "Not fine."), ("ok", "bias", "Fine.")], "Mixed.")
    (audited / "audit.json").unlink()
    assert read_findings(audited) == ([], "")
    (audited / "check.json").write_text(json.dumps(AUDIT["assumptions"]))
    assert read_findings(audited)[1] == "Mixed."


@pytest.mark.parametrize("odd", [None, [], {}, "words", 3, [None, 3, "x"], {"findings": 7}, [None, None]])
def test_odd_values_are_left_out(audited: Path, odd: object) -> None:
    for key in AUDIT:
        (audited / "audit.json").write_text(json.dumps(AUDIT | {key: odd}))
        assert read_audit(audited) is not None
        read_findings(audited)
    (audited / "audit.json").write_text(json.dumps(dict.fromkeys(AUDIT, odd)))
    html = write_report(audited).read_text()
    assert "The audit" in html
    assert "nan to nan" not in html


def test_a_quiet_audit_is_not_painted_as_a_leak(audited: Path) -> None:
    (audited / "audit.json").write_text(json.dumps(AUDIT | {"leak": False, "verdict": "Nothing found."}))
    html = write_report(audited).read_text()
    assert '<p class="verdict quiet">Nothing found.</p>' in html
    assert "Samples that pass, no more than luck explains (1)" in html
    assert "Affected samples" not in html
    assert "training samples recovered" not in html


def test_an_attack_with_a_name_of_its_own_keeps_it_and_empty_columns_go(audited: Path) -> None:
    attack = {"name": "longer", "method": "activation", "seconds": 2.0, "recovered": None, "words": "Ran."}
    (audited / "audit.json").write_text(json.dumps(AUDIT | {"attacks": [attack]}))
    audit = read_audit(audited)
    assert audit is not None
    assert audit.attacks == [["attack", "time"], ["longer (activation maximisation)", "2.0 s"]]
