"""The verdict as SARIF 2.1.0, which code hosts show beside the code: a result for each affected sample."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from recollect import __version__

MOST_RESULTS = 500
"""Code hosts refuse files with very many."""
_RULE = "training-sample-recovered"
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(audit: Mapping[str, Any], weights: str, fails: bool) -> str:
    """A log of one run; results name the weights file, for want of a line of code to point at."""
    affected = audit["affected"][:MOST_RESULTS] if audit["leak"] else []
    run = {
        "tool": {"driver": {"name": "recollect", "version": __version__, "rules": [_rule()]}},
        "invocations": [{"executionSuccessful": True, "exitCode": 3 if fails else 0}],
        "results": [_result(row, weights, fails) for row in affected],
        "properties": {"verdict": audit["verdict"], "affected": len(audit["affected"])},
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule() -> dict[str, Any]:
    return {
        "id": _RULE,
        "name": "TrainingSampleRecovered",
        "shortDescription": {"text": "A training sample can be reconstructed from the weights."},
        "fullDescription": {
            "text": "Candidates found from the weights alone match this training sample better than they match samples "
            "that the network never saw."
        },
        "defaultConfiguration": {"level": "error"},
    }


def _result(row: Mapping[str, Any], weights: str, fails: bool) -> dict[str, Any]:
    text = (
        f"Training sample {row['index']} (label {row['label']}) was recovered by {row['attack']}: "
        f"NCC {row['score']:.3f}, p-value {row['p_value']:.2g}."
    )
    return {
        "ruleId": _RULE,
        "ruleIndex": 0,
        "level": "error" if fails else "note",
        "message": {"text": text},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": quote(weights.replace("\\", "/"))}}}],
        "partialFingerprints": {"trainingSample/v1": str(row["index"])},
        "properties": dict(row),
    }
