"""Curves of a sweep: every trial of every piece in its own column, and a page that draws them."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from recollect.core import RecollectError
from recollect.report.folder import read_run
from recollect.report.page import write_report
from recollect.report.trial_traces import read_trial_traces


def write_piece(folder: Path, numbers: list[int], **changes: Tensor) -> None:
    """Trial k has the stationarity k + 1 at every step; odd ones end after the first."""
    folder.mkdir(parents=True, exist_ok=True)
    values = torch.tensor(numbers).float().add(1).unsqueeze(1).repeat(1, 3)
    values[torch.tensor(numbers) % 2 == 1, 1:] = math.nan
    trace = {"trace.step": torch.tensor([20, 40, 50]), "trace.stationarity": values, "trace.box": 0.1 * values}
    content = {"number": torch.tensor(numbers), "candidates": torch.rand(len(numbers), 4), **trace} | changes
    save_file(content, folder / f"{numbers[0]}-{numbers[-1]}.safetensors")


def test_a_column_for_each_trial_in_the_order_of_numbers(tmp_path: Path) -> None:
    write_piece(tmp_path, [10, 11])
    write_piece(tmp_path, [1, 4])
    write_piece(tmp_path, [2, 3])
    trace = read_trial_traces(tmp_path)
    assert trace is not None
    assert trace.steps == [20, 40, 50]
    assert list(trace.terms) == ["stationarity", "box"], "as an attack lists them"
    assert trace.terms["stationarity"][0].tolist() == [2, 3, 4, 5, 11, 12]
    assert trace.terms["stationarity"][2].isnan().tolist() == [True, False, True, False, False, True]
    torch.testing.assert_close(trace.terms["box"], 0.1 * trace.terms["stationarity"], equal_nan=True)


def test_infinite_losses_are_missing_and_lost_trials_have_empty_columns(tmp_path: Path) -> None:
    write_piece(tmp_path, [0], **{"trace.stationarity": torch.tensor([[1.0, math.inf, math.nan]])})
    save_file({"number": torch.tensor([1]), "trace.step": torch.tensor([20, 40, 50])}, tmp_path / "1-1.safetensors")
    trace = read_trial_traces(tmp_path)
    assert trace is not None
    assert trace.trials == 2
    assert trace.terms["stationarity"].isfinite().tolist() == [[True, False], [False, False], [False, False]]


@pytest.mark.parametrize(
    "changes",
    [
        {"trace.step": torch.tensor([], dtype=torch.int64)},
        {"trace.box": torch.ones(2, 7)},
        {"trace.box": torch.ones(2, 3, dtype=torch.int32)},
        {"number": torch.tensor([1, 2, 3])},
    ],
    ids=["no steps", "another shape", "no losses", "other trials"],
)
def test_a_piece_with_an_odd_trace_is_left_out(changes: dict[str, Tensor], tmp_path: Path) -> None:
    write_piece(tmp_path, [0, 2])
    write_piece(tmp_path, [4, 5], **changes)
    trace = read_trial_traces(tmp_path)
    assert trace is not None
    assert trace.terms["stationarity"][0].tolist() == [1, 3]


def test_nothing_where_no_piece_has_a_trace(tmp_path: Path) -> None:
    assert read_trial_traces(tmp_path / "trials") is None
    save_file({"number": torch.tensor([0])}, tmp_path / "0-0.safetensors")
    assert read_trial_traces(tmp_path) is None


def test_a_truncated_piece_is_one_sentence(tmp_path: Path) -> None:
    write_piece(tmp_path, [0])
    path = tmp_path / "0-0.safetensors"
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(RecollectError, match="truncated"):
        read_trial_traces(tmp_path)


def test_the_page_draws_the_trials_of_a_sweep(make_run: Callable[..., Path]) -> None:
    run = make_run()
    (run / "trace.jsonl").unlink()
    (run / "trials.jsonl").write_text('{"number": 0, "score": 1.0}\n')
    assert "hold none" in write_report(run).read_text()
    for first in range(0, 12, 2):
        write_piece(run / "trials", [first, first + 1])
    page = write_report(run).read_text()
    assert "hold none" not in page
    assert 'data-plot="search"' in page
    assert 'data-plot="search-2"' in page
    assert (run / "figures" / "attack.png").exists()


def test_a_page_with_five_hundred_samples_and_many_trials_stays_small(
    write: Callable[..., Path], tmp_path: Path
) -> None:
    run = write(tmp_path / "run", (3, 32, 32), n=500)
    (run / "trace.jsonl").unlink()
    without = write_report(run).stat().st_size
    generator = torch.Generator().manual_seed(1)
    for first in range(0, 2000, 250):
        numbers = list(range(first, first + 250))
        losses = {f"trace.{name}": torch.rand(250, 60, generator=generator) for name in ("stationarity", "box", "deep")}
        write_piece(run / "trials", numbers, **{"trace.step": 100 * torch.arange(1, 61)}, **losses)
    trace = read_run(run).trace
    assert trace is not None
    assert trace.trials == 2000
    size = write_report(run).stat().st_size
    assert size - without < 600_000
    assert size < 10_000_000
