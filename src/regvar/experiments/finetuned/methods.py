"""The methods on a fine-tuned network, each tuned on validation data and scaled there.

| method | what is tuned | what it separates |
|---|---|---|
| `drift` | – | what one more epoch without any regularizer does |
| `amortized` | λ | the paper's Algorithm 1, one-sided: drift and regularization together |
| `amortized_control` | λ | the same minus its control: regularization alone |
| `sampled` | – | K refits on random pulls minus one shared control |

Every method gets one variance scale from validation data, as in the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from regvar import baselines
from regvar.calibration import Calibrated, calibrate
from regvar.estimators import Estimator, Sampled
from regvar.experiments.finetuned.problem import Problem
from regvar.likelihoods import Categorical
from regvar.predictives import Probit
from regvar.tuning import Tuned, tune


def _scaled(problem: Problem, uq: Estimator) -> Tuned:
    """Nothing to tune but the scale."""
    return Tuned({}, calibrate(uq, problem.loaders["validation"]), ())


def _tuned(
    problem: Problem, build: Callable[..., Estimator], name: str, values: Sequence[Any]
) -> Tuned:
    return tune(build, problem.loaders["validation"], {name: values})


def _amortized(problem: Problem) -> Tuned:
    config = problem.config

    def build(lam: float) -> Estimator:
        return problem.refits.amortized(lam, config.refit_lr)

    return _tuned(problem, build, "lam", config.lam)


def _amortized_control(problem: Problem) -> Tuned:
    config = problem.config

    def build(lam: float) -> Estimator:
        return problem.refits.controlled(lam, config.refit_lr)

    return _tuned(problem, build, "lam", config.lam)


def _sampled(problem: Problem) -> Tuned:
    config = problem.config
    uq = problem.refits.sampled(config.samples, config.sampled_lam, config.sampled_lr)
    return _scaled(problem, uq)


def _dropout(problem: Problem) -> Tuned:
    config = problem.config

    def build(rate: float) -> Estimator:
        return baselines.mc_dropout(
            problem.joint, rate=rate, passes=config.passes, seed=problem.seed
        )

    return _tuned(problem, build, "rate", config.dropout)


def _head(problem: Problem, approximation: Callable[..., Estimator]) -> Tuned:
    def build(precision: float) -> Estimator:
        return approximation(problem.joint, prior_precision=precision)

    return _tuned(problem, build, "precision", problem.config.head_precision)


def _ensemble(problem: Problem) -> Tuned:
    """With batch norm the heads alone train.

    Refits run in eval mode, where running means stand still: at the learning rate of the MAP, which
    was fitted in train mode, the weights below leave them behind, down to guessing.
    """
    config = problem.config
    buffers = problem.joint.model.named_buffers()
    normed = any(name.endswith("running_mean") for name, _ in buffers)
    uq = baselines.last_layer_ensemble(
        problem.joint,
        heads=config.heads,
        epochs=config.epochs,
        lr=config.lr,
        trunk=not normed,
        seed=problem.seed,
    )
    return _scaled(problem, uq)


METHODS: Mapping[str, Callable[[Problem], Tuned]] = {
    "pretrained": lambda p: _scaled(p, baselines.pretrained(p.joint, p.before)),
    "map_only": lambda p: _scaled(p, baselines.map_only(p.joint)),
    "temperature": lambda p: _scaled(p, baselines.temperature(p.joint)),
    "drift": lambda p: _scaled(p, p.refits.drift(p.config.refit_lr)),
    "last_layer_ensemble": _ensemble,
    "mc_dropout": _dropout,
    "laplace_last_layer_diag": lambda p: _head(p, baselines.laplace_last_layer_diag),
    "laplace_last_layer_full": lambda p: _head(p, baselines.laplace_last_layer_full),
    "gradient_norm": lambda p: _scaled(p, baselines.gradient_norm(p.joint)),
    "amortized": _amortized,
    "amortized_control": _amortized_control,
    "sampled": _sampled,
}


def prefixes(problem: Problem, calibrated: Calibrated) -> dict[int, Calibrated]:
    """The same draws, fewer of them, each number scaled anew: how the answer depends on K."""
    uq = calibrated.uq
    if not isinstance(uq, Sampled):
        return {}
    return {
        k: calibrate(replace(uq, displacements=uq.displacements[:k]), problem.loaders["validation"])
        for k in (1, 4)
        if k < uq.samples
    }


def shared(problem: Problem, calibrated: Calibrated) -> Calibrated | None:
    """The same with one variance for all outputs of an input, scaled anew.

    `None` for language models: scoring 50,000 outputs at every place twice takes too long.
    """
    if problem.config.task == "causal-lm":
        return None
    predictive = Probit(Categorical(), shared=True)
    return calibrate(calibrated.uq, problem.loaders["validation"], predictive=predictive)
