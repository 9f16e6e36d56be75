"""The section about generated images: what they look like, and every number that judges them, attack by attack."""

from __future__ import annotations

from typing import Any

from recollect.report.class_grid import FILE
from recollect.report.parsing import number, read_object
from recollect.report.section import Material, Section
from recollect.report.words import NOTHING

_SHARES = {
    "label_agreement": "label agreement",
    "attack_accuracy": "attack accuracy",
    "attack_accuracy_perceptron": "the same by a perceptron",
    "attack_accuracy_neighbour": "the same by the nearest other image",
    "coverage": "coverage: real images that one of these is near",
}
_NUMBERS = {
    "density": "density: how many real images are near each",
    "feature_cosine": "cosine of the features of two images",
    "class_feature_cosine": "the same within a class",
    "frechet_training": "Frechet distance to training images",
    "frechet_held_out": "Frechet distance to held-out images",
    "nearest_training_ncc": "NCC with the nearest training image",
    "member_advantage": "member advantage",
}
_REAL = {
    "attack_accuracy": "held_out_accuracy_classifier",
    "attack_accuracy_perceptron": "held_out_accuracy_perceptron",
    "density": "real_density",
    "coverage": "real_coverage",
    "feature_cosine": "real_feature_cosine",
    "class_feature_cosine": "real_class_feature_cosine",
    "frechet_training": "real_frechet",
    "nearest_training_ncc": "held_out_ncc",
}
"""What real images score."""


def generated_section(material: Material) -> Section | None:
    """None where no attack was by a generator."""
    run = material.run
    folders = {"this run": run.path} | {other.name: other.path for other in run.baselines}
    records = {name: record for name, path in folders.items() if (record := read_object(path / FILE)) is not None}
    if not records:
        return None
    names = {"this run": "generated"} | {other.name: f"generated {other.path.name}" for other in run.baselines}
    pictures = {name: material.pictures[key] for name, key in names.items() if key in material.pictures}
    facts = {
        "headings": ["", *records, "real images"],
        "rows": score_rows(records),
        "pictures": pictures,
        "class_means": _shown(_part(next(iter(records.values())), "references").get("class_means_ncc"), None, False),
        "luck": {
            name: _shown(_part(record, "pooled").get("member_luck"), None, True) for name, record in records.items()
        },
    }
    return Section("generated", "Generated images", "blocks/generated.html.j2", facts)


def score_rows(records: dict[str, dict[str, Any]]) -> list[list[str]]:
    """A row for each number: its mean over generators with the deviation, for each attack, then for real images."""
    real = _part(next(iter(records.values())), "references")
    rows = []
    for key, label in (_SHARES | _NUMBERS).items():
        share = key in _SHARES
        cells = [
            _shown(_part(record, "mean").get(key), _part(record, "deviation").get(key), share)
            for record in records.values()
        ]
        rows.append([label, *cells, _shown(real.get(_REAL.get(key, "")), None, share)])
    return [row for row in rows if any(cell != NOTHING for cell in row[1:])]


def _part(record: dict[str, Any], name: str) -> dict[str, Any]:
    part = record.get(name)
    return part if isinstance(part, dict) else {}


def _shown(value: object, deviation: object, share: bool) -> str:
    found, spread = number(value), number(deviation)
    if found is None:
        return NOTHING
    if share:
        return f"{found:.1%}" if spread is None else f"{found:.1%} ± {spread:.1%}"
    digits = 1 if abs(found) >= 10 else 3
    return f"{found:.{digits}f}" if spread is None else f"{found:.{digits}f} ± {spread:.{digits}f}"
