"""RegVar from a training loop of one's own: the paper's Figure 2, read back.

    σ²_f(x) = |f_{θ'}(x) − f_θ̂(x)| / λ

The user trains twice, once with `regvar.penalty` in the loss, and hands over both networks.
"""

from __future__ import annotations

from torch import Tensor, nn

from regvar import params
from regvar.batches import Forward
from regvar.errors import ArgumentError, require
from regvar.estimators.amortized import Amortized
from regvar.network import Network
from regvar.results import Displacement


def penalty(outputs: Tensor, lam: float, n: int, *, mean_over_outputs: bool = False) -> Tensor:
    """The term of the paper's Figure 2, to add to the *mean* loss of a training step.

        loss = cross_entropy(f, y) − log_prior(θ) / n + λ/n · mean_i |f(x_i)|₁

    The L1 norm sums over the outputs of an input (Eq. 15, 16); `mean_over_outputs=True` averages
    them as the figure does, which makes λ smaller by their number. As in the figure the term is
    added to a loss, so the refit sits at −λ in Eq. 16's sign; the absolute value that
    `from_refit` reads does not see the difference.

    Args:
        outputs: f_θ(x) of the batch, [batch, outputs...].
        lam: λ, the strength; pass the same to `from_refit`.
        n: the number of training data.
        mean_over_outputs: Figure 2's mean in place of Eq. 15's sum.

    >>> import torch, regvar
    >>> float(regvar.penalty(torch.tensor([[1.0, -2.0], [3.0, 0.0]]), lam=2.0, n=10))
    0.6000000238418579
    """
    if n <= 0 or lam == 0:
        raise ArgumentError(f"penalty needs n > 0 and lam != 0, but n is {n} and lam is {lam}.")
    total = outputs.abs().mean() if mean_over_outputs else outputs.abs().sum() / outputs.shape[0]
    return lam * total / n


def from_refit(
    model: nn.Module, refitted_model: nn.Module, lam: float, *, forward: Forward | None = None
) -> Amortized:
    """The estimator made of two networks that the user trained (Figure 2).

    Args:
        model: the MAP network.
        refitted_model: the same network after fine-tuning with `penalty(outputs, lam, n)`.
        lam: the λ of that penalty.
        forward: as in `LogJoint`.

    >>> import copy, torch, regvar
    >>> model = torch.nn.Linear(1, 1); refitted = copy.deepcopy(model)
    >>> with torch.no_grad(): _ = refitted.bias.add_(0.5)
    >>> regvar.from_refit(model, refitted, lam=2.0).moments(torch.zeros(1, 1)).variance
    tensor([[0.2500]])
    """
    require(lam != 0, "lam", "not 0", lam)
    network = Network(model, forward)
    before, after = network.parameters, dict(refitted_model.named_parameters())
    wrong = [k for k, p in before.items() if k not in after or after[k].shape != p.shape]
    if wrong:
        raise ArgumentError(
            f"refitted_model must have the parameters of model, but {wrong[0]!r} is missing or has "
            "another shape. Refit a copy.deepcopy of the model."
        )
    home = params.copy(before)
    delta = {k: (after[k].detach().to(v) - v) / abs(lam) for k, v in home.items()}
    return Amortized(network, Displacement(delta, abs(lam)), None, network.fingerprint())
