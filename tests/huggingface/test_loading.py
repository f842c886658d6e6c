"""Networks by name: from a directory, with and without an adapter, and what a wrong name says."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

from regvar.errors import ArgumentError, ModelError
from regvar.huggingface import loading


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A tiny BERT with a word-level tokenizer, as `save_pretrained` writes them."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({"[PAD]": 0, "[UNK]": 1, "good": 2, "bad": 3}, "[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]"
    )
    config = BertConfig(
        vocab_size=4,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=8,
        num_labels=2,
    )
    torch.manual_seed(3)
    BertForSequenceClassification(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    return tmp_path


def test_a_directory_is_read_and_its_head_replaced_by_the_seed(saved: Path) -> None:
    state = torch.get_rng_state()
    first, again = (loading.load(saved, "sequence-classification", 3) for _ in range(2))
    other = loading.load(saved, "sequence-classification", 3, seed=1)
    assert torch.equal(torch.get_rng_state(), state)
    assert first.origin == "directory" and not first.model.training
    heads = [p.model.classifier.weight for p in (first, again, other)]
    assert heads[0].shape == (3, 8)
    assert torch.equal(heads[0], heads[1])
    assert not torch.equal(heads[0], heads[2])
    original = BertForSequenceClassification.from_pretrained(saved)
    body = original.bert.encoder.layer[0].output.dense.weight
    assert torch.equal(first.model.bert.encoder.layer[0].output.dense.weight, body)
    assert first.processor("good bad")["input_ids"] == [2, 3]


def test_frozen_modules_and_adapters_leave_little_to_train(saved: Path) -> None:
    whole = loading.load(saved, "sequence-classification", 2)
    frozen = loading.load(saved, "sequence-classification", 2, frozen=("embeddings",))
    embeddings = sum(p.numel() for p in whole.model.bert.embeddings.parameters())
    assert frozen.trainable == whole.trainable - embeddings
    adapter = loading.Adapter(rank=2, targets=("query", "value"))
    lora = loading.load(saved, "sequence-classification", 2, adapter=adapter)
    names = {k for k, p in lora.model.named_parameters() if p.requires_grad}
    assert all("lora_" in k or "classifier" in k for k in names)
    assert lora.trainable == 2 * (2 * 8 + 8 * 2) + (2 * 8 + 2)


def test_wrong_arguments_say_what_to_do(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ArgumentError, match=r"Did you mean 'sequence-classification'\?"):
        loading.load(saved, "sequence-clasification", 2)
    with pytest.raises(ArgumentError, match="classes must be the number of classes"):
        loading.load(saved, "sequence-classification")
    with pytest.raises(ArgumentError, match=r"frozen must name .* Did you mean 'embeddings'"):
        loading.load(saved, "sequence-classification", 2, frozen=("embedings",))
    with pytest.raises(ModelError, match=r"'minilmm' cannot be read: .* Did you mean 'minilm'\?"):
        loading.load("minilmm", "sequence-classification", 2)
