"""The paper's method as a `transformers.Trainer`: the MAP, then refits under a regularizer.

    θ̂ = argmax L(θ),   θ̂(t, λ) = argmax L(θ) + λ t(θ)                        (Eq. 1, 8, 15, 16)

`train` fits the MAP with the prior in the loss. `regvar` fits again from there, once for each
regularizer, and hands back an estimator of ours. Both run in the Trainer's own loop, with its
optimizers, schedules, accumulation and mixed precision.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader
from tqdm import tqdm
from transformers import TrainerCallback, TrainingArguments
from transformers.trainer_callback import PrinterCallback, ProgressCallback
from transformers.trainer_utils import IntervalStrategy, SaveStrategy, TrainOutput

from regvar import params
from regvar.batches import Forward
from regvar.errors import require
from regvar.estimators.amortized import Amortized
from regvar.estimators.sampled import Sampled
from regvar.huggingface.loop import ObjectiveTrainer, check_arguments, check_data, check_shares
from regvar.huggingface.objective import Objective, Pull
from regvar.huggingface.refits import AmortizedRefit, Refit
from regvar.likelihoods import Categorical, Likelihood
from regvar.log_joint import LogJoint
from regvar.params import Params
from regvar.priors import Prior
from regvar.randomness import undisturbed
from regvar.results import Displacement, Solution, Status
from regvar.solvers import tangent


class RegVarTrainer(ObjectiveTrainer):
    """Fine-tunes the MAP, then the regularized networks, and hands back their estimator.

    The objective is the sum of Eq. 2 and 15 divided by n, cut such that an epoch adds up to it
    exactly: n counts scored labels (tokens of a language model, less the padded ones), a short
    last batch counts for what it holds, and accumulating G batches of B rows is the same as one
    batch of G · B. Weight decay, label smoothing and dropping the last batch are refused.

    Args:
        model: the network to fine-tune; only what has `requires_grad` is Bayesian.
        args: for the MAP, as usual.
        train_dataset: with a length, and the same rows in every epoch.
        prior: `GaussianPrior(precision=...)`; takes weight decay's place.
        likelihood: `Categorical()` by default.
        refit: `AmortizedRefit(lam, probes)` or `SampledRefit(samples, lam)`.
        refit_args: for the refits, which neither evaluate, save nor report; by default those of
            the MAP without clipping.
        forward: for batches of another form, `forward(model, batch) -> (outputs, targets)`.
        eval_dataset: and all that follows: as in `transformers.Trainer`.
        data_collator: see there.
        processing_class: see there.
        compute_metrics: see there.
        callbacks: of the MAP's training.
        optimizer_cls_and_kwargs: of the MAP's training and of the refits.

    >>> import tempfile, torch, regvar
    >>> from transformers import BertConfig, BertForSequenceClassification, TrainingArguments
    >>> sizes = dict(hidden_size=4, intermediate_size=4, num_attention_heads=1)
    >>> config = BertConfig(vocab_size=9, num_hidden_layers=1, **sizes)
    >>> model = BertForSequenceClassification(config)
    >>> rows = [{"input_ids": [k + 1, 2], "labels": k % 2} for k in range(6)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     args = TrainingArguments(folder, use_cpu=True, report_to=[], disable_tqdm=True,
    ...                              save_strategy="no", logging_strategy="no")
    ...     trainer = RegVarTrainer(model, args, train_dataset=rows,
    ...                             prior=regvar.GaussianPrior(precision=1.0))
    ...     summary = trainer.train()  # doctest: +ELLIPSIS
    ...     uq = trainer.regvar()
    {'train_runtime': ...}
    >>> uq.moments({"input_ids": torch.tensor([[1, 2]])}).variance.shape
    torch.Size([1, 2])
    """

    def __init__(
        self,
        model: nn.Module,
        args: TrainingArguments | None = None,
        *,
        train_dataset: Any,
        prior: Prior,
        likelihood: Likelihood | None = None,
        refit: Refit | None = None,
        refit_args: TrainingArguments | None = None,
        forward: Forward | None = None,
        eval_dataset: Any = None,
        data_collator: Any = None,
        processing_class: Any = None,
        compute_metrics: Callable[..., dict[str, float]] | None = None,
        callbacks: list[TrainerCallback] | None = None,
        optimizer_cls_and_kwargs: tuple[Any, dict[str, Any]] | None = None,
    ) -> None:
        """See the class."""
        args = args or TrainingArguments(output_dir="tmp_trainer")
        check_arguments(args, "args")
        if refit_args is not None:
            check_arguments(refit_args, "refit_args")
        check_data(train_dataset, "train_dataset")
        super().__init__(
            model,
            args,
            train_dataset=train_dataset,
            eval_dataset=eval_dataset,
            data_collator=data_collator,
            processing_class=processing_class,
            compute_metrics=compute_metrics,
            callbacks=callbacks,
            optimizer_cls_and_kwargs=optimizer_cls_and_kwargs,
        )
        sharded = self.is_fsdp_enabled or self.is_deepspeed_enabled
        require(not sharded, "accelerate's plan", "data-parallel at the most", "FSDP or DeepSpeed")
        self.refit: Refit = refit or AmortizedRefit()
        if self.refit.probes is not None:
            check_data(self.refit.probes, "probes")
        self.refit_args = _quiet(refit_args or args, clipped=refit_args is not None)
        self.forward = forward
        self._rows = _order(len(train_dataset), args)
        size = self.refit_args.train_batch_size
        self.joint = LogJoint(
            model,
            self.loader(train_dataset, size, self._rows),
            likelihood=likelihood or Categorical(),
            prior=prior,
            forward=forward,
        )
        self.objective = Objective(self.joint)

    def loader(
        self, dataset: Any, batch_size: int | None = None, order: list[int] | None = None
    ) -> DataLoader[Any]:
        """The collated batches of a data set, in its own order: for `calibrate`, `audit`, ....

        Args:
            dataset: in the form of the training set.
            batch_size: that of evaluation by default.
            order: of the rows.
        """
        return DataLoader(
            dataset,
            batch_size=batch_size or self.args.eval_batch_size,
            sampler=order,
            collate_fn=self._get_collator_with_removed_columns(self.data_collator, "data"),
            num_workers=self.args.dataloader_num_workers,
        )

    def train(
        self,
        resume_from_checkpoint: str | bool | None = None,
        trial: Any = None,
        ignore_keys_for_eval: list[str] | None = None,
    ) -> TrainOutput:
        """Fit the MAP; the network is handed back in eval mode, as estimators want it."""
        check_shares(len(self._rows), self.args, self.accelerator.num_processes)
        network: nn.Module = self.joint.model
        network.eval()
        self.joint.check()
        with _unprepared(network):
            try:
                return super().train(resume_from_checkpoint, trial, ignore_keys_for_eval)
            finally:
                network.eval()
                network.zero_grad(set_to_none=True)

    def regvar(self) -> Amortized | Sampled:
        """Refit from where the network is now, and hand back the estimator of `refit`.

        The network comes back as it was, bit for bit. Dropout is off in a refit, and all refits
        see the same batches in the same order, so that their differences are those of the
        regularizer.
        """
        check_shares(len(self._rows), self.refit_args, self.accelerator.num_processes)
        joint, refit = self.joint, self.refit
        joint.check()
        probes = None if refit.probes is None else self.loader(refit.probes)
        found: list[Displacement] = []
        self._passes = 0.0
        with undisturbed(), _unprepared(joint.model), joint.network.guard(parameters=True):
            home = params.copy(joint.parameters)
            low = self._walk(home, None, "control") if refit.control else None
            for pull in refit.pulls(joint, probes):
                high = self._walk(home, pull, f"refit {len(found) + 1}")
                moved = high if low is None else params.combine(1.0, high, -1.0, low)
                delta = params.scale_(moved, 1 / refit.lam)
                found.append(Displacement(delta, refit.lam, low))
        return refit.estimator(joint, self._report(tuple(found)))

    def _walk(self, home: Params, pull: Pull | None, label: str) -> Params:
        """θ̂(t, λ) − θ̂, by the Trainer's loop from θ̂."""
        joint = self.joint
        inner = ObjectiveTrainer(
            joint.model,
            self.refit_args,
            train_dataset=self.train_dataset,
            data_collator=self.data_collator,
            processing_class=self.processing_class,
            callbacks=[_Bar(f"{label} (λ={self.refit.lam if pull else 0:g})")],
            optimizer_cls_and_kwargs=self.optimizer_cls_and_kwargs,
        )
        for kind in (PrinterCallback, ProgressCallback):
            inner.remove_callback(kind)
        inner.objective = Objective(joint, pull, self.refit.lam)
        inner.forward, inner.order, inner.dropout = self.forward, self._rows, False
        try:
            with _unprepared(joint.model):
                inner.train()
            self._passes += inner.state.epoch or 0.0
            moved = params.copy(joint.parameters)
        finally:
            params.write_(joint.parameters, home)
        return params.add_(moved, home, alpha=-1.0)

    def _report(self, found: tuple[Displacement, ...]) -> Solution:
        passes = math.ceil(self._passes)
        failed = sum(not params.isfinite(move.delta) for move in found)
        if failed:
            lower = "A refit left the finite numbers: lower the learning rate or lam."
            return tangent.announce(
                Solution(found, Status.DIVERGED, math.inf, passes, lower), failed
            )
        return Solution(found, Status.STOPPED, math.nan, passes, "residual not measured")


class _Bar(TrainerCallback):
    """One progress bar a refit."""

    def __init__(self, label: str) -> None:
        self._label = label

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._bar = tqdm(total=state.max_steps, desc=self._label, leave=False, disable=None)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._bar.update()

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._bar.close()


@contextmanager
def _unprepared(model: nn.Module) -> Generator[None]:
    """Take off what accelerate put on the network: answers are read without its autocast."""
    names = ("forward", "_original_forward", "_is_accelerate_prepared")
    before = {k: vars(model)[k] for k in names if k in vars(model)}
    config: Any = getattr(model, "config", None)
    cached = getattr(config, "use_cache", None)
    try:
        yield
    finally:
        for k in names:
            vars(model).pop(k, None)
        vars(model).update(before)
        if cached is not None:
            config.use_cache = cached


def _quiet(args: TrainingArguments, clipped: bool) -> TrainingArguments:
    """The same arguments without evaluating, saving or reporting."""
    quiet = copy.copy(args)
    quiet.eval_strategy = IntervalStrategy.NO
    quiet.save_strategy = SaveStrategy.NO
    quiet.logging_strategy = IntervalStrategy.NO
    quiet.eval_on_start = quiet.load_best_model_at_end = quiet.push_to_hub = False
    quiet.report_to = []
    if not clipped:
        quiet.max_grad_norm = 0.0
    return quiet


def _order(rows: int, args: TrainingArguments) -> list[int]:
    """One order for all refits: the data set's own if training keeps to it, or a seeded one."""
    if args.train_sampling_strategy == "sequential":
        return list(range(rows))
    seed = args.seed if args.data_seed is None else args.data_seed
    return torch.randperm(rows, generator=torch.Generator().manual_seed(seed)).tolist()
