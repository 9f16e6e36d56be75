"""Numbers that say what generated images are: as asked for, diverse, like real images, nearer to training images."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from recollect.analysis import (
    agreement,
    density_and_coverage,
    feature_similarity,
    frechet_distance,
    member_advantage,
    nearest_label,
    nearest_ncc,
    similarity_within_classes,
)
from recollect.analysis.membership import class_means
from recollect.data import TaskData
from recollect.features import features_of
from recollect.stages.independent import Panel
from recollect.zoo import outputs_of

_MOST = 2000
"""Images of either kind that membership is judged by."""

_NEIGHBOURS = 5
"""As in the paper that introduced density and coverage."""

Scores = dict[str, float | None]


@dataclass(frozen=True)
class Scene:
    """The attacked network with the layer of its features, what it was trained on, and who judges."""

    net: nn.Module
    features: str | None
    training: TaskData | None
    panel: Panel

    @property
    def held_out(self) -> Tensor | None:
        return None if self.panel.held_out is None else self.panel.held_out.images

    def network_sees(self, images: Float[Tensor, "k ..."]) -> Float[Tensor, "k ..."]:
        return images if self.training is None else images - self.training.mean.to(images)


def scores_of(images: Float[Tensor, "m ..."], labels: Int[Tensor, " m"], scene: Scene) -> Scores:
    seen = scene.network_sees(images)
    own = features_of(scene.net, seen, scene.features)
    scores: Scores = {
        "label_agreement": float(agreement(outputs_of(scene.net, seen).double(), labels)),
        "feature_cosine": float(feature_similarity(own)),
        "class_feature_cosine": similarity_within_classes(own, labels),
    }
    for place, (name, judge) in enumerate(scene.panel.judges.items()):
        right = float(agreement(outputs_of(judge.net, images).double(), labels))
        scores["attack_accuracy" if place == 0 else f"attack_accuracy_{name}"] = right
    if scene.panel.unseen is not None:
        others = scene.panel.unseen
        neighbours = nearest_label(images, others.images.to(images), others.y.to(labels.device))
        scores["attack_accuracy_neighbour"] = float((neighbours == labels).double().mean())
    return scores | _distances(images, scene)


def _distances(images: Float[Tensor, "m ..."], scene: Scene) -> Scores:
    """Between sets of images, in the features of the first judge; and nearness to training images."""
    if scene.training is None:
        return {}
    training = scene.training.images.to(images)
    scores: Scores = {"nearest_training_ncc": float(nearest_ncc(images, training).mean())}
    if scene.panel.judges and scene.held_out is not None and len(scene.held_out) > 1:
        made, members, others = (_independent(scene, part) for part in _alike(images, training, scene.held_out))
        scores |= {"frechet_training": frechet_distance(made, members)}
        scores |= {"frechet_held_out": frechet_distance(made, others)}
        scores |= _coverage(images, scene)
    return scores | {name: value for name, value in membership(images, scene).items() if name == "member_advantage"}


def membership(images: Float[Tensor, "k ..."], scene: Scene) -> Scores:
    """Are images nearer to training images than to as many held-out ones?

    Less the mean of the training set, where that was taken away: it holds a part of each training image.
    """
    if scene.training is None or scene.panel.held_out is None:
        return {}
    members, others = (_some(part.x, _MOST).to(images) for part in (scene.training, scene.panel.held_out))
    found = member_advantage(scene.network_sees(images), members, others)
    return {
        "member_advantage": found.mean,
        "member_advantage_low": found.low,
        "member_advantage_high": found.high,
        "member_share": found.share,
        "member_luck": found.luck,
    }


def real_images(scene: Scene, m: int, device: torch.device) -> Scores:
    """What the numbers must be read against: real images under the same judges, in sets of the same size."""
    known: Scores = {f"held_out_accuracy_{name}": judge.held_out_accuracy for name, judge in scene.panel.judges.items()}
    if scene.training is None:
        return known
    some = torch.randperm(len(scene.training.x), generator=torch.Generator().manual_seed(0))[:m]
    seen = features_of(scene.net, scene.training.x[some].to(device), scene.features)
    known["real_feature_cosine"] = float(feature_similarity(seen))
    known["real_class_feature_cosine"] = similarity_within_classes(seen, scene.training.y[some].to(device))
    training = scene.training.images.to(device)
    means = class_means(training, scene.training.y.to(device))
    known["class_means_ncc"] = float(nearest_ncc(means, training).mean())
    if scene.held_out is not None:
        real = _some(scene.held_out, _MOST).to(device)
        known["held_out_ncc"] = float(nearest_ncc(real, training).mean())
        if scene.panel.judges:
            size = min(m, len(training), len(real))
            members, others = (_independent(scene, _some(part, size)) for part in (training, real))
            if size > 1:
                known["real_frechet"] = frechet_distance(members, others)
            known |= {f"real_{name}": value for name, value in _coverage(training[some], scene).items()}
    return known


def _coverage(images: Float[Tensor, "k ..."], scene: Scene) -> Scores:
    """Among all held-out images: the more there are, the nearer their neighbours."""
    if scene.held_out is None or len(scene.held_out) <= _NEIGHBOURS:
        return {}
    made, real = (_independent(scene, part) for part in (images, _some(scene.held_out, _MOST).to(images)))
    density, coverage = density_and_coverage(made, real, _NEIGHBOURS)
    return {"density": density, "coverage": coverage}


def _independent(scene: Scene, images: Tensor) -> Tensor:
    return features_of(next(iter(scene.panel.judges.values())).net, images)


def _alike(*sets: Float[Tensor, "k ..."]) -> list[Float[Tensor, "k ..."]]:
    """Random parts of one size: distances between sets depend on how many images there are."""
    size = min(len(images) for images in sets)
    return [_some(images, size).to(sets[0]) for images in sets]


def _some(images: Float[Tensor, "k ..."], most: int) -> Float[Tensor, "l ..."]:
    """A random part, always the same one."""
    if len(images) <= most:
        return images
    rows = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))[:most]
    return images[rows.to(images.device)]
