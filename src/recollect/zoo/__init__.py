"""Networks to practise on, and how to train them until they memorise."""

from recollect.zoo.architectures import MLP, Architecture, MLPArchitecture, build_network
from recollect.zoo.convolution import ConvArchitecture, ConvNet
from recollect.zoo.deep_set import DeepSet, DeepSetArchitecture
from recollect.zoo.fitting import fitted
from recollect.zoo.group_convolution import GroupConvArchitecture, GroupConvNet
from recollect.zoo.symmetrised import Symmetrised
from recollect.zoo.training import TrainingConfig, train

__all__ = [
    "MLP",
    "Architecture",
    "ConvArchitecture",
    "ConvNet",
    "DeepSet",
    "DeepSetArchitecture",
    "GroupConvArchitecture",
    "GroupConvNet",
    "MLPArchitecture",
    "Symmetrised",
    "TrainingConfig",
    "build_network",
    "fitted",
    "train",
]
