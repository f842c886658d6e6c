"""Blocks after which the global random numbers go on as if nothing had happened."""

from __future__ import annotations

import random
import sys
from collections.abc import Generator
from contextlib import contextmanager

import torch


@contextmanager
def undisturbed() -> Generator[None]:
    """Give torch's, Python's and numpy's global generators back their states.

    >>> with undisturbed():
    ...     before = random.random()
    >>> random.random() == before
    True
    """
    numpy = sys.modules.get("numpy")
    python, arrays = random.getstate(), numpy.random.get_state() if numpy else None
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        try:
            yield
        finally:
            random.setstate(python)
            if numpy and arrays is not None:
                numpy.random.set_state(arrays)
