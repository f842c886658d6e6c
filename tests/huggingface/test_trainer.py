"""`RegVarTrainer` gives the core's estimators, leaves no trace, refuses what is not Eq. 15."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import IterableDataset

import regvar
from regvar.errors import ArgumentError, DataError, ModelError
from regvar.estimators.amortized import Amortized
from regvar.estimators.sampled import Sampled
from regvar.huggingface import AmortizedRefit, RegVarTrainer, SampledRefit

from ..contracts.snapshots import Fuse, differences, global_state, lived_in, network_state
from .tiny import PRIOR, arguments, case_of, dataset, flat, steps_of, still, whole

EXACT = {"rtol": 1e-9, "atol": 1e-13}


def trainer_of(
    name: str, folder: Path, refit: Any = None, model: nn.Module | None = None, **changes: Any
) -> RegVarTrainer:
    case = case_of(name)
    return RegVarTrainer(
        still(case) if model is None else model,
        arguments(folder, **changes),
        train_dataset=dataset(case),
        prior=PRIOR,
        refit=refit,
    )


def core_joint(name: str, size: int) -> regvar.LogJoint:
    case = case_of(name)
    data = steps_of(dataset(case), size)
    return regvar.LogJoint(still(case), data, likelihood=regvar.Categorical(), prior=PRIOR)


def finetune(**changes: Any) -> regvar.Finetune:
    settings: dict[str, Any] = {"epochs": 2, "lr": 0.05, "optimizer": torch.optim.SGD}
    return regvar.Finetune(**{**settings, "measure_residual": False, **changes})


@pytest.mark.parametrize("accumulation", [1, 4])
@pytest.mark.parametrize("name", ["gpt2", "vit", "lora_gpt2"])
@pytest.mark.parametrize("label_noise", [False, True])
def test_sampled_refits_are_the_cores(
    name: str, accumulation: int, label_noise: bool, tmp_path: Path
) -> None:
    refit = SampledRefit(samples=3, lam=0.5, seed=4, label_noise=label_noise)
    uq = trainer_of(name, tmp_path, refit, gradient_accumulation_steps=accumulation).regvar()
    joint = core_joint(name, 2 * accumulation)
    expected = regvar.sampled(joint, 3, finetune(lam=0.5), seed=4, label_noise=label_noise)
    assert isinstance(uq, Sampled)
    query = case_of(name).query()
    torch.testing.assert_close(uq.covariance(query), expected.covariance(query), **EXACT)
    assert float(uq.moments(query).variance.min()) > 0


@pytest.mark.parametrize("control", [False, True])
@pytest.mark.parametrize("evaluation", [False, True])
def test_amortized_refits_are_the_cores(control: bool, evaluation: bool, tmp_path: Path) -> None:
    case = case_of("bert")
    probes = dataset(case, 7, seed=5) if evaluation else None
    refit = AmortizedRefit(lam=0.5, probes=probes, control=control)
    uq = trainer_of("bert", tmp_path, refit, per_device_eval_batch_size=3).regvar()
    batches = None if probes is None else steps_of(probes, 3)
    expected = regvar.amortized(core_joint("bert", 2), batches, finetune(lam=0.5, control=control))
    assert isinstance(uq, Amortized)
    query = case.query()
    torch.testing.assert_close(
        uq.moments(query).variance, expected.moments(query).variance, **EXACT
    )


def test_train_then_regvar_is_fit_map_then_sampled(tmp_path: Path) -> None:
    trainer = trainer_of("bert", tmp_path, SampledRefit(samples=2))
    trainer.train()
    uq = trainer.regvar()
    joint = core_joint("bert", 2)
    regvar.fit_map(joint, torch.optim.SGD, epochs=2, lr=0.05)
    expected = regvar.sampled(joint, 2, finetune())
    torch.testing.assert_close(flat(trainer.joint.model), flat(joint.model), **EXACT)
    query = case_of("bert").query()
    torch.testing.assert_close(uq.moments(query).mean, expected.moments(query).mean, **EXACT)
    torch.testing.assert_close(
        uq.moments(query).variance, expected.moments(query).variance, **EXACT
    )


def test_a_shuffling_trainer_refits_in_one_order_whatever_the_batches(tmp_path: Path) -> None:
    """The noise belongs to the rows, so 2 × 4 rows a step are 8 × 1, epoch after epoch."""
    cut = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4}
    one = {"per_device_train_batch_size": 8}
    found = [
        trainer_of("gpt2", tmp_path, SampledRefit(2), train_sampling_strategy="random", **settings)
        for settings in (cut, one, one)
    ]
    assert found[0]._rows == found[1]._rows != list(range(11))
    query = case_of("gpt2").query()
    variances = [trainer.regvar().moments(query).variance for trainer in found]
    torch.testing.assert_close(variances[0], variances[1], **EXACT)
    assert torch.equal(variances[1], variances[2])


def test_dropout_is_live_in_the_map_and_off_in_refits(tmp_path: Path) -> None:
    case = case_of("bert")
    dropped = case.model()
    for module in dropped.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.5
    trainer = trainer_of("bert", tmp_path, AmortizedRefit(), dropped)
    variance = trainer.regvar().moments(case.query()).variance
    still_one = trainer_of("bert", tmp_path, AmortizedRefit()).regvar()
    assert torch.equal(variance, still_one.moments(case.query()).variance)
    trainer.train()
    quiet = trainer_of("bert", tmp_path)
    quiet.train()
    assert not torch.allclose(flat(dropped), flat(quiet.joint.model), atol=1e-4)
    assert not dropped.training and all(p.grad is None for p in dropped.parameters())


def test_live_dropout_is_found_out_before_a_refit(tmp_path: Path) -> None:
    case = case_of("bert")
    trainer = trainer_of("bert", tmp_path, AmortizedRefit(), case.model().train())
    with pytest.raises(ModelError, match=r"dropout .* is live .* Call model.eval\(\) first"):
        trainer.regvar()


@pytest.mark.parametrize("call", [None, 40])
def test_refits_leave_no_trace(call: int | None, tmp_path: Path) -> None:
    """Values, gradients, modes, hooks, attributes, random numbers: also when a refit falls."""
    refit = SampledRefit(2)
    trainer = trainer_of("bert", tmp_path, refit, lived_in(still(case_of("bert"))))
    fuse = Fuse(trainer.joint.model)
    trainer.joint.check()
    before = {**network_state(trainer.joint.model), **global_state()}
    if call is None:
        trainer.regvar()
    else:
        fuse.arm(call)
        with pytest.raises(ArithmeticError):
            trainer.regvar()
    after = {**network_state(trainer.joint.model), **global_state()}
    assert differences(before, after) == []


def test_half_precision_autocast_ends_with_the_training(tmp_path: Path) -> None:
    """Refits in bf16 autocast move as those in float32 do, and are read without it."""
    case = case_of("bert")
    variances = []
    for half in (True, False):
        model = still(case, torch.float32)
        trainer = RegVarTrainer(
            model,
            arguments(tmp_path, bf16=half),
            train_dataset=dataset(case, dtype=torch.float32),
            prior=PRIOR,
            refit=SampledRefit(4, lam=4.0),
        )
        trainer.train()
        uq = trainer.regvar()
        assert "forward" not in vars(model)
        variances.append(uq.moments(case.query(torch.float32)).variance)
    assert not torch.equal(variances[0], variances[1])
    torch.testing.assert_close(variances[0], variances[1], rtol=0.1, atol=1e-4)


def test_other_columns_and_other_forms_of_batches(tmp_path: Path) -> None:
    case = case_of("bert")
    features: list[dict[str, Any]] = [{**row, "note": "text"} for row in dataset(case)]
    args = arguments(tmp_path)
    trainer = RegVarTrainer(still(case), args, train_dataset=features, prior=PRIOR)
    expected = trainer_of("bert", tmp_path).regvar().moments(case.query()).variance
    torch.testing.assert_close(trainer.regvar().moments(case.query()).variance, expected)

    def forward(model: nn.Module, batch: Any) -> Any:
        inputs = {k: v for k, v in batch.items() if k not in ("labels", "gold")}
        return model(**inputs).logits, batch.get("gold")

    renamed = [{"gold" if k == "labels" else k: v for k, v in row.items()} for row in dataset(case)]
    args = arguments(tmp_path, remove_unused_columns=False, label_names=["gold"])
    own = RegVarTrainer(still(case), args, train_dataset=renamed, prior=PRIOR, forward=forward)
    torch.testing.assert_close(own.regvar().moments(case.query()).variance, expected)


def test_batches_padded_to_their_own_longest_row(tmp_path: Path) -> None:
    """Rows of other lengths, a collator that pads, shuffled once: the core on the same batches."""
    case = case_of("gpt2")
    rows = [{k: v[: 2 + i % 2] for k, v in row.items()} for i, row in enumerate(dataset(case))]

    def pad(features: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        fill = {"labels": -100}
        return {
            k: nn.utils.rnn.pad_sequence([f[k] for f in features], True, float(fill.get(k, 0)))
            for k in features[0]
        }

    trainer = RegVarTrainer(
        still(case),
        arguments(tmp_path, train_sampling_strategy="random", gradient_accumulation_steps=2),
        train_dataset=rows,
        prior=PRIOR,
        refit=AmortizedRefit(),
        data_collator=pad,
    )
    order = trainer._rows
    batches = [pad([rows[k] for k in order[i : i + 4]]) for i in range(0, 11, 4)]
    joint = regvar.LogJoint(still(case), batches, likelihood=regvar.Categorical(), prior=PRIOR)
    assert trainer.joint.size == joint.size < 22
    expected = regvar.amortized(joint, solver=finetune()).moments(case.query()).variance
    torch.testing.assert_close(trainer.regvar().moments(case.query()).variance, expected, **EXACT)


def test_an_estimator_like_any_other(tmp_path: Path) -> None:
    """Saved, loaded, audited and calibrated."""
    trainer = trainer_of("bert", tmp_path / "run", SampledRefit(2))
    uq = trainer.regvar()
    regvar.save(uq, tmp_path / "uq")
    again = regvar.load(tmp_path / "uq", trainer.joint)
    query = case_of("bert").query()
    assert torch.equal(uq.moments(query).variance, again.moments(query).variance)
    rows = whole(dataset(case_of("bert"), 8, seed=9))
    features = [{k: v[i] for k, v in rows.items()} for i in range(8)]
    found = list(trainer.loader(features, 3))
    assert torch.equal(torch.cat([b["input_ids"] for b in found]), rows["input_ids"])


def test_a_diverging_refit_is_announced(tmp_path: Path) -> None:
    trainer = trainer_of("vit", tmp_path, AmortizedRefit(), learning_rate=1e200)
    with pytest.raises(DataError, match="outputs of model must be finite"):
        trainer.regvar()
    one_step = {"per_device_train_batch_size": 11, "num_train_epochs": 1, "learning_rate": 1e309}
    trainer = trainer_of("vit", tmp_path, AmortizedRefit(), **one_step)
    with pytest.warns(regvar.SolverWarning, match="lower the learning rate or lam"):
        assert trainer.regvar().solution.status is regvar.Status.DIVERGED  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"weight_decay": 0.1},
            r"args.weight_decay must be 0.*GaussianPrior\(precision=w \* n\)",
        ),
        ({"label_smoothing_factor": 0.1}, r"args.label_smoothing_factor must be 0"),
        ({"dataloader_drop_last": True}, r"args.dataloader_drop_last must be False"),
        ({"neftune_noise_alpha": 1.0}, r"args.neftune_noise_alpha must be None"),
    ],
)
def test_what_would_not_be_the_objective_is_refused(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ArgumentError, match=message):
        trainer_of("bert", tmp_path, **changes)
    other = arguments(tmp_path)
    with pytest.raises(ArgumentError, match=message.replace("args", "refit_args", 1)):
        RegVarTrainer(
            still(case_of("bert")),
            other,
            train_dataset=dataset(case_of("bert")),
            prior=PRIOR,
            refit_args=arguments(tmp_path, **changes),
        )


def test_data_without_a_length_and_empty_data_are_refused(tmp_path: Path) -> None:
    class Stream(IterableDataset[Any]):
        def __iter__(self) -> Any:
            return iter(dataset(case_of("bert")))

    for data, message in ((Stream(), "pass list"), ([], "train_dataset must be not empty")):
        with pytest.raises(ArgumentError, match=message):
            RegVarTrainer(
                still(case_of("bert")), arguments(tmp_path), train_dataset=data, prior=PRIOR
            )


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: AmortizedRefit(lam=0.0), r"lam must be finite and not 0.*regvar\.sampled"),
        (lambda: SampledRefit(lam=float("inf")), "lam must be finite"),
        (lambda: SampledRefit(samples=0), "samples must be at least 1"),
    ],
)
def test_refits_refuse_what_means_nothing(build: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        build()
