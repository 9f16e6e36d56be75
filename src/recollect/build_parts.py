"""What a search moves, how it moves, and what it knows beforehand: built from the configuration by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from recollect.candidates import Boxed, DeepImagePrior, Pixels, RowSpace, invariant_basis, signal_basis
from recollect.config import AttackConfig
from recollect.core import Candidates, Optimiser, RecollectError, Target, TrialRng
from recollect.given import NOTHING, Given
from recollect.groups import Group
from recollect.optimisers import Adam, Momentum, SameGD
from recollect.priors import Asymmetry, Box, Prior, Variation
from recollect.sharing import sum_across
from recollect.symmetries import chosen_group
from recollect.targets import MLPTarget, SymmetrisedTarget, inside, is_perceptron
from recollect.zoo.symmetrised import Symmetrised

Settings = dict[str, Tensor]
"""Each trial setting as a ``[T]`` tensor."""


@dataclass(frozen=True)
class Search:
    """What the parts have in common."""

    attack: AttackConfig
    settings: Settings
    rng: TrialRng
    group: Group
    half: bool
    given: Given

    @classmethod
    def of(
        cls,
        net: nn.Module,
        sample_shape: tuple[int, ...],
        attack: AttackConfig,
        rng: TrialRng,
        half: bool,
        given: Given = NOTHING,
    ) -> Search:
        names = type(attack.trials[0]).model_fields
        values = {name: [getattr(trial, name) for trial in attack.trials] for name in names}
        settings = {name: torch.tensor(value, dtype=rng.dtype, device=rng.device) for name, value in values.items()}
        group = chosen_group(attack.group, net, sample_shape)
        return cls(attack, settings, rng, group.to(settings["lr_x"]), half, given)


def attacked(net: nn.Module, attack: AttackConfig) -> nn.Module:
    """The network itself, or the one inside an average over a group (``attack.asymmetry.unfold``).

    ``theta = sum_i lambda_i / |G| sum_g y_i grad Phi(g x_i)`` is the condition of an ordinary network trained on whole
    orbits: its candidates are free to be any element of an orbit, and no symmetry binds their steps.
    """
    if not attack.asymmetry.unfold:
        return net
    if not isinstance(net, Symmetrised):
        raise RecollectError(
            "attack.asymmetry.unfold needs a network averaged over a group (model.group), this is none; leave it out."
        )
    return net.net


def _start(search: Search) -> tuple[Group, float] | None:
    """How the noise at the start is made less symmetric, where that is asked for."""
    factor = search.attack.asymmetry.init
    if factor == 1 or search.attack.group == "trivial":
        return None
    _require_group(search, "init")
    return search.group, factor


def _require_usual_start(search: Search) -> None:
    if search.attack.asymmetry.init != 1:
        raise RecollectError(
            "attack.asymmetry.init changes the samples that a search starts from, attack.space = "
            f"'{search.attack.space}' starts from something else; leave it out."
        )


def _require_group(search: Search, setting: str) -> None:
    if search.group.trivial:
        raise RecollectError(
            f"attack.asymmetry.{setting} works against a symmetry, and this network names none; name it with --set "
            "attack.group=flip or another, or leave it out."
        )


def _pixels(search: Search, target: Target) -> tuple[Candidates, Target]:
    return Pixels(search.attack.candidates, target.sample_shape, search.settings["init_scale"], _start(search)), target


def _boxed(search: Search, target: Target) -> tuple[Candidates, Target]:
    scale = search.settings["init_scale"]
    mean = search.given.needed_mean("attack.space = 'box'", target.sample_shape).to(scale)
    return Boxed(search.attack.candidates, target.sample_shape, scale, _start(search), mean=mean), target


def row_basis(target: Target, max_rank: int) -> Float[Tensor, "d r"]:
    """The directions that a search in the row space moves along; their number suits matrix products on GPUs."""
    inner, _ = inside(target)
    if not is_perceptron(inner):
        raise RecollectError(
            "the row space is that of an MLP's first layer, this network is no plain MLP; use --set attack.space=full."
        )
    if not isinstance(target, SymmetrisedTarget):
        return signal_basis(inner.first_weight, max_rank, multiple=8)
    if not target.group.whole:
        raise RecollectError(
            f"elements drawn at random from '{target.group.name}' move what they are given out of any row space; use "
            "--set attack.space=full."
        )
    return invariant_basis(inner.first_weight, target.group, max_rank, multiple=8)


def _row_space(search: Search, target: Target) -> tuple[Candidates, Target]:
    _require_usual_start(search)
    attack, scale = search.attack, search.settings["init_scale"]
    known = search.given.basis
    basis = row_basis(target, attack.max_rank) if known is None else known.to(search.rng.device)
    assert isinstance(target, MLPTarget | SymmetrisedTarget)
    shape = target.sample_shape
    share = 1.0 if attack.variation_weight else attack.exposed_share  # only the box spares most candidates
    candidates = RowSpace(attack.candidates, shape, scale, basis, share, search.half)
    return candidates, target.in_subspace(basis)


def _deep_image_prior(search: Search, target: Target) -> tuple[Candidates, Target]:
    _require_usual_start(search)
    attack, chosen = search.attack, search.attack.dip
    candidates = DeepImagePrior.drawn(
        attack.candidates,
        target.sample_shape,
        search.settings["init_scale"],
        search.rng,
        chosen.channels,
        chosen.networks,
        chosen.offset,
        sum_across(),
    )
    if chosen.offset == "mean":
        mean = search.given.needed_mean("attack.dip.offset = 'mean'", target.sample_shape)
        candidates = replace(candidates, mean=mean.to(search.settings["init_scale"]))
    return candidates, target


SPACES: dict[str, Callable[[Search, Target], tuple[Candidates, Target]]] = {
    "full": _pixels,
    "box": _boxed,
    "row": _row_space,
    "dip": _deep_image_prior,
}
"""Candidates, and the target as they see it."""


def _momentum(search: Search, lr: Settings) -> Momentum:
    return Momentum(lr, search.attack.momentum)


def _adam(search: Search, lr: Settings) -> Adam:
    return Adam(lr, search.attack.adam_betas)


def _same_gd(search: Search, lr: Settings) -> SameGD:
    if search.attack.space != "full":
        raise RecollectError(
            f"same_gd moves samples themselves, attack.space = '{search.attack.space}' does not; use --set "
            "attack.space=full."
        )
    chosen = search.attack.same_gd
    return SameGD(
        _momentum(search, lr),
        search.group,
        search.attack.steps,
        chosen.update_every,
        chosen.save_every,
        chosen.alpha,
        chosen.beta,
        chosen.schedule,
        chosen.memory,
    )


OPTIMISERS: dict[str, Callable[[Search, Settings], Optimiser]] = {
    "momentum": _momentum,
    "adam": _adam,
    "same_gd": _same_gd,
}


def optimiser_for(search: Search, candidates: Candidates) -> Optimiser:
    """Every variable of the candidates has one rate, the multipliers another."""
    lr = dict.fromkeys(candidates.names, search.settings["lr_x"]) | {"duals": search.settings["lr_duals"]}
    return OPTIMISERS[search.attack.optimiser](search, lr)


def priors_for(search: Search, sample_shape: tuple[int, ...]) -> dict[str, Prior]:
    """The box where values could leave it, smoothness where asked for, and what the asymmetry section asks for."""
    attack, asymmetry = search.attack, search.attack.asymmetry
    priors: dict[str, Prior] = {}
    if attack.box_weight and attack.space not in ("dip", "box"):  # whose values cannot leave it
        priors["box"] = Box(attack.box_weight, *attack.box)
    if attack.variation_weight:
        if len(sample_shape) != 3:
            raise RecollectError(
                f"attack.variation_weight is for images [channels, height, width], the samples have shape "
                f"{list(sample_shape)}; leave it out."
            )
        priors["variation"] = Variation(attack.variation_weight)
    if asymmetry.weight and attack.group != "trivial":
        _require_group(search, "weight")
        priors["asymmetry"] = Asymmetry(search.group, asymmetry.weight, asymmetry.share)
    return priors
