"""How much memory a step of the KKT attack on an MLP needs, and which chunk of candidates fits a limit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from recollect.core import RecollectError


def step_bytes(
    widths: Sequence[int], trials: int, candidates: int, chunk: int | None = None, bytes_per_value: int = 4
) -> int:
    """Peak of one step: weights, candidates with their momentum, and the larger of what gradient and update hold.

    The update holds four more copies of the candidates; the gradient 6.4 copies of a chunk's hidden activations, 2.4 of
    its candidates, and the summed gradients or the m x m products that stand in for them. The two broken numbers are
    fitted to measured peaks; tests hold the estimate to them.

    >>> step_bytes((784, 256, 256, 1), trials=2, candidates=60) // 2**20
    4
    """
    values, hidden = widths[0], sum(widths[1:-1])
    sizes = [width_in * width_out for width_in, width_out in pairwise(widths)]
    samples, at_once = trials * candidates * values, min(chunk or candidates, candidates)
    if at_once < candidates:
        coupling = 3 * trials * sum(sizes)
    else:
        few = [2 * candidates * (a + b) < 3 * a * b for a, b in pairwise(widths)]
        coupling = trials * sum(2 * candidates**2 if f else size for f, size in zip(few, sizes, strict=True))
    gradient = trials * at_once * (6.4 * hidden + 2.4 * values) + coupling
    return int(bytes_per_value * (sum(sizes) + 2 * samples + max(4 * samples, gradient)))


def chunk_within(
    limit: int, widths: Sequence[int], trials: int, candidates: int, bytes_per_value: int = 4
) -> int | None:
    """The largest chunk, by halving, whose step fits; None when all candidates at once do."""
    chunk, least = candidates, math.inf
    while chunk >= 1:
        asked = None if chunk == candidates else chunk
        needed = step_bytes(widths, trials, candidates, asked, bytes_per_value)
        if needed <= limit:
            return asked
        chunk, least = chunk // 2, min(least, needed)
    raise RecollectError(
        f"{trials} trials of {candidates} candidates need at least {least / 2**20:.1f} MiB, the limit is "
        f"{limit / 2**20:.1f} MiB; use fewer trials or candidates, or a higher attack.memory_limit."
    )
