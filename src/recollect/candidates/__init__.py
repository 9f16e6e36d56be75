"""How candidates are parametrised (`recollect.core.Candidates`)."""

from recollect.candidates.boxed import Boxed
from recollect.candidates.conditioning import Conditions
from recollect.candidates.deep_image_prior import DeepImagePrior
from recollect.candidates.generator import Generated, Generator
from recollect.candidates.pixels import Pixels
from recollect.candidates.subspace import RowSpace, invariant_basis, signal_basis

__all__ = [
    "Boxed",
    "Conditions",
    "DeepImagePrior",
    "Generated",
    "Generator",
    "Pixels",
    "RowSpace",
    "invariant_basis",
    "signal_basis",
]
