"""Networks that are a plain chain of layers, read out of a module: perceptrons, with a convolution in front if any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from torch import Tensor, nn

from recollect.core import RecollectError
from recollect.targets.patches import Patches

_ADVICE = "use the module target instead (--set attack.target=module)."


@dataclass(frozen=True)
class Chain:
    """Parameters as matrices, ``(weight name, bias name or None)`` per layer, and what the first layer sees."""

    params: dict[str, Tensor]
    layers_of: tuple[tuple[str, str | None], ...]
    patches: Patches


def read_chain(module: nn.Module, sample_shape: tuple[int, ...]) -> Chain:
    """The layers of a module made of Flatten, Linear and ReLU, and perhaps a first Conv2d, as they were defined."""
    parts = list(module.named_modules(remove_duplicate=False))  # a block may come twice
    leaves = [(name, part) for name, part in parts if not list(part.children())]
    weighted = [(name, part) for name, part in leaves if isinstance(part, nn.Linear | nn.Conv2d)]
    _require_no_hooks(parts)
    _require_alternation(leaves)
    params: dict[str, Tensor] = dict(module.named_parameters())
    layers_of = tuple(
        (f"{name}.weight".lstrip("."), f"{name}.bias".lstrip(".") if part.bias is not None else None)
        for name, part in weighted
    )
    _require_own_weights([name for pair in layers_of for name in pair if name is not None], params)
    first, patches = weighted[0][1], Patches(tuple(sample_shape))
    if isinstance(first, nn.Conv2d):
        patches = Patches(tuple(sample_shape), (first.kernel_size[0], first.kernel_size[1]))
        kernels, following = layers_of[0][0], layers_of[1][0]
        params[kernels] = params[kernels].flatten(1)
        # Flatten lists channel by channel, patches come patch by patch.
        by_channel = params[following].unflatten(1, (first.out_channels, patches.count))
        params[following] = by_channel.transpose(1, 2).flatten(1)
    return Chain(params, layers_of, patches)


def is_chain(module: nn.Module, sample_shape: tuple[int, ...]) -> bool:
    """Whether the hand-derived target computes what this module computes."""
    try:
        read_chain(module, sample_shape)
    except (RecollectError, RuntimeError, ValueError):  # a chain that does not fit the sample is no chain
        return False
    # A forward method of the user's own may do anything with these layers; only known containers are plain chains.
    return all(
        type(part) is nn.Sequential or getattr(part, "is_plain_chain", False)
        for part in module.modules()
        if list(part.children())
    )


def _require_no_hooks(parts: Sequence[tuple[str, nn.Module]]) -> None:
    """Hooks may change what a part computes, as those of pruning and of weight normalisation do."""
    for name, part in parts:
        if part._forward_hooks or part._forward_pre_hooks or "forward" in vars(part):
            raise RecollectError(f"the MLP target knows nothing of hooks, such as that of '{name}'; {_ADVICE}")


def _require_own_weights(names: Sequence[str], params: Mapping[str, Tensor]) -> None:
    shared = next((name for name in names if name not in params), None)
    if shared is not None:
        raise RecollectError(f"the MLP target needs layers with weights of their own, '{shared}' is none; {_ADVICE}")


def _require_alternation(leaves: Sequence[tuple[str, nn.Module]]) -> None:
    for name, part in leaves:
        if not isinstance(part, nn.Linear | nn.ReLU | nn.Flatten) and not _plain_convolution(part):
            raise RecollectError(
                f"the MLP target needs Flatten, Linear and ReLU layers, found {type(part).__name__} at '{name}'; "
                + _ADVICE
            )
    kinds = [type(part) for _, part in leaves]
    convolved = kinds[:1] == [nn.Conv2d]
    # A convolution's units are flattened after its ReLU, a sample before the first layer.
    place = 2 if convolved else 0
    flat = [index for index, kind in enumerate(kinds) if kind is nn.Flatten]
    without = [kind for kind in kinds if kind is not nn.Flatten]
    first = nn.Conv2d if convolved else nn.Linear
    wanted = [nn.ReLU if index % 2 else first if index == 0 else nn.Linear for index in range(len(without))]
    if without != wanted or without[-1:] != [nn.Linear] or any(index != place for index in flat):
        raise RecollectError(
            "the MLP target needs Linear layers with one ReLU between each two, found "
            f"{', '.join(kind.__name__ for kind in kinds)}; {_ADVICE}"
        )
    linears = [part for _, part in leaves if isinstance(part, nn.Linear)]
    if any(before.out_features != after.in_features for before, after in pairwise(linears)):
        raise RecollectError(f"the MLP target needs layers that fit together; {_ADVICE}")


def _plain_convolution(part: nn.Module) -> bool:
    return (
        isinstance(part, nn.Conv2d)
        and part.stride == (1, 1)
        and part.dilation == (1, 1)
        and part.padding in ((0, 0), "valid")
        and part.groups == 1
    )
