"""How candidates are parametrised (`recollect.core.Candidates`)."""

from recollect.candidates.deep_image_prior import DeepImagePrior
from recollect.candidates.pixels import Pixels
from recollect.candidates.subspace import RowSpace, signal_basis

__all__ = ["DeepImagePrior", "Pixels", "RowSpace", "signal_basis"]
