"""What a trial minimises (`recollect.core.Objective`)."""

from recollect.objectives.activation import ActivationMaximisation
from recollect.objectives.inversion import INVERSION, RECONSTRUCTION, Inversion
from recollect.objectives.inverting import Inverting
from recollect.objectives.kkt import KKT

__all__ = [
    "INVERSION",
    "KKT",
    "RECONSTRUCTION",
    "ActivationMaximisation",
    "Inversion",
    "Inverting",
]
