"""What a network knows and what it does not: its most and least certain inputs, for a person."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from regvar.experiments.finetuned.page_values import METHODS, Study
from regvar.records import Record
from regvar.report import Beside, Excerpt, Excerpts, Gallery, Picture, Text, Token, number

READERS = ("sampled", "amortized", "map_only")  # whose uncertainty is shown: the first there is
LETTERS = 320  # of a text
SHOWN = {"test": 6}  # texts of each kind; others have fewer
FEWER = 3
KINDS = {"most_certain": "most certain", "least_certain": "least certain"}


def examples(study: Study, cell: str) -> tuple[Text | Beside, ...]:
    """All examples of a cell, in domain first; nothing where its records hold none."""
    record = _reader(study, cell)
    if record is None:
        return ()
    pairs = [
        pair
        for split, label in study.examples(cell).items()
        if (pair := _pair(record, split, label)) is not None
    ]
    shaded = _documents(record)
    if not pairs and shaded is None:
        return ()
    who = METHODS.get(record.method, record.method)
    words = Text((f"{study.cells[cell]}, seed {record.seed}, by the uncertainty of: {who}.",))
    return (words, *pairs, *([shaded] if shaded is not None else []))


def _reader(study: Study, cell: str) -> Record | None:
    """The record whose examples are shown."""
    others = (method for method in study.methods_of(cell) if method not in READERS)
    for method in (*READERS, *others):
        for record in study.of(cell, method):
            if any(record.extra.get(key) for key in ("texts", "images", "tokens")):
                return record
    return None


def _pair(record: Record, split: str, label: str) -> Beside | None:
    """The most and the least certain of a split."""
    made: list[Excerpts | Gallery] = []
    for kind, words in KINDS.items():
        title = f"{label[0].upper()}{label[1:]}, {words}"
        pictures = _rows(record, "images", split, kind)
        texts = _rows(record, "texts", split, kind)[: SHOWN.get(split, FEWER)]
        if pictures:
            made.append(Gallery(title, tuple(_picture(row, words) for row in pictures)))
        elif texts:
            made.append(Excerpts(title, tuple(map(_excerpt, texts))))
    return Beside(tuple(made)) if made else None


def _rows(record: Record, key: str, split: str, kind: str) -> Sequence[Mapping[str, Any]]:
    held = (record.extra.get(key) or {}).get(split) or {}
    wanted = "png" if key == "images" else "text"
    return [row for row in held.get(kind) or () if row.get(wanted)]


def _excerpt(row: Mapping[str, Any]) -> Excerpt:
    text = " ".join(str(row["text"]).split())
    cut = text if len(text) <= LETTERS else text[:LETTERS].rsplit(" ", 1)[0] + " …"
    return Excerpt(cut, _label(row), _numbers(row), row.get("correct"))


def _picture(row: Mapping[str, Any], words: str) -> Picture:
    png = base64.b64decode(row["png"])
    label = _label(row)
    return Picture(png, f"{label}, {words}", label, _numbers(row), row.get("correct"))


def _label(row: Mapping[str, Any]) -> str:
    label = row.get("label")
    return "no label" if label is None else str(label)


def _numbers(row: Mapping[str, Any]) -> str:
    said = [f"predicted {row['predicted']}"] if row.get("predicted") is not None else []
    for key, word, decimals in (
        ("confidence", "confidence", 2),
        ("uncertainty", "uncertainty", 2),
        ("epistemic", "epistemic", 3),
    ):
        if row.get(key) is not None:
            said.append(f"{word} {number(float(row[key]), decimals)}")
    return ", ".join(said)


def _documents(record: Record) -> Beside | None:
    """Held-out documents shaded by total and by epistemic uncertainty, side by side."""
    documents = [document for document in record.extra.get("tokens") or () if document]
    shown = {
        "uncertainty": "By total uncertainty, in nats",
        "epistemic": "By its epistemic part, in nats",
    }
    made = [found for key, title in shown.items() if (found := _shaded(documents, key, title))]
    return Beside(tuple(made)) if made else None


def _shaded(
    documents: Sequence[Sequence[Mapping[str, Any]]], key: str, title: str
) -> Excerpts | None:
    most = max((t[key] for d in documents for t in d if t.get(key) is not None), default=0.0)
    if most <= 0:
        return None
    return Excerpts(
        f"Held-out documents: {title[0].lower()}{title[1:]}",
        tuple(
            Excerpt(tuple(_token(token, key, most) for token in document), f"document {place}")
            for place, document in enumerate(documents, start=1)
        ),
        "Each token is shaded by how uncertain the network was of its place before it was seen.",
        ("0", number(most, 2 if most >= 1 else 4)),
    )


def _token(token: Mapping[str, Any], key: str, most: float) -> Token:
    said = [
        f"{word} {float(token[name]):.3g}"
        for name, word in (
            ("uncertainty", "uncertainty"),
            ("epistemic", "epistemic"),
            ("prob", "probability of this token"),
        )
        if token.get(name) is not None
    ]
    shade = min(1.0, max(0.0, float(token.get(key) or 0.0) / most))
    return Token(str(token["token"]), shade, ", ".join(said))
