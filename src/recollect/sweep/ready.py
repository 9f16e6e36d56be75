"""What a sweep needs is there: packages, storage, cluster, tracker. Said before anything is computed."""

from __future__ import annotations

from recollect.sweep.cluster import require_cluster
from recollect.sweep.settings import SweepConfig
from recollect.sweep.storage import require_storage
from recollect.sweep.telling import PACKAGES
from recollect.trackers import needed


def require_ready(sweep: SweepConfig, writing: bool = True) -> None:
    """Without ``writing`` nothing is made, not even the tables of a new study."""
    require_storage(sweep, writing)
    if sweep.executor == "ray":
        require_cluster(sweep.address)
    if sweep.tracker != "none":
        needed(PACKAGES[sweep.tracker], sweep.tracker)
