"""`list`, `run`, `report` and `demo`: what they say, and how they refuse."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from regvar import experiments, records
from regvar.cli.commands import DEMOS
from regvar.cli.summary import summary
from tests.cli.calling import Call
from tests.report import finetuned_study
from tests.report.html_reader import read

RECORDS = Path(__file__).parents[2] / "records"
CELL = Path("synthetic") / "sin-inbetween"


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds of one cell, of every method."""
    root = tmp_path_factory.mktemp("records")
    for method in sorted((RECORDS / CELL).iterdir()):
        for seed in (0, 1):
            target = root / CELL / method.name / f"seed-{seed}.json"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(method / target.name, target)
    return root


def test_list_names_every_experiment_with_its_cells_methods_and_seeds(call: Call) -> None:
    found = call("list")
    assert found.code == 0 and found.err == ""
    blocks = found.out.split("\n  seeds:")
    assert len(blocks) == len(experiments.EXPERIMENTS) + 1
    for block, (name, experiment) in zip(blocks, experiments.EXPERIMENTS.items(), strict=False):
        assert f"{name}: {experiment.summary}" in block
        assert all(cell in block for cell in experiment.cells)
        assert all(method in block for method in experiment.methods)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("synthetc",), "NAME must be among synthetic, .* Did you mean 'synthetic'\\?"),
        (("zzz",), "NAME must be among .* but 'zzz' is not\\."),
        (("synthetic", "--methods", "gnn"), "methods must be among .* Did you mean 'ggn'\\?"),
        (("synthetic", "--methods", "ggn,zzz"), "methods must be .* but 'zzz' is not\\."),
        (("synthetic", "--methods", ","), "methods must be one or more names"),
        (("synthetic", "--cells", "sin-inbetwen"), "Did you mean 'sin-inbetween'\\?"),
        (("synthetic", "--seeds", "a"), "seeds must be whole numbers .* but are 'a'\\."),
        (("synthetic", "--seeds", "3-1"), "but are '3-1'\\."),
        (("synthetic", "--seeds", "1,,2"), "but are '1,,2'\\."),
        (("synthetic", "--seeds", "-1"), "but are '-1'\\."),
        (("synthetic", "--seeds", ""), "but are ''\\."),
    ],
)
def test_run_refuses_what_it_does_not_know(
    call: Call, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    found = call("run", *arguments, "--out", tmp_path / "records")
    assert re.search(said, found.refusal)
    assert found.out == "" and not (tmp_path / "records").exists()


def test_run_keeps_the_records_that_are_there(call: Call, few: Path) -> None:
    options = ("--cells", "sin-inbetween", "--seeds", "0,1", "--methods", "ggn, sampled")
    before = {p: p.read_bytes() for p in few.rglob("*.json")}
    found = call("run", "synthetic", *options, "--out", few)
    assert found.code == 0
    first, second = found.out.splitlines()
    assert first == f"0 records built, 4 were there already, in {few}"
    assert second == f"For the tables and the page: regvar report {few}"
    assert {p: p.read_bytes() for p in few.rglob("*.json")} == before


def test_report_makes_a_page_of_records(call: Call, few: Path, tmp_path: Path) -> None:
    found = call("report", few, "--out", tmp_path / "report")
    assert found.code == 0
    page = tmp_path / "report" / "report.html"
    count = len(list(few.rglob("*.json")))
    assert found.out == f"synthetic: {count} records, {page}\n"
    html = read(page.read_text(encoding="utf-8"))
    assert html.unclosed == [] and html.tables
    assert any((tmp_path / "report" / "tables").glob("*.md"))
    assert any((tmp_path / "report" / "figures").glob("*.svg"))


def test_report_puts_several_studies_of_table_1_on_one_more_page(
    call: Call, tmp_path: Path
) -> None:
    for record in finetuned_study.records(("minilm-film", "smollm2-wikitext"), seeds=(0,)):
        records.write(record, tmp_path / "records")
    found = call("report", tmp_path / "records", "--out", tmp_path / "report")
    assert found.code == 0
    page = tmp_path / "report" / "table1" / "report.html"
    assert found.out.splitlines()[-1] == f"table1: the studies together, {page}"
    html = read(page.read_text(encoding="utf-8"))
    assert html.unclosed == [] and len(html.tables) == 3


def test_report_refuses_a_place_without_records(call: Call, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    found = call("report", empty, "--out", tmp_path / "report")
    assert found.refusal == (
        f"directory must hold records, but {str(empty)!r} has none. Run `regvar run NAME --out "
        "DIR` first."
    )
    found = call("report", tmp_path / "none", "--out", tmp_path / "report")
    assert "is not a directory" in found.refusal
    assert not (tmp_path / "report").exists()


def test_a_summary_is_of_means_over_seeds(few: Path) -> None:
    found = records.read(few)
    blank, cell, head, *rows = summary(found, DEMOS["synthetic"][1]).splitlines()
    assert (blank, cell) == ("", "sin-inbetween")
    assert head.split("  ")[-1].strip() == "rank with truth"
    by_method = {row.split()[0]: row.split()[1:] for row in rows}
    assert set(by_method) == {r.method for r in found if r.metrics}
    for method, shown in by_method.items():
        ours = [r for r in found if r.method == method]
        assert len(ours) == 2
        places = [("id", "NLL"), ("id", "PICP"), ("ood", "NLL"), ("ood", "PICP")]
        for text, (split, metric) in zip(shown, places, strict=False):
            a, b = (r.metrics[split][metric]["value"] for r in ours)
            assert text == f"{(a + b) / 2:.3f}"


def altered(few: Path, root: Path, **changes: object) -> Path:
    """The records of one method, the first of them changed."""
    shutil.copytree(few / CELL / "ggn", root / CELL / "ggn")
    path = root / CELL / "ggn" / "seed-0.json"
    held = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**held, **changes}), encoding="utf-8")
    return root


def test_report_refuses_records_that_do_not_belong_together(
    call: Call, few: Path, tmp_path: Path
) -> None:
    out = tmp_path / "report"
    mixed = altered(few, tmp_path / "mixed", config_hash="0" * 12)
    said = call("report", mixed, "--out", out).refusal
    assert "must be of one configuration" in said
    foreign = altered(few, tmp_path / "foreign", experiment="synthetik")
    assert "Did you mean 'synthetic'?" in call("report", foreign, "--out", out).refusal
    damaged = altered(few, tmp_path / "damaged")
    (damaged / CELL / "ggn" / "seed-1.json").write_text("{")
    said = call("report", damaged, "--out", out).refusal
    assert "seed-1.json' is not JSON" in said and "Delete it" in said
    assert not out.exists()


def test_demo_refuses_a_study_it_does_not_have(call: Call, tmp_path: Path) -> None:
    out = tmp_path / "demo"
    found = call("demo", "NOSUCH", "--out", out)
    assert found.refusal == "study must be one of synthetic, texts, but it is 'NOSUCH'."
    assert "Did you mean 'texts'?" in call("demo", "text", "--out", out).refusal
    assert not out.exists()
