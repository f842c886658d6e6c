"""Texts with labels: what `finetune` writes of its test rows is true, and `predict` agrees."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from torch import Tensor, nn
from transformers import AutoTokenizer, BertForSequenceClassification

from regvar import storage
from regvar.finetuning import predict, sources, splitting
from regvar.huggingface.adapters import load_adapters
from tests.finetuning import tiny
from tests.finetuning.fits import Fit, nll, numbers

CLASSES = ("negative", "positive")


def network(fit: Fit) -> nn.Module:
    """The fitted network, by `transformers` and PEFT alone."""
    if not fit.settings.lora:
        return BertForSequenceClassification.from_pretrained(fit.directory / "model").eval()
    base = BertForSequenceClassification.from_pretrained(fit.settings.model_name, num_labels=2)
    return PeftModel.from_pretrained(base, str(fit.directory / "uq" / "map")).eval()


def moments(fit: Fit, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
    """f and σ²_f as it is read, not yet scaled: each class's own, or their mean."""
    mean, variance = raw_moments(fit, texts)
    return mean, pooled(variance) if fit.card["shared"] else variance


def pooled(variance: Tensor) -> Tensor:
    return variance.mean(-1, keepdim=True).expand_as(variance)


def raw_moments(fit: Fit, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
    folder = fit.directory / "uq"
    if fit.settings.lora:
        base = BertForSequenceClassification.from_pretrained(fit.settings.model_name, num_labels=2)
        uq = load_adapters(folder, base)
    else:
        uq = storage.load(folder, network(fit))
    found = uq.moments(encoded(fit, texts))
    return found.mean, found.variance


def encoded(fit: Fit, texts: Sequence[str]) -> dict[str, Tensor]:
    tokenizer = AutoTokenizer.from_pretrained(fit.settings.model_name)
    return dict(tokenizer(list(texts), return_tensors="pt", padding=True))


def mean_log_prob(f: Tensor, variance: Tensor, scale: float, labels: Tensor) -> float:
    """Of the labels by Eq. 20, written out."""
    log_p = (f / (1 + math.pi / 8 * scale * variance).sqrt()).double().log_softmax(-1)
    return float(log_p[torch.arange(len(labels)), labels].mean())


def test_predict_says_of_the_test_rows_what_finetune_wrote(any_fit: Fit, tmp_path: Path) -> None:
    made = predict(any_fit.directory, any_fit.directory / "test.csv", tmp_path / "again.csv")
    assert made.rows == 60
    for again, before in zip(tiny.written(made.path), any_fit.test, strict=True):
        if not any_fit.settings.lora:
            assert again == before
        # An adapter's differences δ are those of two files, each of them rounded.
        assert (again["text"], again["predicted"]) == (before["text"], before["predicted"])
        assert numbers(again) == pytest.approx(numbers(before), rel=1e-5, abs=1e-7)


def test_probabilities_are_those_of_one_distribution(any_fit: Fit) -> None:
    for row in any_fit.test:
        found = [float(row[f"probability_{name}"]) for name in CLASSES]
        assert sum(found) == pytest.approx(1.0, abs=1e-6)
        assert float(row["confidence"]) == max(found)
        assert row["predicted"] == CLASSES[found.index(max(found))]
        total = -sum(p * math.log(p) for p in found)
        assert float(row["total"]) == pytest.approx(total, rel=1e-5)
        assert 0 < float(row["epistemic"]) <= float(row["total"])


def test_scores_are_those_of_the_rows_on_file(any_fit: Fit) -> None:
    scores = any_fit.metrics["test"]
    assert scores["regvar"]["NLL"]["value"] == pytest.approx(nll(any_fit.test), rel=1e-5)
    right = [row["predicted"] == row["label"] for row in any_fit.test]
    assert scores["regvar"]["accuracy"]["value"] == pytest.approx(sum(right) / 60)
    assert {k: v["count"] for k, v in scores["regvar"].items()} == dict.fromkeys(
        ("NLL", "ECE", "accuracy", "AUROC of errors"), 60
    )
    assert any_fit.made.scores == scores


def test_scores_of_the_network_alone_are_those_of_its_softmax(any_fit: Fit) -> None:
    rows = any_fit.test
    labels = torch.tensor([CLASSES.index(row["label"]) for row in rows])
    with torch.no_grad():
        f = network(any_fit)(**encoded(any_fit, [row["text"] for row in rows])).logits
    alone = any_fit.metrics["test"]["map"]
    assert alone["NLL"]["value"] == pytest.approx(
        -mean_log_prob(f, torch.zeros_like(f), 0.0, labels), rel=1e-5
    )
    assert alone["accuracy"]["value"] == pytest.approx(
        float((f.argmax(-1) == labels).float().mean())
    )


def test_probabilities_are_those_of_the_moments_with_the_scale_counted_once(any_fit: Fit) -> None:
    rows, scale = any_fit.test, any_fit.metrics["validation"]["scale"]
    assert scale > 0 and scale == any_fit.card["scale"]
    f, variance = moments(any_fit, [row["text"] for row in rows])
    expected = (f / (1 + math.pi / 8 * scale * variance).sqrt()).softmax(-1)
    found = [[float(row[f"probability_{name}"]) for name in CLASSES] for row in rows]
    torch.testing.assert_close(torch.tensor(found), expected, rtol=1e-4, atol=1e-6)


def test_the_scale_is_the_best_one_on_the_validation_rows(any_fit: Fit) -> None:
    whole = sources.read(any_fit.settings)
    part = splitting.split(whole, None, any_fit.settings.seed)["validation"].rows
    assert isinstance(part, sources.Texts) and part.labels is not None
    f, variance = moments(any_fit, part.texts)
    held = any_fit.metrics["validation"]
    scale, best = held["scale"], held["log_likelihood"]
    assert best == pytest.approx(mean_log_prob(f, variance, scale, part.labels), rel=1e-5)
    for other in (0.0, scale / 3, scale * 3):
        assert best > mean_log_prob(f, variance, other, part.labels)
    assert held["log_likelihood_of_map"] == pytest.approx(
        mean_log_prob(f, variance, 0.0, part.labels), rel=1e-5
    )


def test_variances_are_read_as_the_validation_rows_prefer(any_fit: Fit) -> None:
    whole = sources.read(any_fit.settings)
    part = splitting.split(whole, None, any_fit.settings.seed)["validation"].rows
    assert isinstance(part, sources.Texts) and part.labels is not None
    f, variance = raw_moments(any_fit, part.texts)
    best = [
        max(mean_log_prob(f, v, 10 ** (k / 20), part.labels) for k in range(-160, 161))
        for v in (variance, pooled(variance))
    ]
    assert any_fit.card["shared"] == any_fit.metrics["validation"]["shared"] == (best[1] > best[0])
    assert any_fit.metrics["validation"]["log_likelihood"] == pytest.approx(max(best), abs=1e-3)
    said = "one variance for all classes" if any_fit.card["shared"] else "a variance for each class"
    assert said in any_fit.html


def test_the_test_rows_are_a_fifth_of_the_table_with_its_labels(
    any_fit: Fit, rows: list[tuple[str, str]]
) -> None:
    parts = splitting.split(sources.read(any_fit.settings), None, any_fit.settings.seed)
    held = [rows[i] for i in parts["test"].indices]
    assert [(row["text"], row["label"]) for row in any_fit.test] == held
    assert any_fit.metrics["rows"] == {"train": 180, "validation": 60, "test": 60}
    for name, part in parts.items():
        assert any_fit.card["data"][name]["manifest"] == part.manifest
    assert any_fit.said[0] == (
        "Rows of sentences.csv: 180 train, 60 validation, 60 test; 2 classes: negative, positive"
    )


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("sampled", {f"displacement-000{k}.safetensors" for k in range(3)}),
        ("amortized", {"displacement-0000.safetensors"}),
        ("sampled-lora", {f"regvar-000{k}" for k in range(3)}),
        ("amortized-lora", {"regvar-0000"}),
    ],
)
def test_each_method_keeps_what_its_refits_found(
    texts_fits: Callable[[str], Fit], name: str, kept: set[str]
) -> None:
    found = texts_fits(name)
    refits = {p.name for p in (found.directory / "uq").iterdir()}
    assert {p for p in refits if p.startswith(("displacement", "regvar"))} == kept
    assert (found.directory / "model").exists() != found.settings.lora
    said = "4 refits" if found.settings.method == "sampled" else "one refit"
    assert f"Uncertainty: {said}, an epoch each" in found.said[2]


def test_new_rows_are_told_apart_in_their_order(any_fit: Fit, tmp_path: Path) -> None:
    fresh = tiny.sentences(80, seed=7)
    made = predict(any_fit.directory, tiny.table(tmp_path / "fresh.csv", fresh), tmp_path / "p.csv")
    found = tiny.written(made.path)
    assert [row["text"] for row in found] == [text for text, _ in fresh]
    right = [row["predicted"] == label for row, (_, label) in zip(found, fresh, strict=True)]
    assert sum(right) / len(right) > 0.8


def test_an_answer_does_not_depend_on_the_rows_around_it(texts_fit: Fit, tmp_path: Path) -> None:
    rows = texts_fit.test
    some = tiny.table(tmp_path / "some.csv", [(row["text"], "") for row in rows[::-1][:7]])
    made = predict(texts_fit.directory, some, tmp_path / "p.csv")
    for found, before in zip(tiny.written(made.path), rows[::-1][:7], strict=True):
        assert numbers(found) == pytest.approx(numbers(before), rel=1e-4, abs=1e-6)


def test_the_saved_network_knows_the_names_of_its_classes(texts_fit: Fit) -> None:
    found = BertForSequenceClassification.from_pretrained(texts_fit.directory / "model").config
    assert found.id2label == {0: "negative", 1: "positive"}
    assert found.label2id == {"negative": 0, "positive": 1}


def test_a_card_holds_settings_classes_and_versions(any_fit: Fit) -> None:
    card = any_fit.card
    assert card["settings"] == any_fit.settings.to_json()
    assert card["classes"] == list(CLASSES)
    assert card["map"]["epochs"] == 20
    assert {"regvar", "torch", "transformers", "peft", "tokenizers"} <= card["versions"].keys()
    tallies = [card["data"][name]["by_class"] for name in ("train", "validation", "test")]
    assert sum(sum(tally.values()) for tally in tallies) == 300


def test_the_summary_is_a_table_of_both(any_fit: Fit) -> None:
    head, alone, ours = any_fit.made.summary().splitlines()
    assert head.split() == ["NLL", "ECE", "accuracy", "AUROC", "of", "errors"]
    assert alone.split()[:2] == ["map", f"{any_fit.metrics['test']['map']['NLL']['value']:.3f}"]
    assert ours.split()[:2] == ["regvar", f"{nll(any_fit.test):.3f}"]
