"""The parts of an audit: budget and its record, sizes of a search, how samples were seen, files for pipelines."""

from __future__ import annotations

import json
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from recollect.audit import plan
from recollect.audit.budget import LEDGER, Ledger, parse_budget
from recollect.audit.junit import junit
from recollect.audit.sarif import MOST_RESULTS, sarif
from recollect.audit.seen import WORDS, likeliest, seen_as
from recollect.audit.subject import without_copies
from recollect.build import build_problems
from recollect.check import check_network
from recollect.config import AttackConfig
from recollect.core import RecollectError
from recollect.data import LabelledImages, TaskData, training_set
from recollect.runs import RunFolder


def samples(count: int, seed: int = 0) -> TaskData:
    generator = torch.Generator().manual_seed(seed)
    images = 0.6 * torch.rand(count, 3, 4, 4, generator=generator) + 0.1 * torch.arange(3).reshape(3, 1, 1)
    return training_set(LabelledImages(images, torch.arange(count) % 2, "noise"), "binary", None)


@pytest.mark.parametrize("text", ["", "10", "m", "-5s", "1d", "1e3s", "0m", "ten minutes"])
def test_times_that_are_none(text: str) -> None:
    with pytest.raises(RecollectError, match="--budget needs a time such as 90s, 10m or 2h"):
        parse_budget(text)


def test_time_spent_before_an_interruption_counts(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_json(LEDGER, {"seconds": 50.0})
    ledger = Ledger.of(folder, 60.0)
    assert 50.0 <= ledger.spent < 55.0
    assert ledger.left < 10.0
    with ledger.noting(folder):
        time.sleep(0.01)
    assert folder.read_json(LEDGER)["seconds"] > 50.0
    assert Ledger.of(RunFolder(tmp_path / "new"), 60.0).spent < 5.0


def test_whoever_goes_on_learns_how_the_budget_stands() -> None:
    assert Ledger(60.0, spent=50.0).words == "50 s of 1 min 0 s are used."
    assert Ledger(60.0, spent=90.0).words.startswith("1 min 30 s of 1 min 0 s are used: what was begun is finished")


@given(st.floats(0.1, 1e5), st.sampled_from([1, 4, 16]), st.floats(1e-5, 10.0))
def test_a_search_fits_its_time(seconds: float, batch: int, per_step: float) -> None:
    size = plan.size_for(seconds, batch, per_step)
    if size is None:
        assert seconds * batch < plan.LEAST_STEPS * per_step * 2
        return
    share = size.batch / batch  # fewer trials take less, as far as the plan can know
    assert plan.LEAST_STEPS <= size.steps <= plan.MOST_STEPS
    assert size.batches * size.steps * per_step * share <= seconds * 1.001


@pytest.mark.parametrize("name", WORDS)
def test_how_a_network_saw_its_samples_is_found(name: str) -> None:
    data = samples(24)
    x = seen_as(name, data).inputs(data.images)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Flatten(), nn.Linear(48, 64), nn.ReLU(), nn.Linear(64, 1))
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(400):
        optimiser.zero_grad()
        nn.functional.softplus(-data.y * net(x)[:, 0]).mean().backward()
        optimiser.step()
    seen, measured = likeliest(net, data)
    assert seen.name == name, measured
    prepared = data.x if name == "centred" else data.images
    assert torch.allclose(seen.wrapped(net, data)(prepared), net(x), atol=1e-5)


@pytest.mark.parametrize("name", WORDS)
def test_candidates_are_judged_as_samples(name: str) -> None:
    data = samples(6)
    seen = seen_as(name, data)
    matched = seen.matched(data)
    assert torch.allclose(seen.samples(seen.inputs(data.images), data), data.x if name == "centred" else matched.images)


def test_where_inputs_lie() -> None:
    data = samples(6)
    boxes = {name: seen_as(name, data).box(data.images) for name in WORDS}
    assert boxes == {"centred": (-1.0, 1.0), "raw": (0.0, 1.0), "signed": (-1.0, 1.0), "standardised": None}
    assert seen_as("raw", data).box(5 * data.images) is None


def test_copies_of_training_samples_are_no_held_out_samples() -> None:
    data, heldout = samples(6), samples(10, seed=1)
    heldout.images[[2, 5]] = data.images[[0, 3]]
    fresh, copies = without_copies(heldout, data)
    assert copies == 2
    assert fresh.indices.tolist() == [0, 1, 3, 4, 6, 7, 8, 9]
    assert without_copies(fresh, data) == (fresh, 0)


@pytest.mark.parametrize(
    ("net", "box", "expected"),
    [
        (nn.Sequential(nn.Flatten(), nn.Linear(48, 4)), (0.0, 1.0), ["kkt", "activation", "weights"]),
        (nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(8, 4)), (0.0, 1.0), ["kkt", "activation"]),
        (
            nn.Sequential(nn.Conv2d(3, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 4)),
            (0.0, 1.0),
            ["kkt", "activation", "generator"],
        ),
        (
            nn.Sequential(nn.Conv2d(3, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 4)),
            (-1.0, 1.0),
            ["kkt", "activation"],
        ),
    ],
)
def test_attacks_are_chosen_by_what_the_network_is(
    net: nn.Module, box: tuple[float, float], expected: list[str]
) -> None:
    fitting, skipped = plan.chosen(plan.Traits.of(net, check_network(net, (3, 4, 4)), box))
    assert [method.name for method in fitting] == expected
    assert set(skipped) == {method.name for method in plan.METHODS} - set(expected)


@pytest.mark.parametrize(("side", "classes"), [(8, 10), (28, 10), (4, 4), (4, 5)])
def test_a_generator_can_be_built_for_every_number_of_classes(side: int, classes: int) -> None:
    """Ten classes need a conditioning matrix of 10 x 10, which images of 8 x 8 have no room for."""
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(2 * (side - 2) ** 2, classes))
    section = plan.generator_settings((1, side, side), classes) | {"candidates": 4, "steps": 1}
    attack = AttackConfig.model_validate(section)
    assert build_problems(net, (1, side, side), attack, 0, [torch.device("cpu")])
    assert attack.generator.conditioning == ("vector" if classes > side else "vector_matrix")


def test_tiny_images_leave_the_generator_out() -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(2, 3))
    _, skipped = plan.chosen(plan.Traits.of(net, check_network(net, (1, 3, 3)), (0.0, 1.0)))
    assert "at least 4 x 4 pixels" in skipped["generator"]


def test_hostile_words_stay_words() -> None:
    attack = {"name": "<b>&\x00", "seconds": 1.0, "words": "a < b ]]> \x07"}
    audit = {"verdict": '"<script>&', "attacks": [attack], "environment": {"seconds": 2.0}}
    suite = ElementTree.fromstring(junit(audit, fails=True).encode())
    assert suite[0][0].get("message") == '"<script>&'
    assert suite[1].get("name") == "<b>&"


def test_results_are_limited_and_none_without_a_leak() -> None:
    row = {"index": 1, "label": 0, "score": 0.9, "p_value": 0.005, "attack": "kkt", "candidate": [0, 3]}
    audit = {"verdict": "many", "leak": True, "affected": [row] * (MOST_RESULTS + 5)}
    run = json.loads(sarif(audit, "a\\b.pt", fails=False))["runs"][0]
    assert len(run["results"]) == MOST_RESULTS
    assert run["properties"]["affected"] == MOST_RESULTS + 5
    assert run["results"][0]["level"] == "note"
    assert run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "a/b.pt"
    assert json.loads(sarif(audit | {"leak": False}, "", fails=False))["runs"][0]["results"] == []


def test_standardised_vectors_are_matched_as_they_were_seen() -> None:
    """Every value has a scale of its own, to which matching is not blind."""
    images = torch.rand(12, 5, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 10.0, 1e2, 1e3, 1e4])
    y = 1 - 2 * (torch.arange(12) % 2)
    data = TaskData(x=images, y=y, images=images, mean=torch.zeros(5), indices=torch.arange(12))
    net = nn.Linear(5, 1)
    seen = seen_as("standardised", data)
    assert torch.allclose(seen.matched(data).x.std(dim=0), torch.ones(5), atol=1e-5)
    assert seen.wrapped(net, data) is net
    raw = seen_as("raw", data)
    assert raw.matched(data) is data
    pictures = samples(6)
    assert seen_as("standardised", pictures).matched(pictures) is pictures
