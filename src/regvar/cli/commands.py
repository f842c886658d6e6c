"""What `regvar` can be told to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from regvar import experiments, records, report as reporting
from regvar.cli import finetuning
from regvar.cli.arguments import names, whole_numbers
from regvar.cli.summary import Columns, summary
from regvar.data.catalogue import choose
from regvar.errors import RegvarError, StorageError
from regvar.experiments import Experiment, finetuned, synthetic
from regvar.records import Record
from regvar.version import __version__

app = typer.Typer(
    name="regvar",
    help=(
        "How sure a neural network is, by variation due to regularization.\n\n"
        "Start with `regvar demo`, or with your own data: `regvar finetune`, then `regvar "
        "predict`. The experiments of the paper: `regvar list`, then "
        "`regvar run NAME`, then `regvar report DIR`."
    ),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="An experiment of `regvar list`.", show_default=False),
]
OVERVIEW = "table1"  # the folder of the page over several studies
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="Where to write.")]

# Each first look, with the columns of its table: heading → split, metric.
DEMOS: Mapping[str, tuple[Callable[[], Experiment[Any]], Columns]] = {
    "texts": (
        finetuned.reduced,
        {
            "NLL film": ("test", "NLL"),
            "ECE film": ("test", "ECE"),
            "NLL products": ("snippets-product", "NLL"),
            "ECE products": ("snippets-product", "ECE"),
            "AUROC of editorials": ("snippets-editorial", "AUROC of shift"),
        },
    ),
    "synthetic": (
        synthetic.reduced,
        {
            "NLL id": ("id", "NLL"),
            "PICP id": ("id", "PICP"),
            "NLL ood": ("ood", "NLL"),
            "PICP ood": ("ood", "PICP"),
        },
    ),
}


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"regvar {__version__}")
        raise typer.Exit


@app.callback()
def regvar(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print it and exit."),
    ] = False,
) -> None:
    """Options that stand before a command."""


@app.command("list", short_help="The experiments, their cells and methods.")
def list_() -> None:
    """The experiments, with the cells and methods that `regvar run` can be limited to."""
    for experiment in experiments.EXPERIMENTS.values():
        typer.echo(f"{experiment.name}: {experiment.summary}")
        typer.echo(f"  cells:   {', '.join(experiment.cells)}")
        typer.echo(f"  methods: {', '.join(experiment.methods)}")
        typer.echo(f"  seeds:   {', '.join(map(str, experiment.seeds))}")


@app.command(short_help="Run an experiment: build its missing records.")
def run(
    name: Name,
    seeds: Annotated[
        str | None,
        typer.Option(help="Such as 0-9 or 0,3,5-7; the experiment's own unless given."),
    ] = None,
    methods: Annotated[
        str | None, typer.Option(help="Such as ggn,sampled; all unless given.")
    ] = None,
    cells: Annotated[
        str | None, typer.Option(help="Such as sin-inbetween; all unless given.")
    ] = None,
    out: Out = Path("records"),
) -> None:
    """Run an experiment: write one record for each cell, method and seed.

    Only records that are missing are built, or that were made under other settings: a run that
    was interrupted goes on where it stopped.
    """
    experiment = experiments.find(name)
    chosen = None if seeds is None else whole_numbers(seeds)
    try:
        tally = experiments.build(
            experiment, out, seeds=chosen, methods=names(methods), cells=names(cells)
        )
    except KeyboardInterrupt:
        typer.echo("\nInterrupted. The same command goes on where it stopped.", err=True)
        raise typer.Exit(130) from None
    typer.echo(f"{tally.built} records built, {tally.kept} were there already, in {out}")
    typer.echo(f"For the tables and the page: regvar report {out}")


@app.command(short_help="Records to tables, figures and a page.")
def report(
    directory: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Where `regvar run` wrote.", show_default=False),
    ],
    out: Out = Path("report"),
) -> None:
    """Turn records into tables (Markdown, LaTeX), figures (PNG, SVG) and one HTML page.

    A page for each experiment, and one more over the studies of the paper's Table 1 where there
    are several.
    """
    by_name = _by_experiment(records.read(directory), directory)
    known = {name: experiments.find(name) for name in by_name}  # before any page is written
    for name, found in by_name.items():
        folder = out if len(by_name) == 1 else out / name
        page = reporting.write(known[name].page(found), folder)
        typer.echo(f"{name}: {len(found)} records, {page.resolve()}")
    together = experiments.overview([record for found in by_name.values() for record in found])
    if together is not None:
        page = reporting.write(together, out / OVERVIEW)
        typer.echo(f"{OVERVIEW}: the studies together, {page.resolve()}")


@app.command(short_help="A first look, in minutes: texts with their confidences.")
def demo(
    study: Annotated[
        str, typer.Argument(metavar="STUDY", help="texts, or synthetic: the paper's regressions.")
    ] = "texts",
    out: Out = Path("demo_output"),
) -> None:
    """A first look: a table here, and the page that people look at.

    Fine-tunes MiniLM on rated film snippets, finds its uncertainty by RegVar and by others,
    calibrates each, and asks how well each knows texts of another kind: a few minutes, with
    90 MB to fetch the first time. A second run only draws the page again.
    """
    made, columns = choose(study, DEMOS, "study")
    experiment = made()
    folder = out / study
    typer.echo(f"{experiment.summary}.\nRecords go to {folder / 'records'}")
    experiments.build(experiment, folder / "records")
    found = records.read(folder / "records")
    typer.echo(summary(found, columns))
    page = reporting.write(experiment.page(found), folder)
    typer.echo(f"\nThe page is at {page.resolve()}")


finetuning.register(app)


def execute(arguments: Sequence[str] | None = None) -> int:
    """The exit code; what regvar refuses is said in one line."""
    try:
        app(arguments, prog_name="regvar")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except (RegvarError, OSError) as error:
        typer.echo(f"regvar: {error}", err=True)
        return 1
    return 0


def _by_experiment(found: Sequence[Record], directory: Path) -> dict[str, list[Record]]:
    """The records of each experiment; those of a cell must be of one configuration."""
    if not found:
        raise StorageError(
            f"directory must hold records, but {str(directory)!r} has none. "
            "Run `regvar run NAME --out DIR` first."
        )
    grouped: dict[str, list[Record]] = {}
    for record in found:
        grouped.setdefault(record.experiment, []).append(record)
    for name, held in grouped.items():
        if len({(r.cell, r.config_hash) for r in held}) > len({r.cell for r in held}):
            raise StorageError(
                f"records of a cell of {name} must be of one configuration, but those "
                f"in {str(directory)!r} are of several. Run the experiment again, which rebuilds "
                "the older ones, or keep the two apart."
            )
    return grouped
