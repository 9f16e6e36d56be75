"""How variables move (`recollect.core.Optimiser`)."""

from recollect.optimisers.momentum import Momentum

__all__ = ["Momentum"]
