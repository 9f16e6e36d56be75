"""``package.module:callable``: the user's own code, which is imported and run."""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import redirect_stdout

from torch import nn

from recollect.core import RecollectError


def make_network(spec: str) -> nn.Module:
    """Call ``package.module:callable``, or take the network that is found under that name."""
    module_name, colon, name = spec.partition(":")
    if not colon or not name:
        raise RecollectError(f"'{spec}' does not name a network; write package.module:callable.")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    # Code of the user's own may raise anything, at import and when called, and may even try to leave.
    try:
        with redirect_stdout(sys.stderr):  # what it prints must not end up in our --json
            made = getattr(importlib.import_module(module_name), name, None)
            net = made if isinstance(made, nn.Module) or not callable(made) else made()
    except (Exception, SystemExit) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise RecollectError(
            f"'{spec}' cannot be made ({reason}); it must be importable from here, and callable without arguments."
        ) from error
    if not isinstance(net, nn.Module):
        raise RecollectError(
            f"'{spec}' gave {type(net).__name__}, not a torch.nn.Module; name a callable that returns the network."
        )
    return net
