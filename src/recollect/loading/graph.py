"""The graph of a ``torch.export`` program: a list of PyTorch's operations, walked one by one.

Only operations that compute are known; none that reads, writes, loads or compiles. The schema is that of
``torch._export.serde.schema`` (PyTorch 2.11 to 2.13), read with nothing but JSON.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from recollect.loading.plain import NotPlainError

DTYPES = {
    1: torch.uint8,
    2: torch.int8,
    3: torch.int16,
    4: torch.int32,
    5: torch.int64,
    6: torch.float16,
    7: torch.float32,
    8: torch.float64,
    12: torch.bool,
    13: torch.bfloat16,
}
"""``ScalarType`` of the schema; complex and quantised numbers are left out."""

LARGEST_WALK = 2**28
"""Values that all operations together may make from one input: ten times those of a large image classifier."""

_COMPUTING = """
    linear matmul mm bmm addmm baddbmm conv1d conv2d conv3d convolution conv_transpose1d conv_transpose2d
    batch_norm native_batch_norm _native_batch_norm_legit_no_training layer_norm native_layer_norm group_norm
    native_group_norm instance_norm rms_norm dropout dropout_ feature_dropout alpha_dropout native_dropout
    relu relu_ relu6 leaky_relu leaky_relu_ prelu _prelu_kernel rrelu elu elu_ selu celu gelu silu silu_ mish tanh
    sigmoid hardtanh hardtanh_ hardswish hardswish_ hardsigmoid softplus threshold threshold_ clamp clamp_ clamp_min
    clamp_min_ clamp_max maximum minimum where softmax _softmax log_softmax _log_softmax log_sigmoid glu
    add add_ sub sub_ mul mul_ div div_ neg abs exp log sqrt rsqrt pow square sign sin cos reciprocal
    gt ge lt le eq ne logical_not logical_and masked_fill
    sum mean amax amin max min var std norm linalg_vector_norm cumsum
    max_pool1d max_pool2d max_pool3d max_pool2d_with_indices avg_pool1d avg_pool2d avg_pool3d
    adaptive_avg_pool1d adaptive_avg_pool2d _adaptive_avg_pool2d adaptive_max_pool2d
    upsample_nearest2d upsample_bilinear2d pixel_shuffle constant_pad_nd pad
    view _unsafe_view reshape flatten unflatten permute transpose t squeeze unsqueeze expand contiguous clone alias
    detach detach_ lift_fresh_copy select slice narrow index_select chunk split split_with_sizes unbind cat stack flip
    to _to_copy type_as scaled_dot_product_attention
"""
_OPERATIONS = frozenset(_COMPUTING.split())
_NUMBERS = ("add", "sub", "mul", "floordiv", "neg", "mod", "getitem")
_ON_NUMBERS: dict[str, Callable[..., Any]] = {f"_operator.{name}": getattr(operator, name) for name in _NUMBERS}
_NOTHING = frozenset(
    {"_assert_tensor_metadata", "sym_constrain_range", "sym_constrain_range_for_size", "_assert_scalar"}
)
_TARGET = re.compile(r"torch\.ops\.aten\.(\w+)\.(\w+)", re.ASCII)
_TRAINING = frozenset({"training", "train", "use_input_stats"})


@dataclass(frozen=True)
class Step:
    """One operation: arguments in the JSON of the schema, and the names of what it makes."""

    function: Callable[..., Any]
    positional: tuple[dict[str, Any], ...]
    named: dict[str, dict[str, Any]]
    made: tuple[str, ...]
    several: bool


@dataclass(frozen=True)
class Graph:
    steps: tuple[Step, ...]
    parameters: dict[str, str]
    """Name within the graph to name within the network."""
    buffers: dict[str, str]
    """Buffers and constants, likewise."""
    entrance: str
    exit: str
    sample_shape: tuple[int, ...]
    rows: int | None
    """Inputs that the program takes at once; None where it takes any number."""

    def __call__(self, x: Tensor, held: Mapping[str, Tensor]) -> Tensor:
        values: dict[str, Any] = {**held, self.entrance: x}
        left = LARGEST_WALK * max(1, len(x))
        for step in self.steps:
            positional = [_argument(value, values, x) for value in step.positional]
            named = {name: _argument(value, values, x) for name, value in step.named.items()}
            result = step.function(*positional, **named)
            results = result if step.several else [result]
            left -= sum(one.numel() for one in results if isinstance(one, Tensor))
            if left < 0:
                raise NotPlainError(f"its operations make more than {LARGEST_WALK:,} values of one input")
            values.update(zip(step.made, results, strict=False))
        return values[self.exit]


def read_graph(description: dict[str, Any]) -> Graph:
    graph, signature = (description["graph_module"][key] for key in ("graph", "signature"))
    parameters: dict[str, str] = {}
    buffers: dict[str, str] = {}
    inputs: list[str] = []
    for spec in signature["input_specs"]:
        match spec:
            case {"parameter": {"arg": {"name": str(own)}, "parameter_name": str(name)}}:
                parameters[own] = name
            case {"buffer": {"arg": {"name": str(own)}, "buffer_name": str(name)}}:
                buffers[own] = name
            case {"tensor_constant": {"arg": {"name": str(own)}, "tensor_constant_name": str(name)}}:
                buffers[own] = name
            case {"user_input": {"arg": {"as_tensor": {"name": str(own)}}}}:
                inputs.append(own)
            case _:
                raise NotPlainError(f"it needs {', '.join(spec)[:80]}, and only tensors can be given")
    outputs = [spec["user_output"]["arg"] for spec in signature["output_specs"] if "user_output" in spec]
    if len(inputs) != 1 or len(outputs) != 1:
        raise NotPlainError(f"it has {len(inputs)} inputs and {len(outputs)} outputs, and there must be one of each")
    steps = tuple(step for node in graph["nodes"] for step in _step(node))
    rows, sample_shape = _sizes(graph["tensor_values"][inputs[0]]["sizes"])
    return Graph(steps, parameters, buffers, inputs[0], outputs[0]["as_tensor"]["name"], sample_shape, rows)


def _sizes(sizes: list[dict[str, Any]]) -> tuple[int | None, tuple[int, ...]]:
    rows = sizes[0].get("as_int") if sizes else 0
    if rows is not None and rows != 1:
        raise NotPlainError(f"it takes exactly {rows} inputs at once, and any number is needed")
    shape = tuple(size.get("as_int", 0) for size in sizes[1:])
    if not all(type(length) is int and 0 < length < 2**31 for length in shape):
        raise NotPlainError("more than the first axis of its input is dynamic")
    return rows, shape


def _step(node: dict[str, Any]) -> list[Step]:
    target = node["target"]
    found = _TARGET.fullmatch(target)
    if found and found[1] in _NOTHING:
        return []
    if target in _ON_NUMBERS:
        function = _ON_NUMBERS[target]
    elif target == "torch.ops.aten.sym_size.int":
        function = Tensor.size  # the operation itself has no rule for vmap
    elif found and found[1] in _OPERATIONS:
        function = getattr(getattr(torch.ops.aten, found[1]), found[2])
    else:
        raise NotPlainError(f"it uses {target[:80]!r}, which is not among the operations that are known to be harmless")
    named = {entry["name"]: entry["arg"] for entry in node["inputs"] if entry.get("kind") == 2}
    positional = tuple(
        {"as_bool": False} if entry["name"] in _TRAINING else entry["arg"]
        for entry in node["inputs"]
        if entry.get("kind") != 2
    )
    made, several = _made(node["outputs"])
    return [Step(function, positional, named, made, several)]


def _made(outputs: list[dict[str, Any]]) -> tuple[tuple[str, ...], bool]:
    if len(outputs) == 1 and "as_tensors" in outputs[0]:
        return tuple(one["name"] for one in outputs[0]["as_tensors"]), True
    names = [next(iter(one.values())) for one in outputs]
    own = [str(name.get("name") or name.get("as_name")) if isinstance(name, dict) else "" for name in names]
    return tuple(own), len(own) > 1


def _argument(given: dict[str, Any], values: Mapping[str, Any], x: Tensor) -> Any:
    ((kind, value),) = given.items()
    if kind in _AS_WRITTEN:
        return value
    if kind not in _MEANING:
        raise NotPlainError(f"an operation has an argument of the kind {kind[:40]!r}")
    return _MEANING[kind](value, values, x)


def _number(value: dict[str, Any], values: Mapping[str, Any]) -> int:
    return value["as_int"] if "as_int" in value else values[value["as_name"]]


def _dtype(value: int, x: Tensor) -> torch.dtype:
    """The whole network runs in one precision, that of its input."""
    dtype = DTYPES[value]
    return x.dtype if dtype.is_floating_point else dtype


_AS_WRITTEN = frozenset({"as_int", "as_ints", "as_float", "as_floats", "as_bool", "as_bools", "as_string"})
_MEANING: dict[str, Callable[[Any, Mapping[str, Any], Tensor], Any]] = {
    "as_none": lambda value, values, x: None,
    "as_memory_format": lambda value, values, x: None,
    "as_layout": lambda value, values, x: None,
    "as_tensor": lambda value, values, x: values[value["name"]],
    "as_tensors": lambda value, values, x: [values[one["name"]] for one in value],
    "as_optional_tensor": lambda value, values, x: _argument(value, values, x),
    "as_sym_int": lambda value, values, x: _number(value, values),
    "as_sym_ints": lambda value, values, x: [_number(one, values) for one in value],
    "as_scalar_type": lambda value, values, x: _dtype(value, x),
    "as_device": lambda value, values, x: x.device,
}
