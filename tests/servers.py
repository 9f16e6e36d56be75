"""Programmes that some tests need and that pip does not install: a browser, a database server."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def absent(sentence: str) -> NoReturn:
    """The test is skipped, unless the machine was said to have everything, as in continuous integration."""
    if os.environ.get("RECOLLECT_TEST_SERVERS") == "required":
        pytest.fail(sentence, pytrace=False)
    pytest.skip(sentence)
