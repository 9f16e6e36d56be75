"""What a trial minimises (`recollect.core.Objective`)."""

from recollect.objectives.activation import ActivationMaximisation
from recollect.objectives.kkt import KKT

__all__ = ["KKT", "ActivationMaximisation"]
