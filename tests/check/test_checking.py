"""The whole check from Python: which sentence is said when."""

from __future__ import annotations

import json

import pytest
import torch
from torch import Tensor, nn

from recollect.check import Findings, check_network
from recollect.core import RecollectError


def _levels(found: Findings) -> dict[str, str]:
    return {finding.topic: finding.level for finding in found.findings}


def _said(found: Findings, topic: str) -> str:
    return next(finding.sentence for finding in found.findings if finding.topic == topic)


def _mlp(outputs: int = 1, bias: bool = False) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 40), nn.ReLU(), nn.Linear(40, outputs, bias=bias))


def _margin_model(n: int = 4, noise: float = 0.0) -> tuple[nn.Module, Tensor, Tensor]:
    """A linear model at its maximum margin on orthogonal samples: every sample has margin 1."""
    x, y = torch.eye(n, 12).double(), torch.where(torch.arange(n) % 2 == 0, 1, -1)
    net = nn.Linear(12, 1, bias=False).double()
    with torch.no_grad():
        net.weight.copy_(10 * (y.double() @ x).unsqueeze(0))
        net.weight[0, n:] += noise
    return net, x, y


def test_a_network_at_its_maximum_margin_is_worth_attacking() -> None:
    net, x, y = _margin_model()
    found = check_network(net, (12,), x, y)
    assert set(_levels(found).values()) == {"ok"}
    assert found.closing.startswith("The KKT attack is worth running: what it rests on holds")
    assert found.margins is not None
    assert (found.margins.smallest, found.margins.within_tenth) == (10.0, 4)
    assert found.residual is not None
    assert found.residual.all_layers.multipliers.tolist() == pytest.approx([10.0] * 4)


@pytest.mark.parametrize(("noise", "level"), [(1.0, "ok"), (10.0, "caution"), (50.0, "obstacle")])
def test_noise_in_the_weights_is_said(noise: float, level: str) -> None:
    net, x, y = _margin_model(noise=noise)
    assert _levels(check_network(net, (12,), x, y))["KKT residual"] == level


def test_without_data() -> None:
    found = check_network(_mlp(), (3, 2, 2))
    assert found.margins is None
    assert found.residual is None
    assert set(_levels(found)) == {"task", "homogeneity"}
    assert "need the training data, which were not given" in found.closing
    assert found.parameters == 12 * 40 + 40 + 40
    assert found.layers == ("1", "3")


@pytest.mark.parametrize(
    ("outputs", "kind", "sentence"),
    [
        (1, "binary", "One output: taken for labels +1 and -1, trained with the logistic loss or a regression loss"),
        (2, "multiclass", "2 outputs: taken for 2 classes, trained with cross-entropy"),
        (10, "multiclass", "10 outputs: taken for 10 classes, trained with cross-entropy"),
    ],
)
def test_the_task_is_guessed_and_called_a_guess(outputs: int, kind: str, sentence: str) -> None:
    found = check_network(_mlp(outputs), (12,))
    assert (found.task.kind, found.task.outputs, found.task.guessed) == (kind, outputs, True)
    assert _said(found, "task").startswith(sentence)
    assert "this is a guess" in _said(found, "task")


def test_a_declared_loss_is_no_guess_and_regression_frees_the_sign() -> None:
    net, x, y = _margin_model()
    assert "guess" not in _said(check_network(net, (12,), loss="logistic"), "task")
    found = check_network(net, (12,), x, y, loss="huber")
    assert found.residual is not None
    assert found.residual.free_sign
    assert "every sample that is not fitted exactly" in _said(found, "margins")


def test_outputs_at_the_labels_look_like_regression() -> None:
    net, x, y = _margin_model()
    with torch.no_grad():
        net.get_parameter("weight").div_(10)
    found = check_network(net, (12,), x, y)
    assert _levels(found)["task"] == "caution"
    assert "--free-sign" in _said(found, "task")
    freed = check_network(net, (12,), x, y, free_sign=True)
    assert _levels(freed)["task"] == "ok"
    assert "a guess from the output layer and its values" in _said(freed, "task")


def test_normalisation_dropout_and_activations_each_have_their_sentence() -> None:
    parts = [nn.Linear(12, 9), nn.BatchNorm1d(9), nn.GELU(), nn.Dropout(), nn.LeakyReLU(), nn.Linear(9, 1)]
    found = check_network(nn.Sequential(*parts), (12,))
    told = [(finding.topic, finding.level) for finding in found.findings]
    assert ("normalisation", "obstacle") in told
    assert ("dropout", "caution") in told
    assert ("activations", "obstacle") in told
    assert ("activations", "ok") in told
    assert ("homogeneity", "obstacle") in told
    assert "BatchNorm1d at '1'" in _said(found, "normalisation")
    assert "meets obstacles here" in found.closing


def test_biases_are_named_as_what_breaks_homogeneity() -> None:
    found = check_network(_mlp(bias=True), (12,))
    assert _levels(found)["homogeneity"] == "caution"
    assert "because of 3.bias" in _said(found, "homogeneity")
    assert found.structure.biases == ("1.bias", "3.bias")


def test_samples_that_are_classified_wrongly() -> None:
    net, x, y = _margin_model(n=4)
    found = check_network(net, (12,), x, torch.cat([y[:3], -y[3:]]))
    assert _levels(found)["training error"] == "obstacle"
    assert "1 of 4 samples are classified wrongly (25.0%)" in _said(found, "training error")


def test_too_many_samples_those_nearest_to_the_margin_are_taken() -> None:
    net, x, y = _margin_model(n=6)
    x = x * torch.tensor([3.0, 1.0, 2.0, 1.0, 3.0, 3.0]).double().unsqueeze(1)
    found = check_network(net, (12,), x, y, most_samples=2)
    assert found.residual is not None
    assert found.residual.samples == 2
    assert found.residual.all_layers.relative == pytest.approx((4 / 6) ** 0.5)
    assert "the 2 of smallest margin among 6 samples" in _said(found, "KKT residual")


def test_more_samples_than_parameters_mean_nothing() -> None:
    net, _, _ = _margin_model()
    x = torch.randn(30, 12, generator=torch.Generator().manual_seed(0))
    found = check_network(net, (12,), x, torch.arange(30) % 2 * 2 - 1)
    assert "30 samples meet 12 parameters" in _said(found, "KKT residual")


def test_every_closing_sentence_says_what_it_does_not_mean() -> None:
    net, x, y = _margin_model()
    for found in (check_network(net, (12,)), check_network(net, (12,), x, y), check_network(net, (12,), x, -y)):
        assert found.closing.endswith("Nothing found here does not mean that nothing leaks.")


def test_json_is_plain() -> None:
    net, x, y = _margin_model()
    found = json.loads(json.dumps(check_network(net, (12,), x, y).as_json(), allow_nan=False))
    assert set(found) == {
        *("task", "sample_shape", "parameters", "layers", "structure", "homogeneity"),
        *("margins", "residual", "findings", "closing"),
    }
    none_left = pytest.approx(0, abs=1e-9)
    assert found["residual"]["all_layers"] == {"relative": none_left, "per_layer": {"": none_left}, "positive": 4}
    assert check_network(net, (12,)).as_json()["residual"] is None


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        (torch.zeros(2, 12), None, "one of them is missing"),
        (None, torch.ones(2), "one of them is missing"),
        (torch.zeros(2, 11), torch.ones(2), "samples of shape [11], the network takes shape [12]"),
        (torch.zeros(0, 12), torch.ones(0), "0 samples"),
        (torch.full((2, 12), torch.nan), torch.ones(2), "not finite"),
        (torch.zeros(2, 12), torch.zeros(2), "labels of +1 and -1, but the data have 0"),
    ],
)
def test_data_that_do_not_fit(x: Tensor | None, y: Tensor | None, expected: str) -> None:
    with pytest.raises(RecollectError) as caught:
        check_network(_mlp(), (12,), x, y)
    assert expected in str(caught.value)


def test_free_sign_is_for_one_output() -> None:
    with pytest.raises(RecollectError, match="this network has 3; leave out --free-sign"):
        check_network(_mlp(3), (12,), free_sign=True)
