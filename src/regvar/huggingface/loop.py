"""`transformers.Trainer` with its loss replaced by the paper's objective, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from transformers import Trainer, TrainingArguments, __version__
from transformers.trainer_utils import TrainOutput

from regvar import batches
from regvar.batches import Forward
from regvar.errors import require
from regvar.huggingface.objective import Objective, aligned


class ObjectiveTrainer(Trainer):
    """Minimizes an `Objective`, whatever the accumulation and the sizes of the batches.

    The loss is normalized here: the Trainer must neither divide it by the number of accumulated
    batches nor by its own count of their labels.
    """

    loss_is_scaled_for_ga = True
    objective: Objective | None = None
    forward: Forward | None = None
    order: list[int] | None = None  # of the training rows, the same in each epoch; None: shuffled
    dropout = True  # whether the network trains in train mode

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> tuple[list[Any], Tensor | int | None]:
        """The micro-batches of one step."""
        self._opening = True
        return super().get_batch_samples(epoch_iterator, num_batches, device)

    def training_step(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        num_items_in_batch: Tensor | int | None = None,
    ) -> Tensor:
        """Forward and backward on one micro-batch."""
        self._stepping = True
        try:
            return super().training_step(model, inputs, num_items_in_batch)
        finally:
            self._stepping = self._opening = False
            self._seen += 1

    def train(
        self,
        resume_from_checkpoint: str | bool | None = None,
        trial: Any = None,
        ignore_keys_for_eval: list[str] | None = None,
    ) -> TrainOutput:
        """As the Trainer's own."""
        self._seen = 0
        return super().train(resume_from_checkpoint, trial, ignore_keys_for_eval)

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """In training a micro-batch's part of −(L + λ t)/n, elsewhere the mean of −log p(y | f)."""
        if not self.dropout:
            model.eval()
        outputs, targets = self._run(model, inputs)
        if getattr(self, "_stepping", False):
            loss = self._share(outputs, targets)
        else:
            joint = self._objective.joint
            value, targets = joint.score(outputs, targets)
            loss = -value / max(joint.likelihood.count(outputs, targets), 1)
        return (loss, {"loss": loss, "logits": outputs}) if return_outputs else loss

    @property
    def _objective(self) -> Objective:
        if self.objective is None:
            raise RuntimeError("an objective is set before training")
        return self.objective

    def _run(self, model: nn.Module, inputs: dict[str, Any]) -> tuple[Tensor, Any]:
        """The outputs by way of the wrapped model, whose hooks several processes need."""
        if self.forward is not None:
            return self.forward(model, inputs)
        fields = {k: v for k, v in inputs.items() if k != "labels"}
        outputs, _ = batches.default_forward(model, fields)
        return outputs, aligned(self._objective.joint.model, inputs.get("labels"), outputs)

    def _share(self, outputs: Tensor, targets: Any) -> Tensor:
        processes = self.accelerator.num_processes
        loader: Any = self.callback_handler.train_dataloader
        own = len(loader)
        steps = math.ceil(own / self.args.gradient_accumulation_steps)
        turn = (self._seen % own) * processes + self.accelerator.process_index
        first_row = turn * self._train_batch_size
        return self._objective.loss(first_row, outputs, targets, processes * steps, self._opening)

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        return super()._get_train_sampler(train_dataset) if self.order is None else self.order


def check_arguments(args: TrainingArguments, name: str) -> None:
    """Refuse settings under which the objective would not be Eq. 15."""
    known = getattr(Trainer, "loss_is_scaled_for_ga", "absent") is None
    rule = "new enough that its Trainer has loss_is_scaled_for_ga"
    require(known, "transformers", rule, __version__, "Upgrade it.")
    smoothing = args.label_smoothing_factor
    require(
        smoothing == 0,
        f"{name}.label_smoothing_factor",
        "0, because smoothed labels have no likelihood",
        smoothing,
    )
    require(
        args.weight_decay == 0,
        f"{name}.weight_decay",
        "0, because the prior is in the loss",
        args.weight_decay,
        "A decay w of the mean loss over n data is prior=GaussianPrior(precision=w * n).",
    )
    require(
        not args.dataloader_drop_last,
        f"{name}.dataloader_drop_last",
        "False, because all n data count",
        True,
    )
    require(
        not args.neftune_noise_alpha,
        f"{name}.neftune_noise_alpha",
        "None, because the network must be deterministic",
        args.neftune_noise_alpha,
    )
    devices = args.n_gpu
    require(
        devices <= 1,
        f"{name}.n_gpu",
        "1 in each process",
        devices,
        "Start with `accelerate launch`.",
    )
    sharded = bool(args.fsdp) or bool(args.deepspeed)
    require(
        not sharded,
        f"{name}.fsdp and .deepspeed",
        "off, because the prior needs whole parameters",
        "on",
        "Train as you do, then call regvar.sampled on the fitted network.",
    )


def check_data(dataset: Any, name: str) -> None:
    """Refuse data whose number is not known."""
    known = hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")
    rule = "a data set with a length and rows by number"
    require(known, name, rule, type(dataset).__name__, "n must be known: pass list(dataset).")
    require(len(dataset) > 0, name, "not empty", 0)


def check_shares(rows: int, args: TrainingArguments, processes: int) -> None:
    """Several processes share a pass evenly, or rows would be seen twice."""
    share = processes * args.train_batch_size
    require(
        processes == 1 or rows % share == 0,
        "train_dataset's length",
        f"a multiple of {share} (processes × batch size)",
        rows,
        "accelerate would repeat rows to fill the last batches.",
    )
