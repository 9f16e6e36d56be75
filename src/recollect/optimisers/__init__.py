"""How variables move (`recollect.core.Optimiser`)."""

from recollect.optimisers.adam import Adam
from recollect.optimisers.momentum import Momentum
from recollect.optimisers.same_gd import SameGD

__all__ = ["Adam", "Momentum", "SameGD"]
