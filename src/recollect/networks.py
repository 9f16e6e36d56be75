"""Networks on disk: weights that hold numbers and nothing else, and the few facts that rebuild the network."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, PositiveInt, ValidationError
from torch import nn

from recollect.config import Config, SourceConfig
from recollect.config.errors import explain
from recollect.core import RecollectError
from recollect.datasets import training_data
from recollect.loading.description import describe
from recollect.loading.exported import read_exported
from recollect.loading.frugal import AtMost
from recollect.loading.own_code import make_network
from recollect.loading.usable import require_weights
from recollect.loading.weights import load_weights, read_weights
from recollect.runs import FORMAT, RunFolder
from recollect.zoo.architectures import Architecture, build_network

__all__ = ["NetworkFacts", "load_given", "load_network", "load_source", "load_weights", "read_weights", "save_network"]

_BESIDE_WEIGHTS = 2**24
"""Numbers that a network may hold besides its weights, such as the positions that a group permutes."""


class NetworkFacts(BaseModel):
    """``model.json``: what the weights belong to, and how training ended."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int = FORMAT
    architecture: Architecture
    sample_shape: tuple[PositiveInt, ...]
    training: dict[str, Any]


def save_network(folder: RunFolder, net: nn.Module, facts: NetworkFacts) -> None:
    folder.write_tensors("weights.safetensors", net.state_dict())
    folder.write_json("model.json", facts.model_dump(mode="json"))


def load_network(path: Path) -> tuple[nn.Module, NetworkFacts]:
    """A network that ``recollect train`` wrote; ``path`` is its model folder or the run folder around it."""
    path = path / "model" if (path / "model" / "model.json").is_file() else path
    folder = RunFolder(path)
    if not folder.has("model.json"):
        raise RecollectError(f"'{path}' holds no network (no model.json); give a folder written by 'recollect train'.")
    raw = folder.read_json("model.json")
    if raw.get("format") != FORMAT:
        raise RecollectError(
            f"'{path}' has model format {raw.get('format')}, this version of recollect reads {FORMAT}; "
            "use the version that wrote it."
        )
    try:
        facts = NetworkFacts.model_validate(raw)
    except ValidationError as error:
        raise RecollectError(explain(error, NetworkFacts, str(path / "model.json"))) from error
    state = read_weights(path / "weights.safetensors")
    net = _built(facts, sum(value.numel() for value in state.values()), path)
    load_weights(net, state, str(path))
    return net.eval(), facts


def _built(facts: NetworkFacts, weights: int, path: Path) -> nn.Module:
    """The network that is described, as long as it is about as large as its weights."""
    try:
        with AtMost(4 * weights + _BESIDE_WEIGHTS):
            return build_network(facts.architecture, facts.sample_shape, seed=0)
    except RecollectError:
        raise
    # Sizes that no computer has may raise almost anything.
    except Exception as error:
        raise RecollectError(
            f"'{path / 'model.json'}' describes a network that cannot be built, or one much larger than its "
            f"{weights:,} weights; bring the file back, or train the network again."
        ) from error


def load_source(source: SourceConfig) -> tuple[nn.Module, tuple[int, ...]]:
    """The network a configuration names, with its weights, ready to be evaluated, and the shape of one input."""
    if source.folder is not None:
        if source.module is not None or source.weights is not None or source.sample_shape is not None:
            raise RecollectError(
                "two networks were named; give a folder, or module, weights and shape of your own, but not both."
            )
        net, facts = load_network(Path(source.folder))
        return net, facts.sample_shape
    if source.module is None and (source.weights is None or Path(source.weights).suffix != ".pt2"):
        raise RecollectError(
            "an existing network is given by a folder, or by module, weights and sample_shape "
            "(--module mypackage.nets:make_net --weights model.safetensors --shape 1,28,28), or by a torch.export "
            "program (--weights model.pt2)."
        )
    return _users_own(source)


def load_given(config: Config) -> tuple[nn.Module, tuple[int, ...]]:
    """`load_source` of a whole configuration, whose data tell the shape of an input that nobody declared."""
    assert config.source is not None
    source = config.source
    # A program knows its shape by itself, and a folder too.
    if source.module is not None and source.folder is None and source.sample_shape is None and config.data is not None:
        source = source.model_copy(update={"sample_shape": tuple(training_data(config).x.shape[1:])})
    return load_source(source)


def _users_own(source: SourceConfig) -> tuple[nn.Module, tuple[int, ...]]:
    """Code and weights, or a program; on the CPU in float32 at least, whatever device and precision it had."""
    if source.module is None:
        net: nn.Module = read_exported(Path(source.weights or ""))
    else:
        net = make_network(source.module)
        if source.weights is not None:
            load_weights(net, read_weights(Path(source.weights)), source.weights)
    require_weights(net)
    net = net.to("cpu", reduce(torch.promote_types, (p.dtype for p in net.parameters()), torch.float32)).eval()
    return net, describe(net, input_shape=source.sample_shape).input_shape.value
