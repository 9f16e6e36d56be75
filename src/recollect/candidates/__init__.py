"""How candidates are parametrised (`recollect.core.Candidates`)."""

from recollect.candidates.pixels import Pixels
from recollect.candidates.subspace import RowSpace, signal_basis

__all__ = ["Pixels", "RowSpace", "signal_basis"]
