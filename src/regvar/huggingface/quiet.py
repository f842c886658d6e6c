"""Loading without the messages and bars of other libraries, which would hide our own."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Generator
from contextlib import contextmanager

from transformers.utils import logging as told

_LOGGERS = ("transformers", "huggingface_hub", "httpx", "peft", "accelerate")


@contextmanager
def quiet() -> Generator[None]:
    """Inside, other libraries report errors alone; afterwards they speak as before."""
    before = {name: logging.getLogger(name).level for name in _LOGGERS}
    bars = told.is_progress_bar_enabled()
    told.disable_progress_bar()
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)
        if bars:
            told.enable_progress_bar()
