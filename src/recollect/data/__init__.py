"""Reference data: what was trained on and what was held out. It judges a search and never steers it."""

from recollect.data.images import LabelledImages
from recollect.data.sources import load
from recollect.data.tasks import TaskData, heldout_set, training_set
from recollect.data.toy import circle, clouds

__all__ = ["LabelledImages", "TaskData", "circle", "clouds", "heldout_set", "load", "training_set"]
