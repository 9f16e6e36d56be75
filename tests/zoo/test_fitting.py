"""Which task, loss and network suit each other."""

from __future__ import annotations

import pytest

from recollect.core import RecollectError
from recollect.zoo import Architecture, ConvArchitecture, MLPArchitecture, fitted
from recollect.zoo.losses import LOSSES, LossName


@pytest.mark.parametrize("architecture", [MLPArchitecture(hidden=(3,)), ConvArchitecture(kernel=5)])
@pytest.mark.parametrize("loss", LOSSES)
def test_outputs_follow_from_the_task(architecture: Architecture, loss: LossName) -> None:
    classes = 7 if loss == "cross_entropy" else None
    ready = fitted(architecture, loss, classes)
    assert ready.outputs == (classes or 1)
    assert ready.model_copy(update={"outputs": None}) == architecture
    assert fitted(ready, loss, classes) == ready


@pytest.mark.parametrize("loss", LOSSES)
def test_a_loss_for_other_labels_is_refused(loss: LossName) -> None:
    classes = None if loss == "cross_entropy" else 3
    labels = "labels of +-1" if classes is None else "3 classes"
    with pytest.raises(RecollectError) as caught:
        fitted(MLPArchitecture(), loss, classes)
    assert f"training.loss = '{loss}' does not fit a task with {labels}; set training.loss to " in str(caught.value)


@pytest.mark.parametrize(("loss", "classes", "outputs", "needed"), [("l2", None, 2, 1), ("cross_entropy", 10, 3, 10)])
def test_another_number_of_outputs_is_refused(loss: LossName, classes: int | None, outputs: int, needed: int) -> None:
    with pytest.raises(RecollectError) as caught:
        fitted(MLPArchitecture(outputs=outputs), loss, classes)
    assert f"model.outputs = {outputs}, but the loss '{loss}' on this task needs {needed}; leave" in str(caught.value)
