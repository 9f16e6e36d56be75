"""Perceptrons trained with scikit-learn, as PyTorch networks with the same outputs before the last activation."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from recollect.core import RecollectError

_OUTPUTS = {"logistic": 1, "softmax": None, "identity": 1}
"""Activation of the last layer, which is left out, and how many outputs it may have."""


def from_sklearn(model: Any) -> nn.Sequential:
    """The network of an ``MLPClassifier`` or ``MLPRegressor``: Linear layers with ReLU in between.

    Two classes have one output, the logit of the second; more have one logit each; a regressor has one output.
    """
    kind = type(model).__name__
    if kind not in ("MLPClassifier", "MLPRegressor"):
        raise RecollectError(f"{kind} is no perceptron of scikit-learn; give an MLPClassifier or an MLPRegressor.")
    if not hasattr(model, "coefs_"):
        raise RecollectError(f"this {kind} has not been fitted; call its fit method first.")
    if model.activation not in ("relu", "identity"):
        raise RecollectError(
            f"this {kind} has the activation '{model.activation}', and the attacks need 'relu' (or 'identity'); "
            "train it with activation='relu'."
        )
    if model.out_activation_ not in _OUTPUTS:
        raise RecollectError(
            f"this {kind} ends in '{model.out_activation_}', and the attacks know {', '.join(_OUTPUTS)}; train it with "
            "another loss."
        )
    outputs = model.coefs_[-1].shape[1]
    if _OUTPUTS[model.out_activation_] not in (None, outputs):
        raise RecollectError(
            f"this {kind} predicts {outputs} things at once, and one target or one label per sample is needed; "
            "train it on one of them."
        )
    parts: list[nn.Module] = []
    for coefficients, intercepts in zip(model.coefs_, model.intercepts_, strict=True):
        weight = torch.from_numpy(coefficients.T.copy())
        layer = nn.Linear(*coefficients.shape, dtype=weight.dtype)
        with torch.no_grad():
            layer.weight.copy_(weight)
            layer.bias.copy_(torch.from_numpy(intercepts))
        parts += [layer, nn.ReLU()] if model.activation == "relu" else [layer]
    return nn.Sequential(*parts[: 2 * len(model.coefs_) - 1 if model.activation == "relu" else None]).eval()
