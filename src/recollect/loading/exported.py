"""``torch.export`` programs (.pt2) as networks, without PyTorch's loader.

`torch.export.load` unpickles constants and sample inputs, evaluates symbolic expressions and compiles guards that stand
in the file as text: each of these can run code. Here the numbers are read as bytes, the graph as JSON, and the graph is
walked by `recollect.loading.graph`; the other members of the archive are never opened.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from recollect.core import RecollectError
from recollect.loading.graph import DTYPES, Graph, read_graph
from recollect.loading.plain import NotPlainError, from_bytes, view_of
from recollect.loading.zipped import Stored, opened

_NAME = re.compile(r"\w+(\.\w+)*", re.ASCII)


class ExportedNetwork(nn.Module):
    """A graph of PyTorch's own operations; parameters and buffers have the names they had before the export."""

    def __init__(self, graph: Graph, held: dict[str, Tensor]) -> None:
        super().__init__()
        self.exported_graph = graph
        made: dict[tuple, nn.Parameter] = {}  # tied weights are one parameter under several names
        for name in graph.parameters.values():
            value = held[name]
            place = (value.data_ptr(), value.shape, value.stride())
            _hang(self, name, made.setdefault(place, nn.Parameter(value, requires_grad=value.is_floating_point())))
        for name in graph.buffers.values():
            _hang(self, name, held[name])

    def forward(self, x: Tensor) -> Tensor:
        graph = self.exported_graph
        held = {own: _at(self, name) for own, name in {**graph.parameters, **graph.buffers}.items()}
        if graph.rows == 1:  # exported with one input: the graph has that number built in
            return torch.func.vmap(lambda row: graph(row.unsqueeze(0), held).squeeze(0))(x)
        return graph(x, held)


def read_exported(path: str | os.PathLike[str]) -> ExportedNetwork:
    """The network of a ``.pt2`` file, in evaluation mode."""
    try:
        with opened(path) as archive:
            stem, description = _description(archive)
            graph = read_graph(description)
            held = dict(_tensors(archive, stem, "weights")) | dict(_tensors(archive, stem, "constants"))
        network = ExportedNetwork(graph, held).eval()
        _walk_without_numbers(network)
    except (NotPlainError, RecollectError) as error:
        raise RecollectError(
            f"'{os.fspath(path)}' cannot be read as a torch.export program: {error}; export the network in evaluation "
            "mode with one input, a dynamic first axis and PyTorch 2.11 or newer, or give --module and its state dict."
        ) from error
    # A damaged file may raise almost anything.
    except Exception as error:
        raise RecollectError(
            f"'{os.fspath(path)}' cannot be read as a torch.export program, it is damaged ({type(error).__name__}); "
            "export the network again."
        ) from error
    return network


def _description(archive: Stored) -> tuple[str, dict[str, Any]]:
    found = [name for name in archive.members if re.fullmatch(r"[^/]*/models/[^/]*\.json", name)]
    if len(found) != 1:
        raise NotPlainError(f"it holds {len(found)} programs, and there must be one")
    prefix = found[0].partition("/")[0]
    order = f"{prefix}/byteorder"
    if order in archive.members and archive.read_description(order) != b"little":
        raise NotPlainError("its numbers have the byte order of other machines")
    return found[0].removesuffix(".json"), json.loads(archive.read_description(found[0]))


def _tensors(archive: Stored, stem: str, kind: str) -> Iterator[tuple[str, Tensor]]:
    prefix, _, model = stem.split("/")
    config = f"{prefix}/data/{kind}/{model}_{kind}_config.json"
    if config not in archive.members:
        return
    storages: dict[str, Tensor] = {}
    for name, payload in json.loads(archive.read_description(config))["config"].items():
        if payload["use_pickle"]:
            raise NotPlainError(f"'{name[:80]}' is a pickled object, which could run code")
        path, meta = payload["path_name"], payload["tensor_meta"]
        dtype = DTYPES.get(meta["dtype"])
        if dtype is None or meta["layout"] != 7:  # Layout.Strided
            raise NotPlainError(f"'{name[:80]}' is no plain dense tensor")
        if path not in storages:
            storages[path] = from_bytes(archive.read(f"{prefix}/data/{kind}/{path}"), dtype, f"'{name[:80]}'")
        sizes, strides = ([one["as_int"] for one in meta[key]] for key in ("sizes", "strides"))
        yield name, view_of(storages[path].view(dtype), sizes, strides, meta["storage_offset"]["as_int"], name[:80])


def _walk_without_numbers(network: ExportedNetwork) -> None:
    """Every operation once, on tensors that have a shape and no memory: a graph that asks for too much stops here."""
    held = dict(network.named_parameters()) | dict(network.named_buffers())
    empty = {name: torch.empty_like(value, device="meta") for name, value in held.items()}
    dtype = next((value.dtype for value in empty.values() if value.is_floating_point()), torch.float32)
    x = torch.empty(2, *network.exported_graph.sample_shape, device="meta", dtype=dtype)
    with torch.no_grad():
        functional_call(network, empty, (x,))


def _hang(root: nn.Module, name: str, value: Tensor) -> None:
    """Put a tensor where ``root.a.b`` finds it."""
    if not _NAME.fullmatch(name):
        raise NotPlainError(f"{name[:80]!r} is no name of a tensor")
    *path, own = name.split(".")
    for part in path:
        if part not in root._modules:
            root.add_module(part, nn.Module())
        root = root.get_submodule(part)
    if isinstance(value, nn.Parameter):
        root.register_parameter(own, value)
    else:
        root.register_buffer(own, value)


def _at(root: nn.Module, name: str) -> Tensor:
    path, _, own = name.rpartition(".")
    return getattr(root.get_submodule(path), own)
