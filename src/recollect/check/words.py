"""What the measurements mean for the attack, one sentence each. No sentence promises safety."""

from __future__ import annotations

from collections.abc import Sequence

from recollect.check.findings import Finding, Task
from recollect.check.homogeneity import FACTORS, Homogeneity
from recollect.check.margins import Margins
from recollect.check.residual import Fit, Residual
from recollect.check.structure import Structure

EXPLAINED, UNEXPLAINED = 0.7, 0.9
"""Relative residuals of a layer. Below the first, samples explain more than half of its squared norm; above the second,
less than a fifth, as with standard initialisation (the demo's network trained from there: 0.97). Rules of thumb."""
_MANY_ERRORS = 0.05


def about_task(task: Task, looks_like_regression: bool, free_sign: bool) -> Finding:
    outputs = "One output" if task.outputs == 1 else f"{task.outputs} outputs"
    kind = "labels +1 and -1" if task.kind == "binary" else f"{task.outputs} classes"
    if not task.guessed:
        return Finding(
            "ok", "task", f"{outputs}: {kind}, trained with the loss '{task.loss}', as the run's configuration says."
        )
    if looks_like_regression and not free_sign:
        return Finding(
            "caution",
            "task",
            f"{outputs} whose values lie close to the labels +1 and -1: taken for a regression loss, which is a guess; "
            "multipliers of such a network have either sign, so look at the residual with --free-sign.",
        )
    ground = "a guess from the output layer" + (" and its values" if looks_like_regression else "")
    return Finding("ok", "task", f"{outputs}: taken for {kind}, trained with {task.loss}; this is {ground}.")


def about_homogeneity(found: Homogeneity) -> Finding:
    if found.degree is None or found.deviation is None:
        return Finding(
            "caution",
            "homogeneity",
            "The network returns zeros, or overflows, at random inputs, so its homogeneity cannot be measured.",
        )
    if found.exact:
        return Finding(
            "ok",
            "homogeneity",
            f"Phi(a theta) = a^{found.degree:.3g} Phi(theta) for a from {FACTORS[0]:g} to {FACTORS[-1]:g}, up to "
            "rounding: the theory's first condition holds.",
        )
    told = f"Phi(a theta) departs from a^{found.degree:.3g} Phi(theta) by up to {found.deviation:.1%}"
    if found.breaking:
        told += f", because of {listed(found.breaking)}"
        return Finding(
            "caution", "homogeneity", f"{told}: the theory holds only roughly, yet networks with such biases leak too."
        )
    return Finding("obstacle", "homogeneity", f"{told}, and not because of biases alone: the theory does not apply.")


def about_structure(found: Structure) -> list[Finding]:
    told = []
    if found.normalisation:
        told.append(
            Finding(
                "obstacle",
                "normalisation",
                f"{listed(found.normalisation)}: gradients in training depended on the batch or were rescaled, which "
                "the KKT equation does not know.",
            )
        )
    if found.other_activations:
        told.append(
            Finding(
                "obstacle",
                "activations",
                f"{listed(found.other_activations)}: not homogeneous, and their derivative is not smoothed.",
            )
        )
    if found.leaky_activations:
        told.append(
            Finding(
                "ok",
                "activations",
                f"{listed(found.leaky_activations)}: homogeneous, and smoothed like ReLU where the slope is fixed.",
            )
        )
    if found.dropout:
        told.append(
            Finding(
                "caution",
                "dropout",
                f"{listed(found.dropout)}: switched off here and in the attack, but not while the network was trained.",
            )
        )
    return told


def about_margins(found: Margins, free_sign: bool) -> list[Finding]:
    told = []
    if found.error > 0:
        level = "obstacle" if found.error > _MANY_ERRORS or found.smallest is None else "caution"
        wrong = round(found.error * found.samples)
        told.append(
            Finding(
                level,
                "training error",
                f"{wrong} of {found.samples} samples are classified wrongly ({found.error:.1%}): the network has not "
                "separated its training set, or the data are not as it saw them (their mean is removed unless "
                "--keep-mean is given).",
            )
        )
    else:
        told.append(Finding("ok", "training error", f"All {found.samples} samples are classified correctly."))
    if free_sign:
        told.append(
            Finding("ok", "margins", "With a regression loss every sample that is not fitted exactly has a multiplier.")
        )
    elif found.smallest is not None:
        told.append(
            Finding(
                "caution" if found.error > 0 else "ok",
                "margins",
                f"The smallest positive one is {found.smallest:.3g}; {found.within_tenth} of {found.samples} samples "
                f"lie within 10% of it and {found.within_twice} within twice: by the theory these shaped the weights, "
                "and those far from it did not.",
            )
        )
    return told


def about_residual(found: Residual, first_size: int, samples: int) -> list[Finding]:
    """``first_size``: parameters of the first layer; ``samples``: all there are."""
    first = found.first_layer.relative
    some = f"the {found.samples} of smallest margin among {samples}" if found.samples < samples else f"all {samples}"
    if found.samples >= first_size:
        return [
            Finding(
                "caution",
                "KKT residual",
                f"{found.samples} samples meet {first_size} parameters in the first layer: a small residual means "
                "nothing there.",
            )
        ]
    level = "ok" if first < EXPLAINED else "caution" if first < UNEXPLAINED else "obstacle"
    meaning = {
        "ok": "these samples explain most of it",
        "caution": "much of it is something else, such as initial noise",
        "obstacle": "something else outweighs these samples, such as initial noise, and makes them harder to find",
    }[level]
    told = [
        Finding(
            level,
            "KKT residual",
            f"The best multipliers of {some} samples leave {first:.2f} of the first layer unexplained (0 is all, 1 is "
            f"nothing explained): {meaning}.",
        )
    ]
    if len(found.all_layers.per_layer) > 1:
        told.append(_about_all_layers(first, found.all_layers))
    return told


def _about_all_layers(first: float, found: Fit) -> Finding:
    told = f"All layers together leave {found.relative:.2f} unexplained"
    if found.relative < EXPLAINED or first > 0.8 * found.relative:
        level = "ok" if found.relative < EXPLAINED else "caution" if found.relative < UNEXPLAINED else "obstacle"
        return Finding(level, "other layers", f"{told}.")
    worst = max(found.per_layer, key=lambda layer: found.per_layer[layer] or 0.0)
    weights = ", ".join(["1", *["0"] * (len(found.per_layer) - 1)])
    return Finding(
        "caution",
        "other layers",
        f"{told}, '{worst}' most of all, as layers do that keep their initial noise; let the attack use the first "
        f"layer alone (--set 'attack.layer_weights=[{weights}]').",
    )


def closing(findings: Sequence[Finding], with_data: bool) -> str:
    """Never a promise."""
    obstacles = [finding.topic for finding in findings if finding.level == "obstacle"]
    cautions = [finding.topic for finding in findings if finding.level == "caution"]
    if obstacles:
        told = f"The KKT attack meets obstacles here ({listed(obstacles)}); other attacks do not need what it needs."
    elif cautions:
        told = f"The KKT attack is worth running; what it rests on holds in part ({listed(cautions)})."
    else:
        told = "The KKT attack is worth running: what it rests on holds as far as it was tested."
    told += "" if with_data else " Margins and the KKT residual need the training data, which were not given."
    return f"{told} Nothing found here does not mean that nothing leaks."


def listed(names: Sequence[str], most: int = 4) -> str:
    """
    >>> listed(["a", "b"]), listed(["a", "b", "c", "d", "e", "f"])
    ('a, b', 'a, b, c, d and 2 more')
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
