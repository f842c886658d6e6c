"""The page of a fine-tuned study: what was found, beside what the paper printed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from regvar.errors import DataError
from regvar.experiments.finetuned import (
    cells as known,
    page_effects,
    page_examples,
    page_figures,
    page_shared,
    page_tables,
    page_words,
)
from regvar.experiments.finetuned.page_values import Study
from regvar.experiments.synthetic.page_tables import provenance
from regvar.experiments.synthetic.page_values import Study as AnyStudy
from regvar.experiments.synthetic.page_words import ranges
from regvar.records import Record, config_hash
from regvar.report import Code, Figure, Items, Page, Section, Text

TITLES = {
    "snippets": "Fine-tuned on rated snippets",
    "table1-sentiment": "Table 1 in small: sentiment",
    "table1-lm-small": "Table 1 in small: language models",
    "table1-lm-xl": "Table 1 in small: a larger language model",
    "table1-vit": "Table 1 in small: images",
}


def page(records: Sequence[Record]) -> Page:
    """The whole page; what the records do not hold is left out.

    Raises `DataError` when the records are not of one study.
    """
    names = sorted({record.experiment for record in records})
    if len(names) != 1:
        raise DataError(
            f"records must be of one fine-tuned study, but they are of {len(names)}: "
            f"{', '.join(names) or 'none'}. Give the page the records of one."
        )
    study = Study(records)
    summary = next((found.summary for found in known.STUDIES if found.name == study.name), "")
    sections = (
        Section("In short", _items(page_words.findings(study))),
        _methods(study),
        *(_scores(study, cell) for cell in study.cells),
        _paper(study),
        _effects(study),
        _shared(study),
        _tuning(study),
        _curves(study),
        _examples(study),
        _run(study),
    )
    return Page(
        TITLES.get(study.name, study.name),
        page_words.lead(study, summary),
        tuple(section for section in sections if section.parts),
    )


def _methods(study: Study) -> Section:
    scaled = (
        "The variance of every method is multiplied by one number, which maximizes the likelihood "
        "of the validation data; then the extended probit approximation (Eq. 20) makes "
        "probabilities of it. Total uncertainty is the entropy of those; its epistemic part is "
        "what knowing the weights would take away."
    )
    return Section(
        "The networks and the methods",
        (
            *_items(page_words.cells(study)),
            *_items(page_words.meanings(study)),
            Text((scaled,)),
        ),
    )


def _scores(study: Study, cell: str) -> Section:
    return Section(f"Scores: {study.cells[cell]}", page_tables.scores(study, cell))


def _paper(study: Study) -> Section:
    made = (page_tables.beside_paper(study, cell) for cell in study.cells)
    tables = tuple(table for table in made if table is not None)
    words = (
        "None of these networks is the paper's, and the data are smaller or others: each table "
        "names its stand-in. The paper's Table 1, from which its columns are taken, has "
        "GPT-Neo-125M and 1.3B and ViT-Base on up to 40,000 documents.",
        page_words.unmatched(study),
    )
    said = Text(tuple(text for text in (words if tables else words[1:]) if text))
    return Section("Beside the paper's Table 1", (said, *tables))


def _effects(study: Study) -> Section:
    present = set(study.methods)
    if len(present & {*page_effects.SINGLE, "sampled"}) < 2:
        return Section("Two effects told apart", ())
    words = (
        "A refit moves the network for two reasons: training goes on, since it ended before "
        "the optimum, and the regularizer pulls. Drift has the first alone; the control, "
        "which is subtracted, leaves the second alone; sampled refits share one control.",
    )
    tables = [
        made(study, cell)
        for cell in study.cells
        for made in (page_effects.effects_table, page_effects.differences)
    ]
    return Section(
        "Two effects told apart",
        (Text(words), *(table for table in tables if table.columns and table.rows)),
    )


def _shared(study: Study) -> Section:
    words = (
        "Eq. 20 gives each logit a κ of its own, so that variances that differ between the outputs "
        "of one input can change its most probable class. With their mean for all of them, κ is a "
        "temperature of that input, and the class stays the network's. In domain, each method "
        "scaled anew.",
    )
    tables = page_shared.tables(study)
    return Section("One variance for all outputs", (Text(words), *tables) if tables else ())


def _tuning(study: Study) -> Section:
    drawn = _there(page_figures.tuning(study), page_figures.surfaces(study))
    return Section("How each method was tuned", (page_tables.settings(study), *drawn))


def _curves(study: Study) -> Section:
    drawn = [
        figure
        for cell in study.cells
        for draw in (page_figures.calibration, page_figures.selective, page_figures.strengths)
        for figure in _there(draw(study, cell))
    ]
    return Section("Calibration before and after", tuple(drawn))


def _examples(study: Study) -> Section:
    parts = [part for cell in study.cells for part in page_examples.examples(study, cell)]
    return Section("What the network knows, and what it does not", tuple(parts))


def _run(study: Study) -> Section:
    settings = "\n\n".join(
        "\n".join((f"# {cell}", *(f"{k}: {json.dumps(v)}" for k, v in sorted(config.items()))))
        for cell in study.cells
        for config in (study.config(cell),)
    )
    return Section(
        "How it was run",
        (
            *_command(study),
            *_there(page_figures.clock(study)),
            page_tables.cost(study),
            provenance(AnyStudy(study.records)),
            Text((page_words.warned(study), "The settings, as the records hold them:")),
            Code(settings),
        ),
    )


def _command(study: Study) -> tuple[Text | Code, ...]:
    found = next((made for made in known.STUDIES if made.name == study.name), None)
    hashes = {
        cell: config_hash(asdict(config)) for cell, config in (found.cells if found else {}).items()
    }
    if any(hashes.get(record.cell) != record.config_hash for record in study.records):
        return (Text((f"Run under other settings than those of `regvar run {study.name}`.",)),)
    options = f" --seeds {ranges(study.seeds)}"
    if set(study.cells) != set(hashes):
        options += f" --cells {','.join(study.cells)}"
    if set(study.methods) != set(known.METHODS):
        options += f" --methods {','.join(study.methods)}"
    return (Code(f"regvar run {study.name}{options} --out records\nregvar report records"),)


def _items(texts: tuple[str, ...]) -> tuple[Items, ...]:
    return (Items(texts),) if texts else ()


def _there(*figures: Figure | None) -> tuple[Figure, ...]:
    return tuple(figure for figure in figures if figure is not None)
