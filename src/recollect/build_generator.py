"""The attack by a conditioned generator, built from the configuration: one problem, as for any other attack."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from recollect.build_parts import Search
from recollect.candidates import Generator
from recollect.config import AttackConfig
from recollect.core import RecollectError, TrialRng
from recollect.counter_random import TrialStreams
from recollect.objectives import Inversion, Inverting
from recollect.objectives.cotangents import balanced_labels
from recollect.optimisers import Adam
from recollect.problem import Problem
from recollect.sharing import shared
from recollect.targets import ClassifierTarget


def build_generator_problem(
    net: nn.Module,
    sample_shape: tuple[int, ...],
    attack: AttackConfig,
    seed: int,
    device: torch.device,
    share: Sequence[int],
) -> Problem:
    """``attack.trials`` are those of ``share``, whose numbers decide what they draw."""
    if shared():
        raise RecollectError(
            "generators run in one process; start it without torchrun, --device cuda:all spreads them over all GPUs."
        )
    dtype = torch.float64 if attack.precision == "fp64" else torch.float32
    rng = TrialRng(seed, tuple(share), dtype, device)
    search = Search.of(net, sample_shape, attack, rng, half=False)
    classifier = ClassifierTarget(net, sample_shape, attack.generator.features, dtype, device)
    generator = _generator(attack, classifier, rng)
    loss = _loss(attack, rng)
    loss.require_possible(classifier)
    rates = dict.fromkeys(generator.names, search.settings["lr_x"])
    return Problem(
        target=classifier,
        objective=Inverting(loss, generator, classifier, attack.trials_at_once),
        candidates=generator,
        optimiser=Adam(rates, attack.generator.betas),
        labels=generator.labels,
        rng=rng,
        steps=attack.steps,
        priors={},
        schedule=attack.schedule,
        precision=attack.precision,
        # torch.compile cannot differentiate twice (2.13); without the gradient norm two minutes of it save a tenth.
        compiled=False,
        stall=attack.stall,
        memory_limit=attack.memory_limit,
    )


def _generator(attack: AttackConfig, classifier: ClassifierTarget, rng: TrialRng) -> Generator:
    chosen = attack.generator
    made = Generator(
        batch=chosen.batch,
        sample_shape=classifier.sample_shape,
        classes=classifier.classes,
        streams=TrialStreams.of(rng),
        labels=balanced_labels(attack.candidates, classifier.classes).to(rng.device),
        conditioning=chosen.conditioning,
        hot=chosen.conditions_are_hot,
        latent=chosen.latent,
        width=chosen.width,
        dropout=chosen.dropout,
        bounded=chosen.bounded,
    )
    _ = made.plan  # says what does not fit before anything is searched
    return made


def _loss(attack: AttackConfig, rng: TrialRng) -> Inversion:
    chosen, blank = attack.generator, torch.ones(len(rng.trials), dtype=rng.dtype, device=rng.device)
    return Inversion(
        weights={name: weight * blank for name, weight in chosen.term_weights.items()},
        radius=chosen.radius * blank,
        streams=TrialStreams.of(rng),
        perturbation=chosen.perturbation,
    )
