"""Parameter uncertainty (Appendix C.2): intervals of single parameters, and sparse networks.

A parameter whose interval of one standard deviation contains 0 is set to 0; what that does to the
predictions is the mean absolute error of the sparse network.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from regvar import params
from regvar.experiments.synthetic.problem import Problem


def describe(problem: Problem, variance: Mapping[str, Tensor]) -> dict[str, Any]:
    """`parameters` and `sparsity` of a record.

    Args:
        problem: the network at its MAP.
        variance: σ²_θ, one tensor per parameter.
    """
    theta = params.flatten(params.copy(problem.joint.parameters))
    std = params.flatten(variance).sqrt()
    generator = torch.Generator().manual_seed(problem.seed)
    count = min(problem.config.shown_parameters, len(theta))
    shown = torch.randperm(len(theta), generator=generator)[:count].sort().values
    return {
        "parameters": {
            "index": shown.tolist(),
            "theta": theta[shown].tolist(),
            "std": std[shown].tolist(),
        },
        "sparsity": _sparsity(problem, theta, std),
    }


def _sparsity(problem: Problem, theta: Tensor, std: Tensor) -> dict[str, Any]:
    parameters = problem.joint.parameters
    zeroed = theta.abs() <= std
    drop = params.unflatten(torch.where(zeroed, -theta, 0.0), params.copy(parameters))
    found: dict[str, Any] = {"zeroed": int(zeroed.sum())}
    for split in ("id", "ood"):
        found[f"dense_{split}"] = _absolute_error(problem, split)
    with params.displaced(parameters, [(1.0, drop)]):
        for split in ("id", "ood"):
            found[split] = _absolute_error(problem, split)
    return found


def _absolute_error(problem: Problem, split: str) -> float:
    x, y = problem.data[split]
    with torch.no_grad():
        return float((problem.joint.network.outputs(x) - y).abs().mean())
