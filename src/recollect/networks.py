"""Networks on disk: weights that hold numbers and nothing else, and the few facts that rebuild the network."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors.torch import load_file
from torch import Tensor, nn

from recollect.config import SourceConfig
from recollect.config_errors import explain
from recollect.core import RecollectError
from recollect.runs import FORMAT, RunFolder
from recollect.zoo.architectures import Architecture, build_network


class NetworkFacts(BaseModel):
    """``model.json``: what the weights belong to, and how training ended."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int = FORMAT
    architecture: Architecture
    sample_shape: tuple[int, ...]
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
    net = build_network(facts.architecture, facts.sample_shape, seed=0)
    load_weights(net, read_weights(path / "weights.safetensors"), str(path))
    return net, facts


def load_source(source: SourceConfig) -> tuple[nn.Module, tuple[int, ...]]:
    """The network a configuration names, with its weights, ready to be evaluated, and the shape of one input."""
    if source.folder is not None:
        if source.module is not None or source.weights is not None or source.sample_shape is not None:
            raise RecollectError(
                "two networks were named; give a folder, or module, weights and shape of your own, but not both."
            )
        net, facts = load_network(Path(source.folder))
        return net, facts.sample_shape
    if source.module is None or source.sample_shape is None:
        raise RecollectError(
            "an existing network is given by a folder, or by module, weights and sample_shape "
            "(--module mypackage.nets:make_net --weights model.safetensors --shape 1,28,28)."
        )
    net = _make(source.module)
    if source.weights is not None:
        load_weights(net, read_weights(Path(source.weights)), source.weights)
    return net.eval(), source.sample_shape


def read_weights(path: Path) -> dict[str, Tensor]:
    """A state dict from safetensors, or from a PyTorch file by the loader that cannot run code."""
    if not path.is_file():
        raise RecollectError(f"there is no weights file '{path}'.")
    try:
        state = (
            load_file(path)
            if path.suffix == ".safetensors"
            else torch.load(path, weights_only=True, map_location="cpu")
        )
    # A damaged file may raise almost anything.
    except Exception as error:
        raise RecollectError(
            f"'{path}' cannot be loaded as plain weights: it is damaged, or a pickle that could run code, which "
            "recollect never does; save a state dict with safetensors or torch.save."
        ) from error
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise RecollectError(
            f"'{path}' holds {type(state).__name__}, not a state dict of tensors; save net.state_dict()."
        )
    return state


def load_weights(net: nn.Module, state: dict[str, Tensor], origin: str) -> None:
    expected = {name: tuple(value.shape) for name, value in net.state_dict().items()}
    found = {name: tuple(value.shape) for name, value in state.items()}
    for name in sorted(expected.keys() | found.keys(), key=str):
        if expected.get(name) != found.get(name):
            raise RecollectError(
                f"the weights in '{origin}' do not fit the architecture: '{name}' is "
                f"{found.get(name, 'missing')} there and {expected.get(name, 'unknown')} in the network; "
                "give the weights of this network."
            )
    floating = next((value.dtype for value in state.values() if value.is_floating_point()), torch.float32)
    net.to(floating).load_state_dict(state)


def _make(spec: str) -> nn.Module:
    """Call ``package.module:callable``. This is the user's own code, and it runs."""
    module_name, colon, name = spec.partition(":")
    if not colon or not name:
        raise RecollectError(f"'{spec}' does not name a network; write package.module:callable.")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    # Code of the user's own may raise anything, at import and when called.
    try:
        made = getattr(importlib.import_module(module_name), name, None)
        net = made if isinstance(made, nn.Module) or not callable(made) else made()
    except Exception as error:
        raise RecollectError(
            f"'{spec}' cannot be made ({type(error).__name__}: {error}); it must be importable from here, and callable "
            "without arguments."
        ) from error
    if not isinstance(net, nn.Module):
        raise RecollectError(
            f"'{spec}' gave {type(net).__name__}, not a torch.nn.Module; name a callable that returns the network."
        )
    return net
