"""A language model on a file of texts: each text's likelihood with its standard deviation."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, GPT2LMHeadModel

from regvar import storage
from regvar.finetuning import predict
from regvar.huggingface.readings import sequence_scores
from tests.finetuning import tiny
from tests.finetuning.fits import Fit, numbers
from tests.report.html_reader import read


def log_probs(fit: Fit, text: str) -> list[float]:
    """Of each token but the first, by the fitted network in `transformers` alone."""
    folder = fit.directory / "model"
    network = GPT2LMHeadModel.from_pretrained(folder).eval()
    batch = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")
    with torch.no_grad():
        log_p = network(**batch).logits[0].log_softmax(-1)
    ids = batch["input_ids"][0].tolist()
    return [float(log_p[k, token]) for k, token in enumerate(ids[1:])]


def test_each_text_has_the_mean_log_probability_of_its_tokens(language_fit: Fit) -> None:
    rows = language_fit.test
    assert len(rows) == 9
    for row in rows:
        expected = log_probs(language_fit, row["text"])
        assert int(row["tokens"]) == len(expected) == 4
        assert float(row["mean_log_prob"]) == pytest.approx(math.fsum(expected) / 4, rel=1e-4)


def test_scores_count_tokens_and_those_of_the_network_alone_are_the_rows_own(
    language_fit: Fit,
) -> None:
    rows, alone = language_fit.test, language_fit.metrics["test"]["map"]
    tokens = sum(int(row["tokens"]) for row in rows)
    total = sum(float(row["mean_log_prob"]) * int(row["tokens"]) for row in rows)
    assert alone["NLL"]["count"] == tokens == 36
    assert alone["NLL"]["value"] == pytest.approx(-total / tokens, rel=1e-5)


def test_standard_deviations_are_those_of_the_draws_with_the_scale_counted_once(
    language_fit: Fit,
) -> None:
    scale = language_fit.metrics["validation"]["scale"]
    assert scale > 0
    network = GPT2LMHeadModel.from_pretrained(language_fit.directory / "model").eval()
    uq = storage.load(language_fit.directory / "uq", network)
    tokenizer = AutoTokenizer.from_pretrained(language_fit.directory / "model")
    texts = [row["text"] for row in language_fit.test]
    std = sequence_scores(uq, dict(tokenizer(texts, return_tensors="pt"))).std
    expected = (math.sqrt(scale) * std).tolist()
    assert [float(row["std"]) for row in language_fit.test] == pytest.approx(expected, rel=1e-4)


def test_predict_says_of_the_test_texts_what_finetune_wrote(
    language_fit: Fit, tmp_path: Path
) -> None:
    made = predict(language_fit.directory, language_fit.directory / "test.csv", tmp_path / "p.csv")
    assert tiny.written(made.path) == language_fit.test


def test_a_text_of_one_token_has_none_to_predict(language_fit: Fit, tmp_path: Path) -> None:
    texts = tmp_path / "texts.jsonl"
    longer = {"text": language_fit.test[0]["text"]}
    texts.write_text("\n".join(map(json.dumps, ({"text": "good"}, longer))), encoding="utf-8")
    made = predict(language_fit.directory, texts, tmp_path / "p.csv")
    one, other = tiny.written(made.path)
    assert one == {"text": "good", "mean_log_prob": "", "std": "", "tokens": "0"}
    before = numbers(language_fit.test[0])
    assert numbers(other) == pytest.approx(before, rel=1e-4, abs=1e-6)
    made = predict(language_fit.directory, texts, tmp_path / "p.jsonl")
    first = json.loads(made.path.read_text(encoding="utf-8").splitlines()[0])
    assert first == {"text": "good", "mean_log_prob": None, "std": None, "tokens": 0}
    assert made.head().splitlines()[1].split() == ["good", "-", "-", "0"]


def test_the_page_names_the_texts_and_their_likelihoods(language_fit: Fit) -> None:
    text = " ".join(read(language_fit.html).text)
    for row in sorted(language_fit.test, key=lambda row: -float(row["std"]))[:4]:
        assert row["text"] in text
        assert f"mean log probability {float(row['mean_log_prob']):.3f}" in text
    assert "Scores on 36 test tokens." in text
