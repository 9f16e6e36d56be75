"""Task, loss and network must suit each other; what is left open in the network follows from the task."""

from __future__ import annotations

from recollect.core import RecollectError
from recollect.zoo.architectures import Architecture
from recollect.zoo.losses import LOSSES, LossName


def fitted(architecture: Architecture, loss: LossName, classes: int | None) -> Architecture:
    """The architecture with its number of outputs: 1 for labels of +-1 (``classes`` is None), one for each class.

    >>> from recollect.zoo import MLPArchitecture
    >>> fitted(MLPArchitecture(), "logistic", None).outputs, fitted(MLPArchitecture(), "cross_entropy", 10).outputs
    (1, 10)
    """
    kind = "signs" if classes is None else "classes"
    if LOSSES[loss].of != kind:
        allowed = ", ".join(name for name, known in LOSSES.items() if known.of == kind)
        labels = "labels of +-1" if classes is None else f"{classes} classes"
        raise RecollectError(
            f"training.loss = '{loss}' does not fit a task with {labels}; set training.loss to {allowed}, or "
            f"data.task to {'classes' if classes is None else 'a binary one'}."
        )
    needed = 1 if classes is None else classes
    if architecture.outputs not in (None, needed):
        raise RecollectError(
            f"model.outputs = {architecture.outputs}, but the loss '{loss}' on this task needs {needed}; leave "
            "model.outputs out, and it follows from the task."
        )
    return architecture.model_copy(update={"outputs": needed})
