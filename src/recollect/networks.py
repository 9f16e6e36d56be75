"""Networks on disk: weights that hold numbers and nothing else, and the few facts that rebuild the network."""

from __future__ import annotations

import importlib
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from recollect.config import SourceConfig
from recollect.config_errors import explain
from recollect.core import RecollectError
from recollect.runs import FORMAT, RunFolder
from recollect.zoo.architectures import MLPArchitecture, build_network


class NetworkFacts(BaseModel):
    """``model.json``: what the weights belong to, and how training ended."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int = FORMAT
    architecture: MLPArchitecture
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
    try:
        facts = NetworkFacts.model_validate(folder.read_json("model.json"))
    except ValidationError as error:
        raise RecollectError(explain(error, NetworkFacts, str(path / "model.json"))) from error
    if facts.format != FORMAT:
        raise RecollectError(f"'{path}' has model format {facts.format}; this version of recollect reads {FORMAT}.")
    net = build_network(facts.architecture, facts.sample_shape, seed=0)
    load_weights(net, read_weights(path / "weights.safetensors"), str(path))
    return net, facts


def load_source(source: SourceConfig) -> tuple[nn.Module, tuple[int, ...]]:
    """The network a configuration names, with its weights, and the shape of one input."""
    if source.folder is not None:
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
    return net, source.sample_shape


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
    except (
        OSError,
        SafetensorError,
        RuntimeError,
        ValueError,
        EOFError,
        KeyError,
        pickle.UnpicklingError,
    ) as error:
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
    for name in expected.keys() | found.keys():
        if expected.get(name) != found.get(name):
            raise RecollectError(
                f"the weights in '{origin}' do not fit the architecture: '{name}' is "
                f"{found.get(name, 'missing')} there and {expected.get(name, 'unknown')} in the network."
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
    try:
        made = getattr(importlib.import_module(module_name), name)
    except ImportError as error:
        raise RecollectError(f"cannot import '{module_name}' for '{spec}': {error}.") from error
    except AttributeError as error:
        raise RecollectError(f"'{module_name}' has no '{name}'; write package.module:callable.") from error
    net = made if isinstance(made, nn.Module) else made()
    if not isinstance(net, nn.Module):
        raise RecollectError(f"'{spec}' returned {type(net).__name__}, not a torch.nn.Module.")
    return net
