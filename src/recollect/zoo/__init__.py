"""Networks to practise on, and how to train them until they memorise."""

from recollect.zoo.architectures import MLP, MLPArchitecture, build_network
from recollect.zoo.training import TrainingConfig, train

__all__ = ["MLP", "MLPArchitecture", "TrainingConfig", "build_network", "train"]
