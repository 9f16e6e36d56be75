"""Methods that the compiler is kept out of, and that it is not imported for nothing."""

from __future__ import annotations

import subprocess
import sys

import torch
from torch import Tensor

from recollect.compilation import before_compiling, kept_out


class Sums:
    def total(self, x: Tensor) -> Tensor:
        return self.loop(x) + 1

    @kept_out(recursive=True)
    def loop(self, x: Tensor) -> Tensor:
        return x.sum()


def test_a_method_is_left_alone_until_something_is_compiled() -> None:
    seen: list[str] = []

    def backend(graph: torch.fx.GraphModule, _: list[Tensor]) -> torch.fx.GraphModule:
        seen.extend(str(node.target) for node in graph.graph.nodes if node.op.startswith("call"))
        return graph

    x = torch.ones(3)
    assert Sums().total(x) == 4
    before_compiling()
    assert torch.compile(Sums().total, backend=backend)(x) == 4
    assert len(seen) == 1
    assert "add" in seen[0]


def test_the_command_line_starts_without_the_compiler() -> None:
    code = "import sys, recollect.cli; sys.exit('torch._dynamo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
