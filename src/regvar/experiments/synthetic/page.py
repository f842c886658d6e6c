"""The page of the synthetic study: what was found, beside what the paper printed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from regvar.errors import DataError
from regvar.experiments.synthetic import page_figures, page_tables, page_words
from regvar.experiments.synthetic.config import Config
from regvar.experiments.synthetic.page_values import METHODS, TASKS, Study
from regvar.records import Record, config_hash
from regvar.report import Code, Figure, Items, Page, Section, Table, Text

EXPERIMENT = "synthetic"
METRICS = ("PICP", "CRPS", "NLL")


def page(records: Sequence[Record]) -> Page:
    """The whole page; what the records do not hold is left out.

    Raises `DataError` when no record is of this study.
    """
    study = Study([record for record in records if record.experiment == EXPERIMENT])
    if not study.records:
        raise DataError(
            "records must hold some of the synthetic study, but they hold none. "
            "Run `regvar run synthetic` first."
        )
    sections = (
        _findings(study),
        _comparison(study),
        _bands(study),
        _sweeps(study),
        _parameters(study),
        _audit(study),
        _calibrated(study),
        _run(study),
    )
    return Page(
        "The synthetic study of Appendix C",
        page_words.lead(study),
        tuple(section for section in sections if section.parts),
    )


def _findings(study: Study) -> Section:
    return Section(
        "In short",
        (
            Items(page_words.findings(study)),
            Text(("The methods:",)),
            Items(page_words.meanings(study)),
        ),
    )


def _comparison(study: Study) -> Section:
    tables = [page_tables.scores(study, name) for name in METRICS]
    return Section(
        "Scores, beside the paper's",
        (
            Text(
                (
                    "The raw variances, as the paper scores them: a Gaussian predictive with the "
                    "network's output as mean, and the method's variance plus the observation "
                    "variance as variance. The paper's values are of one run.",
                    page_words.sizes(study),
                    page_words.printed_sine(),
                    page_words.printed_crps(),
                )
            ),
            *tables,
            page_tables.nll_sums(study),
        ),
    )


def _bands(study: Study) -> Section:
    drawn = (
        page_figures.pictures(
            study,
            "bands-paper",
            page_figures.PAPER_FOUR,
            "The paper's four panels on Sin-Inbetween.",
        ),
        page_figures.pictures(
            study,
            "bands-regvar",
            page_figures.OTHER_THREE,
            "RegVar's other readings of the same network.",
        ),
    )
    return Section("Sin-Inbetween", _there(*drawn))


def _sweeps(study: Study) -> Section:
    drawn = _there(page_figures.variance_sweeps(study), page_figures.lam_sweeps(study))
    return Section("How the observation variance and λ were chosen", drawn)


def _parameters(study: Study) -> Section:
    methods = study.holders("sparsity")
    tables: list[Table] = []
    if methods:
        tables = [page_tables.sparsity(study), page_tables.zeroed(study)]
    figures = _there(page_figures.parameter_intervals(study), page_figures.sparsity(study))
    return Section("Parameters and sparsity", (*figures, *tables))


def _audit(study: Study) -> Section:
    if not page_tables.audited(study):
        return Section("Audit", ())
    words = Text((page_words.audited_how(study),))
    return Section(
        "Audit of each estimator",
        (
            words,
            *_there(page_figures.audit_ranks(study)),
            page_tables.audit_ranks(study),
            page_tables.audit_scales(study),
            page_words.verdicts(study),
        ),
    )


def _calibrated(study: Study) -> Section:
    if not study.holders("scale"):
        return Section("Calibrated", ())
    words = Text(
        (
            "Each method's variance multiplied by the one number that maximizes the likelihood of "
            "the validation data, then scored as before.",
        )
    )
    tables = [page_tables.calibrated(study, name) for name in METRICS]
    return Section("Calibrated", (words, *tables, page_tables.scales(study)))


def _run(study: Study) -> Section:
    configs = {record.config_hash: record.config for record in study.records}
    settings = "\n\n".join(
        "\n".join(f"{name}: {json.dumps(config[name])}" for name in sorted(config))
        for config in configs.values()
    )
    return Section(
        "How it was run",
        (
            *_command(study),
            page_tables.provenance(study),
            page_tables.cost(study),
            Text((page_words.warned(study), "The settings, as the records hold them:")),
            Code(settings),
        ),
    )


def _command(study: Study) -> tuple[Text | Code, ...]:
    if {r.config_hash for r in study.records} != {config_hash(asdict(Config()))}:
        return (Text(("Run under other settings than those of `regvar run synthetic`.",)),)
    options = f" --seeds {page_words.ranges(study.seeds)}"
    for option, asked, known in (
        ("cells", study.tasks, TASKS),
        ("methods", {record.method for record in study.records}, METHODS),
    ):
        if set(asked) != set(known):
            options += f" --{option} {','.join(name for name in known if name in asked)}"
    return (Code(f"regvar run synthetic{options} --out records\nregvar report records"),)


def _there(*figures: Figure | None) -> tuple[Figure, ...]:
    return tuple(figure for figure in figures if figure is not None)
