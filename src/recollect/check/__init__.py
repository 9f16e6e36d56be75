"""Which assumptions of the KKT attack hold for a network, said before anything is attacked.

This code sees training data, as what judges does, and steers no search.
"""

from recollect.check.checking import check_network
from recollect.check.findings import Finding, Findings

__all__ = ["Finding", "Findings", "check_network"]
