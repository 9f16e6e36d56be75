"""Networks to practise on, and how to train them until they memorise."""

from recollect.zoo.architectures import MLP, Architecture, MLPArchitecture, build_network
from recollect.zoo.classifier import Classifier, ClassifierArchitecture, build_classifier
from recollect.zoo.convolution import ConvArchitecture, ConvNet
from recollect.zoo.deep_set import DeepSet, DeepSetArchitecture
from recollect.zoo.fitting import fitted
from recollect.zoo.group_convolution import GroupConvArchitecture, GroupConvNet
from recollect.zoo.ordinary_training import (
    OrdinaryTraining,
    accuracy,
    outputs_of,
    train_ordinarily,
    weights_within,
)
from recollect.zoo.symmetrised import Symmetrised
from recollect.zoo.training import TrainingConfig, train

__all__ = [
    "MLP",
    "Architecture",
    "Classifier",
    "ClassifierArchitecture",
    "ConvArchitecture",
    "ConvNet",
    "DeepSet",
    "DeepSetArchitecture",
    "GroupConvArchitecture",
    "GroupConvNet",
    "MLPArchitecture",
    "OrdinaryTraining",
    "Symmetrised",
    "TrainingConfig",
    "accuracy",
    "build_classifier",
    "build_network",
    "fitted",
    "outputs_of",
    "train",
    "train_ordinarily",
    "weights_within",
]
