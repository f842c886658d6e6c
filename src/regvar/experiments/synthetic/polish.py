"""From Adam's last step to a true stationary point of L, by a damped Newton method.

    θ ← θ + (|P| + μ)⁻¹ ∇L,   P = −∇²L(θ)

The theory takes derivatives where ∇L(θ̂) = 0 (Theorem 4.1). Adam stops where the data's gradient
and the prior's still differ by most of their size, and gradient-only methods crawl on from there:
L has curvatures from about 10⁻² to 10⁵ here, and what is left of ∇L moves θ along the flat ones
by more than λ does. With 151 parameters P is a small matrix, so Newton's method goes to rounding.
|P| takes the absolute values of the eigenvalues, which leaves saddle points; μ falls after a step
that does what the quadratic model says, and rises after one that does not (Nielsen, 1999).
"""

from __future__ import annotations

import torch
from torch import Tensor

from regvar import params
from regvar.curvature import Hessian, Precision, dense
from regvar.log_joint import LogJoint
from regvar.params import Params

_ROUNDING = 1e-13  # of L, relatively: smaller rises cannot be told from noise


def polish(joint: LogJoint, steps: int) -> int:
    """Walk uphill in place until ∇L is at rounding, or out of steps; how many were taken."""
    taken = _climb(joint, steps)
    return taken + _settle(joint, steps - taken)


def _climb(joint: LogJoint, steps: int) -> int:
    """Damped steps, judged by the rise of L, until no rise is left that L's rounding would show."""
    value, damping, growth = joint.value(), 0.1, 2.0
    for step in range(steps):
        values, vectors, slope = _model(joint)
        home = params.copy(joint.parameters)
        while True:
            move = slope / (values.abs() + damping)
            promised = float(slope @ move - 0.5 * (values * move) @ move)
            if promised <= _ROUNDING * abs(value):
                return step
            _step(joint, home, vectors @ move)
            now = joint.value()
            ratio = (now - value) / promised
            if ratio > 1e-3:
                break
            params.write_(joint.parameters, home)
            damping, growth = damping * growth, growth * 2
        value, growth = now, 2.0
        damping *= max(0.1, 1 - (2 * ratio - 1) ** 3)
    return steps


def _settle(joint: LogJoint, steps: int) -> int:
    """Plain Newton steps for as long as each halves ‖∇L‖."""
    length = params.norm(joint.gradient())
    for step in range(steps):
        values, vectors, slope = _model(joint)
        home = params.copy(joint.parameters)
        _step(joint, home, vectors @ (slope / values))
        shorter = params.norm(joint.gradient())
        if not shorter < length / 2:
            params.write_(joint.parameters, home)
            return step
        length = shorter
    return steps


def _model(joint: LogJoint) -> tuple[Tensor, Tensor, Tensor]:
    """P's eigenvalues and eigenvectors, and ∇L in their coordinates."""
    values, vectors = torch.linalg.eigh(dense(Precision(joint, Hessian())))
    return values, vectors, vectors.mT @ params.flatten(joint.gradient())


def _step(joint: LogJoint, home: Params, move: Tensor) -> None:
    target = params.combine(1.0, home, 1.0, params.unflatten(move, home))
    params.write_(joint.parameters, target)
