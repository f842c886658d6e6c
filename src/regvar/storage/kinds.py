"""What can be saved, and the one registry of its classes."""

from __future__ import annotations

from typing import Protocol

from regvar.baselines import (
    DenseLaplace,
    Eigenvectors,
    GradientNorm,
    LaplaceTorch,
    LastLayerDiag,
    LastLayerEnsemble,
    LastLayerFull,
    MonteCarloDropout,
    PointEstimate,
)
from regvar.estimators import Amortized, Parameter, Pointwise, Sampled
from regvar.log_joint import LogJoint
from regvar.network import Fingerprint, Network
from regvar.results import Packed, Solution


class Storable(Protocol):
    """What can be saved: `pack` says what it is made of."""

    @property
    def network(self) -> Network:
        """The network it speaks of."""
        ...

    @property
    def solution(self) -> Solution | None:
        """How its solve ended."""
        ...

    @property
    def fitted(self) -> Fingerprint:
        """Taken of θ̂ at the fit."""
        ...

    def pack(self) -> Packed:
        """Its settings, tensors and displacements."""
        ...


class Kind(Protocol):
    """A class of estimators: `unpack` makes one of what `pack` gave."""

    __name__: str

    def unpack(
        self,
        packed: Packed,
        network: Network,
        fitted: Fingerprint,
        solution: Solution | None,
        joint: LogJoint | None,
    ) -> Storable:
        """The estimator that was packed."""
        ...


_ALL: tuple[Kind, ...] = (
    Amortized,
    Parameter,
    Pointwise,
    Sampled,
    DenseLaplace,
    Eigenvectors,
    GradientNorm,
    LaplaceTorch,
    LastLayerDiag,
    LastLayerEnsemble,
    LastLayerFull,
    MonteCarloDropout,
    PointEstimate,
)
KINDS: dict[str, Kind] = {kind.__name__: kind for kind in _ALL}
