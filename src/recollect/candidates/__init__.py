"""How candidates are parametrised (`recollect.core.Candidates`)."""

from recollect.candidates.pixels import Pixels

__all__ = ["Pixels"]
