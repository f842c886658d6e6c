"""The fine-tuned studies end to end on tiny networks, against plain torch and scikit-learn."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.metrics import roc_auc_score
from transformers import MobileNetV2ForImageClassification

from regvar import amortized, calibrate, records
from regvar.data import GaussianNoise, Images, Texts
from regvar.errors import DataError
from regvar.experiments import pipeline
from regvar.experiments.finetuned import METHODS, STUDIES, Study, experiment, methods
from regvar.experiments.finetuned.config import Part
from regvar.experiments.finetuned.problem import Problem, drawn, prepare
from regvar.experiments.finetuned.scores import score, shift_auroc
from regvar.records import Record
from regvar.solvers import Finetune
from tests.experiments.tiny import Place, config, furnished


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with furnished(tmp_path_factory.mktemp("networks")) as found:
        yield found


@pytest.fixture(scope="module")
def problem(place: Place) -> Problem:
    return prepare(config(place, "bert"), 0)


@pytest.fixture(scope="module")
def found(place: Place, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Record]:
    directory = tmp_path_factory.mktemp("records")
    cells = {kind: config(place, kind) for kind in ("bert", "gpt2", "vit")}
    study = Study("tiny", "", cells, {"gpt2": ("gradient_norm",)}, seeds=(0,))
    tally = pipeline.build(experiment(study), directory)
    assert tally.built == 3 * len(METHODS) - 1
    return {(r.cell, r.method): r for r in records.read(directory)}


def logits_and_labels(problem: Problem, split: str) -> tuple[torch.Tensor, torch.Tensor]:
    """By transformers alone."""
    network, rows = problem.joint.model, problem.rows[split]
    assert isinstance(rows, Texts) and rows.labels is not None
    with torch.no_grad():
        encoded = problem.processor(list(rows.texts), return_tensors="pt")
        return network(**encoded).logits.double(), rows.labels


def test_every_method_has_its_record(found: dict[tuple[str, str], Record]) -> None:
    assert set(methods.METHODS) == set(METHODS)
    for (cell, _), record in found.items():
        assert np.isfinite(record.metrics["test"]["NLL"]["value"])
        assert record.extra["trainable"] > 0 and set(record.seconds) == {"map", "fit", "inference"}
        assert ("images" if cell == "vit" else "texts") in record.extra


def auroc_range(above: torch.Tensor, below: torch.Tensor) -> tuple[float, float]:
    """With pairs that single precision need not tell apart decided either way."""
    gap = above[:, None] - below
    return float((gap > 1e-6).double().mean()), float((gap > -1e-6).double().mean())


def test_the_maps_scores_are_those_of_plain_torch(
    problem: Problem, found: dict[tuple[str, str], Record]
) -> None:
    record = found["bert", "map_only"]
    logits, labels = logits_and_labels(problem, "test")
    probabilities = logits.softmax(-1)
    test = record.metrics["test"]
    nll = -probabilities[torch.arange(16), labels].log().mean()
    assert test["NLL"]["value"] == pytest.approx(float(nll), rel=1e-5)
    right = probabilities.argmax(-1) == labels
    assert test["accuracy"]["value"] == pytest.approx(float(right.double().mean()))
    brier = (probabilities - torch.nn.functional.one_hot(labels, 2)).square().sum(-1).mean()
    assert test["Brier"]["value"] == pytest.approx(float(brier), rel=1e-5)
    entropy = -(probabilities * probabilities.log()).sum(-1)
    if 0 < int(right.sum()) < 16:
        least, most = auroc_range(entropy[~right], entropy[right])
        assert least - 1e-6 <= test["AUROC of errors"]["value"] <= most + 1e-6
    shown = record.extra["texts"]["test"]["least_certain"]
    rows = problem.rows["test"]
    assert isinstance(rows, Texts)
    assert shown[0]["text"] == rows.texts[int(entropy.argmax())]
    assert shown[0]["uncertainty"] == pytest.approx(float(entropy.max()), rel=1e-4)


def test_shift_is_told_by_entropy(problem: Problem, found: dict[tuple[str, str], Record]) -> None:
    """Of rows without labels there is nothing but uncertainty to score."""
    record = found["bert", "map_only"]
    readings = ("", ", epistemic", ", variance")
    assert set(record.metrics["others"]) == {f"AUROC of shift{word}" for word in readings}
    inside, _ = logits_and_labels(problem, "test")
    rows = problem.rows["others"]
    assert isinstance(rows, Texts) and rows.labels is None
    with torch.no_grad():
        encoded = problem.processor(list(rows.texts), return_tensors="pt")
        outside = problem.joint.model(**encoded).logits.double()
    entropies = [-(z.softmax(-1) * z.log_softmax(-1)).sum(-1) for z in (inside, outside)]
    expected = roc_auc_score([0] * 16 + [1] * 20, torch.cat(entropies))
    assert record.metrics["others"]["AUROC of shift"]["value"] == pytest.approx(expected, abs=1e-6)


def test_shift_is_told_by_variance_whatever_its_scale(problem: Problem) -> None:
    uq = amortized(problem.joint, solver=Finetune(lam=0.1, lr=1e-3))
    known = calibrate(uq, problem.loaders["validation"])
    loaders = [problem.loaders[name] for name in ("test", "others")]
    inside, outside = ([score(c, x) for x in loaders] for c in (known, replace(known, scale=0.0)))
    spread = [torch.cat([uq.moments(b).variance.mean(-1) for b in x]) for x in loaders]
    expected = roc_auc_score([0] * 16 + [1] * 20, torch.cat(spread))
    for pair in (inside, outside):
        value = shift_auroc(*pair)["AUROC of shift, variance"].value
        assert value == pytest.approx(expected, abs=1e-6)


def test_shared_refits_are_the_refits_one_by_one(problem: Problem) -> None:
    """Amortized minus drift is what the solver does with a control of its own."""
    solver = Finetune(lam=0.5, epochs=1, lr=1e-3, measure_residual=False, seed=problem.seed)
    batch = next(iter(problem.loaders["test"]))
    for control, ours in (
        (False, problem.refits.amortized(0.5, 1e-3)),
        (True, problem.refits.controlled(0.5, 1e-3)),
    ):
        alone = amortized(problem.joint, solver=replace(solver, control=control))
        expected, actual = alone.moments(batch).variance, ours.moments(batch).variance
        assert float(expected.max()) > 1e-6
        assert torch.allclose(actual, expected, rtol=1e-3, atol=1e-3 * float(expected.max()))


def test_time_is_that_of_all_refits_that_a_method_reads(problem: Problem) -> None:
    refits = replace(problem.refits, _held={})
    refits.drift(1e-3)
    refits.clock()
    refits.controlled(0.5, 1e-3)
    assert refits.reused == refits._held["drift", 1e-3][1] > 0.0
    refits.clock()
    refits.amortized(0.5, 1e-3)
    assert refits.reused == refits._held["amortized", 0.5, 1e-3][1]


def test_settings_and_scale_are_the_best_for_validation(
    found: dict[tuple[str, str], Record],
) -> None:
    for method, name in (("amortized", "lam"), ("mc_dropout", "rate")):
        extra = found["bert", method].extra
        best = max(extra["trials"], key=lambda trial: trial["log_likelihood"])
        assert extra["settings"][name] == best[name]
        assert extra["scale"] == best["scale"] and extra["validation"] == best["log_likelihood"]
        assert max(best["curve"]["log_likelihood"]) == pytest.approx(best["log_likelihood"])


def test_one_variance_for_all_outputs_is_scored_too(
    problem: Problem, found: dict[tuple[str, str], Record]
) -> None:
    """By a search of its own: a temperature for each input keeps the network's classes."""
    assert found["gpt2", "drift"].extra["shared"] is None
    held = found["bert", "drift"].extra["shared"]
    assert held["test"]["accuracy"] == found["bert", "map_only"].extra["shared"]["test"]["accuracy"]
    uq = problem.refits.drift(problem.config.refit_lr)

    def nll(split: str, scale: float) -> float:
        logits, labels = logits_and_labels(problem, split)
        moments = [uq.moments(batch) for batch in problem.loaders[split]]
        spread = torch.cat([m.variance.double().mean(-1) for m in moments])
        kappa = 1 / (1 + torch.pi * scale * spread / 8).sqrt()
        order = sorted(range(len(labels)), key=lambda i: len(problem.rows[split].texts[i]))
        assert order == list(range(len(labels)))
        return float(torch.nn.functional.cross_entropy(logits * kappa[:, None], labels))

    assert held["test"]["NLL"]["value"] == pytest.approx(nll("test", held["scale"]), rel=1e-4)
    best = nll("validation", held["scale"])
    assert all(nll("validation", held["scale"] * f) >= best - 1e-5 for f in (0.5, 0.9, 1.1, 2.0))


def test_fewer_draws_are_scored_too(found: dict[tuple[str, str], Record]) -> None:
    fewer = found["bert", "sampled"].extra["fewer"]
    assert set(fewer) == {"1", "4"}
    assert set(fewer["1"]["test"]) == {"NLL", "ECE", "accuracy"}
    assert found["bert", "amortized"].extra["fewer"] == {}


def test_a_language_models_tokens_are_told_one_by_one(
    place: Place, found: dict[tuple[str, str], Record]
) -> None:
    documents = found["gpt2", "sampled"].extra["tokens"]
    rows = prepare(config(place, "gpt2"), 0).rows["test"]
    assert isinstance(rows, Texts)
    for told, text in zip(documents, rows.texts, strict=False):
        assert [t["token"] for t in told] == text.split()[1:]
        assert all(t["uncertainty"] >= t["epistemic"] >= -1e-6 for t in told)
    logits_free = found["gpt2", "map_only"].extra["tokens"][0]
    assert all(t["epistemic"] == pytest.approx(0.0, abs=1e-6) for t in logits_free)
    assert found["gpt2", "map_only"].metrics["test"]["NLL"]["count"] == 16 * 5


def test_images_are_kept_as_pictures(found: dict[tuple[str, str], Record]) -> None:
    held = found["vit", "map_only"].extra["images"]
    rows = drawn(Part("squares", "all", 12, offset=60, corruption="noise-5"), 0).data
    clean = drawn(Part("squares", "all", 12, offset=60), 0).data
    assert isinstance(rows, Images) and isinstance(clean, Images)
    assert torch.equal(rows.pixels, GaussianNoise(5)(clean).pixels)
    png = base64.b64decode(held["noise-5"]["most_certain"][0]["png"])
    shown = torch.from_numpy(np.array(Image.open(io.BytesIO(png))))
    assert any(torch.equal(shown, picture) for picture in rows.pixels)


def test_the_map_is_trained_once(place: Place, problem: Problem) -> None:
    again = prepare(config(place, "bert"), 0)
    for name, p in problem.joint.parameters.items():
        assert torch.equal(p, again.joint.parameters[name])
    other = prepare(replace(config(place, "bert"), refit_lr=1.0), 0)  # does not matter to the MAP
    assert other.fit.value == again.fit.value
    assert prepare(replace(config(place, "bert"), lr=2e-2), 0).fit.value != again.fit.value


def test_a_map_comes_back_from_disk_with_its_running_means(place: Place) -> None:
    """Batch norm's buffers move in training and are no parameters."""
    problem = prepare(config(place, "mobilenet"), 0)
    first = problem.joint.model
    again = prepare(config(place, "mobilenet"), 0).joint.model
    fresh = MobileNetV2ForImageClassification.from_pretrained(place.mobilenet).state_dict()
    name = "mobilenet_v2.conv_stem.first_conv.normalization.running_mean"
    assert not torch.equal(first.state_dict()[name], fresh[name])
    assert torch.equal(problem.before[name], fresh[name])
    for key, value in first.state_dict().items():
        assert torch.equal(value, again.state_dict()[key]), key


def test_more_rows_than_there_are_is_an_error(place: Place) -> None:
    with pytest.raises(DataError, match=r"size of words/all must be at most 20 beyond row 60"):
        drawn(Part("words", "all", 40, offset=60), 0)


def test_texts_to_classify_stand_by_length(place: Place, problem: Problem) -> None:
    rows, part = problem.rows["test"], drawn(config(place, "bert").test, 0).data
    assert isinstance(rows, Texts) and isinstance(part, Texts)
    lengths = [len(text) for text in rows.texts]
    assert lengths == sorted(lengths) and len(set(lengths)) > 1
    assert sorted(rows.content()) == sorted(part.content())


def test_parts_of_the_studies_do_not_overlap() -> None:
    for study in STUDIES:
        for cell, settings in study.cells.items():
            taken: dict[tuple[str, str], list[tuple[int, int]]] = {}
            for part in (settings.train, settings.validation, settings.test):
                taken.setdefault((part.data, part.split), []).append(
                    (part.offset, part.offset + part.size)
                )
            for spans in taken.values():
                ordered = sorted(spans)
                assert all(a[1] <= b[0] for a, b in pairwise(ordered)), cell
        assert all(set(names) <= set(METHODS) for names in study.without.values())
