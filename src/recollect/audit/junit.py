"""The verdict as JUnit XML, which every build server reads: a test case for each attack, and one for all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

_SUITE = "recollect.audit"


def junit(audit: Mapping[str, Any], fails: bool) -> str:
    """The case named ``verdict`` fails where the audit does; cases of attacks say what each one found.

    >>> audit = {"verdict": "Nothing found.", "attacks": [], "environment": {"seconds": 1.5}}
    >>> print(junit(audit, fails=False).splitlines()[1])
    <testsuite name="recollect.audit" tests="1" failures="0" errors="0" time="1.500">
    """
    suite = ElementTree.Element(
        "testsuite",
        name=_SUITE,
        tests=str(len(audit["attacks"]) + 1),
        failures=str(int(fails)),
        errors="0",
        time=f"{audit['environment']['seconds']:.3f}",
    )
    overall = ElementTree.SubElement(suite, "testcase", classname=_SUITE, name="verdict", time="0.000")
    if fails:
        ElementTree.SubElement(overall, "failure", message=_clean(audit["verdict"]), type="leak")
    ElementTree.SubElement(overall, "system-out").text = _clean(audit["verdict"])
    for attack in audit["attacks"]:
        case = ElementTree.SubElement(
            suite, "testcase", classname=_SUITE, name=_clean(attack["name"]), time=f"{attack['seconds']:.3f}"
        )
        ElementTree.SubElement(case, "system-out").text = _clean(attack["words"])
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"


def _clean(text: str) -> str:
    """XML 1.0 has no control characters, escaped or not."""
    return "".join(letter for letter in text if letter in "\t\n" or letter >= " ")
