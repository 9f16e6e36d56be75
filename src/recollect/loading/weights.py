"""Weights into a network: read as plain numbers, compared name by name and shape by shape, then copied."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from recollect.core import RecollectError
from recollect.loading.plain import NotPlainError
from recollect.loading.safetensors_file import read_safetensors_file
from recollect.loading.torch_file import read_torch_file


def read_weights(path: Path) -> dict[str, Tensor]:
    """A state dict from safetensors, or from what ``torch.save`` wrote, by readers that cannot run code."""
    if not path.is_file():
        raise RecollectError(f"there is no weights file '{path}'.")
    try:
        state = read_safetensors_file(path) if path.suffix == ".safetensors" else read_torch_file(path)
    except (NotPlainError, OSError) as error:
        raise RecollectError(
            f"'{path}' cannot be loaded as plain weights ({error}): it is damaged, or a pickle that could run code, "
            "which recollect never does; save a state dict with safetensors or torch.save."
        ) from error
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise RecollectError(f"'{path}' holds {_words(state)}, not a state dict of tensors; save net.state_dict().")
    return {str(name): value for name, value in state.items()}


def load_weights(net: nn.Module, state: dict[str, Tensor], origin: str) -> None:
    """Copy ``state`` into ``net``, which takes its precision; half precision becomes float32.

    Of tied weights one name is enough; where the file has several, they must agree.
    """
    lazy = [name for name, value in net.state_dict().items() if is_lazy(value)]
    if lazy:
        raise RecollectError(
            f"'{lazy[0]}' has no shape before the network sees its first input; call the network once where it is made."
        )
    complete = _with_tied(net, state, origin)
    _require_fitting(net, complete, origin)
    try:
        net.to(_precision(state)).load_state_dict(complete)
    # A network of the user's own may have its own idea of a state dict.
    except Exception as error:
        raise RecollectError(
            f"the weights in '{origin}' cannot be put into the network ({type(error).__name__}: "
            f"{' '.join(str(error).split())[:200]}); give the weights of this network."
        ) from error


def _require_fitting(net: nn.Module, state: Mapping[str, Tensor], origin: str) -> None:
    """Every name on both sides, with the same shape; counts of batches may be missing, as PyTorch lets them be."""
    expected = {name: tuple(value.shape) for name, value in net.state_dict().items()}
    found = {name: tuple(value.shape) for name, value in state.items()}
    for name in sorted(expected.keys() | found.keys(), key=str):
        if name not in found and name.rpartition(".")[2] == "num_batches_tracked":
            continue
        if expected.get(name) != found.get(name):
            raise RecollectError(
                f"the weights in '{origin}' do not fit the architecture: '{name}' is "
                f"{found.get(name, 'missing')} there and {expected.get(name, 'unknown')} in the network; "
                "give the weights of this network."
            )


def _precision(state: dict[str, Tensor]) -> torch.dtype:
    """The widest of the file, float32 at least: gradients of gradients need it."""
    floating = [value.dtype for value in state.values() if value.is_floating_point()]
    return reduce(torch.promote_types, floating, torch.float32)


def _with_tied(net: nn.Module, state: dict[str, Tensor], origin: str) -> dict[str, Tensor]:
    complete = dict(state)
    names: dict[int, list[str]] = {}
    for name, parameter in net.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    for tied in names.values():
        given = [name for name in tied if name in state]
        if len(tied) == 1 or not given:
            continue
        first = state[given[0]]
        for other in given[1:]:
            if state[other].shape != first.shape or not torch.equal(state[other], first):
                raise RecollectError(
                    f"'{given[0]}' and '{other}' are one weight in the network and differ in '{origin}'; "
                    "give the weights of this network."
                )
        complete |= dict.fromkeys(tied, first)
    return complete


def _words(held: object) -> str:
    if isinstance(held, dict) and held:
        name, value = next((name, value) for name, value in held.items() if not isinstance(value, Tensor))
        return f"a dict whose {str(name)[:40]!r} is of type {type(value).__name__}"
    return type(held).__name__
