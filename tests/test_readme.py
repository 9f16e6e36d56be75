"""The Python in the README runs as printed, on a network and data of one's own."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from torch import nn

README = Path(__file__).parent.parent / "README.md"


def test_the_python_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    generator = np.random.default_rng(0)
    for name, count in (("train", 8), ("test", 30)):
        images = generator.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        np.savez(tmp_path / f"{name}.npz", images=images, labels=np.arange(count) % 2)
    monkeypatch.chdir(tmp_path)
    net = nn.Sequential(nn.Flatten(), nn.Linear(784, 8), nn.ReLU(), nn.Linear(8, 1))
    exec(code.replace("steps=1000", "steps=5"), {"net": net})
    assert "'reference_count': 8" in capsys.readouterr().out
    assert (tmp_path / "pairs.png").stat().st_size > 0
