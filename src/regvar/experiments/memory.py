"""How much memory the process has taken."""

from __future__ import annotations

import math
import sys


def peak_mib() -> float:
    """The most resident memory so far, in MiB; NaN where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return math.nan
    unit = 2**20 if sys.platform == "darwin" else 2**10  # bytes there, KiB elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
