"""Errors and warnings of regvar.

Each text names the argument, the rule it breaks, the value seen and what to do about it.
"""

from __future__ import annotations


class RegvarError(ValueError):
    """Base of every error regvar raises on purpose."""


class ArgumentError(RegvarError):
    """An argument breaks a rule: wrong sign, wrong type, an illegal combination."""


class DataError(RegvarError):
    """The data cannot be used: empty, not repeatable, NaN, a label out of range, a wrong shape."""


class ModelError(RegvarError):
    """The network cannot be used as it is: live dropout, nothing trainable, unknown outputs."""


class StaleError(RegvarError):
    """The network is not the one the estimator was fitted to."""


class StorageError(RegvarError):
    """A saved estimator cannot be written or read back."""


class SolverWarning(UserWarning):
    """A solve ended without an answer to trust; the text says why and what to try."""


class CalibrationWarning(UserWarning):
    """A best setting lies at an end of its grid, or a setting failed; the text says which."""


def require(condition: bool, argument: str, rule: str, value: object, remedy: str = "") -> None:
    """Raise `ArgumentError` in the house form unless `condition` holds."""
    if not condition:
        tail = f" {remedy}" if remedy else ""
        raise ArgumentError(f"{argument} must be {rule}, but it is {value!r}.{tail}")
