"""Perceptrons of scikit-learn: the same predictions from the PyTorch network."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier, MLPRegressor

import recollect as rc
from recollect.targets import MLPTarget, as_target

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(40, 5))


def fitted(model, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


@pytest.mark.parametrize("activation", ["relu", "identity"])
@pytest.mark.parametrize("hidden", [(7,), (6, 4), ()])
def test_two_classes(activation: str, hidden: tuple[int, ...]) -> None:
    model = fitted(MLPClassifier(hidden_layer_sizes=hidden, activation=activation, max_iter=30), X[:, 0] > 0)
    net = rc.from_sklearn(model)
    found = torch.sigmoid(net(torch.from_numpy(X))).detach().numpy()
    np.testing.assert_allclose(found[:, 0], model.predict_proba(X)[:, 1], rtol=1e-10)
    if activation == "relu":
        assert isinstance(as_target(net, (5,)), MLPTarget)


def test_several_classes() -> None:
    model = fitted(MLPClassifier(hidden_layer_sizes=(6,), max_iter=30), np.arange(40) % 3)
    found = rc.from_sklearn(model)(torch.from_numpy(X)).softmax(1).detach().numpy()
    np.testing.assert_allclose(found, model.predict_proba(X), rtol=1e-10)
    assert rc.describe(rc.from_sklearn(model)).classes.value == 3


def test_regression() -> None:
    model = fitted(MLPRegressor(hidden_layer_sizes=(6, 3), max_iter=30), X.sum(1))
    found = rc.from_sklearn(model)(torch.from_numpy(X)).detach().numpy()
    np.testing.assert_allclose(found[:, 0], model.predict(X), rtol=1e-10)


def ending_in(activation: str) -> MLPRegressor:
    """As regressors with a Poisson loss do, in versions of scikit-learn that have it."""
    model = fitted(MLPRegressor(hidden_layer_sizes=(3,), max_iter=5), X[:, 0])
    model.out_activation_ = activation
    return model


def test_what_is_no_such_perceptron_is_explained() -> None:
    for model, said in (
        (LogisticRegression(), "LogisticRegression is no perceptron of scikit-learn; give an MLPClassifier"),
        (ending_in("exp"), "ends in 'exp', and the attacks know logistic"),
        (MLPClassifier(), "this MLPClassifier has not been fitted"),
        (
            fitted(MLPClassifier(hidden_layer_sizes=(3,), activation="tanh", max_iter=5), X[:, 0] > 0),
            "has the activation 'tanh'",
        ),
        (fitted(MLPRegressor(hidden_layer_sizes=(3,), max_iter=5), X[:, :2]), "predicts 2 things at once"),
        (fitted(MLPClassifier(hidden_layer_sizes=(3,), max_iter=5), X[:, :2] > 0), "predicts 2 things at once"),
    ):
        with pytest.raises(rc.RecollectError, match=said):
            rc.from_sklearn(model)
