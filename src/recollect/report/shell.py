"""What all interactive pages have in common: one file with its style, pictures, numbers and script inside.

The page forbids itself the network, and every script but the one it was written with: its policy names the script's
hash, so that nothing from a run folder could run even if it got past the escaping.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from recollect.report.gallery import Gallery
from recollect.report.section import Section

_SCRIPTS = ("page.js", "tiles.js", "detail.js", "gallery.js", "plots.js")


@dataclass(frozen=True)
class Heading:
    """The top of a page. ``tone`` is "leak", "quiet" or nothing, and colours the verdict."""

    name: str
    verdict: str
    tone: str = ""
    kicker: str = ""


def environment() -> Environment:
    """The templates. The suffix .j2 hides .html from jinja2's own guess, so escaping is switched on for all."""
    return Environment(
        loader=PackageLoader("recollect.report", "."), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )


def page(heading: Heading, sections: Sequence[Section], gallery: Gallery | None) -> str:
    """The page as text. Everything that comes from a run folder is escaped."""
    script = page_script()
    plots = {plot.name: plot.readings.as_json() for section in sections for plot in section.plots}
    data = {"gallery": None if gallery is None else gallery.as_json(), "plots": plots}
    template = environment().get_template("shell.html.j2")
    return template.render(
        heading=heading,
        sections=sections,
        sprites=None if gallery is None else gallery.sprites,
        tile_count=0 if gallery is None else len(gallery.tile_names),
        data=json_block(data),
        script=Markup(script),
        script_hash=b64encode(sha256(script.encode()).digest()).decode(),
    )


def page_script() -> str:
    """The page's only script."""
    folder = files("recollect.report") / "script"
    parts = [(folder / name).read_text(encoding="utf-8") for name in _SCRIPTS]
    return '"use strict";\n{\n' + "\n".join(parts) + "}\n"


def json_block(data: dict[str, Any]) -> Markup:
    """JSON that can stand in a script element: no sign in it can end the element or begin another.

    >>> json_block({"name": "</script><b>"})
    Markup('{"name":"\\\\u003c/script\\\\u003e\\\\u003cb\\\\u003e"}')
    """
    return htmlsafe_json_dumps(data, dumps=json.dumps, allow_nan=False, separators=(",", ":"))
