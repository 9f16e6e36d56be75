"""A section of a page: one function that knows the words and numbers, and one template that sets them.

To add one, write ``def my_section(material: Material) -> Section | None`` beside these, its template into ``blocks/``
(it sees the section as ``section``), and one line into ``SECTIONS`` of ``page.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from recollect.report.audit import Audit
from recollect.report.folder import Run
from recollect.report.gallery import Gallery
from recollect.report.pictures import Picture
from recollect.report.plots import Plot


@dataclass(frozen=True)
class Material:
    """What sections are made of, read and drawn once."""

    run: Run
    pictures: dict[str, Picture]
    gallery: Gallery | None
    audit: Audit | None


@dataclass(frozen=True)
class Section:
    """``name`` is the anchor, ``title`` the heading and the entry in the list of contents."""

    name: str
    title: str
    template: str
    facts: dict[str, Any] = field(default_factory=dict)
    plots: tuple[Plot, ...] = ()
