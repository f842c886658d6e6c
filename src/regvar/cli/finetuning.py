"""`regvar finetune` and `regvar predict`: a user's own data, without writing Python."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regvar.cli.arguments import names
from regvar.errors import ModelError

if TYPE_CHECKING:
    from types import ModuleType

_PACKAGES = {"transformers", "peft", "accelerate", "tokenizers", "PIL"}


# The options, in the order of the help.
Data = Annotated[
    str,
    typer.Option(
        metavar="DATA",
        help="A .csv, .tsv or .jsonl file of texts, a folder with one folder of images per "
        "class, or a short name such as imdb or snippets-film.",
    ),
]
Out = Annotated[Path, typer.Option(metavar="DIR", help="A new directory for the run.")]
Task = Annotated[
    str, typer.Option(help="sequence-classification, image-classification or causal-lm.")
]
Model = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="A directory, a short name such as minilm or smollm2-135m, or a name on the hub; "
        "by default minilm, vit-s14 or smollm2-135m, by the task.",
    ),
]
Lora = Annotated[bool, typer.Option("--lora", help="Train a LoRA adapter alone.")]
TextColumn = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="The column of texts; found by its name if not given."),
]
LabelColumn = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="The column of labels; likewise.")
]
Method = Annotated[str, typer.Option(help="How uncertainty is found: sampled or amortized.")]
Samples = Annotated[int, typer.Option(help="Refits of the method sampled.")]
Lam = Annotated[float, typer.Option(help="How strongly refits are pulled.")]
Epochs = Annotated[int, typer.Option(help="Passes over the training rows.")]
Rate = Annotated[float, typer.Option(help="Learning rate of Adam.")]
Batch = Annotated[
    int | None, typer.Option(help="Rows of a batch; by default 16, or 4 for causal-lm.")
]
Tokens = Annotated[int, typer.Option(help="Longer texts are cut to so many tokens.")]
Precision = Annotated[float, typer.Option(help="Precision of the Gaussian prior.")]
Frozen = Annotated[
    str | None,
    typer.Option(metavar="MODULES", help="Modules that do not train, such as embeddings."),
]
Limit = Annotated[
    int | None, typer.Option(metavar="ROWS", help="Use so many rows, drawn at random.")
]
Seed = Annotated[int, typer.Option(help="Of the split, the fit and the refits.")]


def register(app: typer.Typer) -> None:
    """Put both commands on the command line."""
    app.command(short_help="Fine-tune a network on your data, with calibrated confidences.")(
        finetune
    )
    app.command(short_help="Predictions with confidences, from a run of finetune.")(predict)


def finetune(
    data: Data,
    out: Out,
    task: Task = "sequence-classification",
    model: Model = None,
    lora: Lora = False,
    text: TextColumn = None,
    label: LabelColumn = None,
    method: Method = "sampled",
    samples: Samples = 4,
    lam: Lam = 1.0,
    epochs: Epochs = 6,
    lr: Rate = 1e-4,
    batch: Batch = None,
    tokens: Tokens = 128,
    precision: Precision = 0.02,
    frozen: Frozen = None,
    limit: Limit = None,
    seed: Seed = 0,
) -> None:
    """Fine-tune a network on your own data and find out how sure it may be.

    60 % of the rows train it, 20 % calibrate its uncertainty, and 20 % judge both: look at
    report.html in the run's directory, then ask `regvar predict`.
    """
    room = _room()
    given: dict[str, Any] = {
        "data": data,
        "task": task,
        "model": model,
        "lora": lora,
        "text": text,
        "label": label,
        "method": method,
        "samples": samples,
        "lam": lam,
        "epochs": epochs,
        "lr": lr,
        "batch": batch,
        "tokens": tokens,
        "precision": precision,
        "frozen": tuple(names(frozen) or ()),
        "limit": limit,
        "seed": seed,
    }
    try:
        made = room.finetune(room.Settings(**given), out, typer.echo)
    except KeyboardInterrupt:
        typer.echo("\nInterrupted. Nothing was written.", err=True)
        raise typer.Exit(130) from None
    for note in made.notes:
        typer.echo(f"Note: {note}")
    typer.echo(f"\nOn the test rows:\n{made.summary()}")
    typer.echo(f"\nThe page is at {made.page.resolve()}")
    typer.echo(f"For predictions: regvar predict --run {made.directory} --input FILE_OR_FOLDER")


def predict(
    run: Annotated[Path, typer.Option(metavar="DIR", help="Where `regvar finetune` wrote.")],
    source: Annotated[
        Path,
        typer.Option(
            "--input", metavar="FILE_OR_FOLDER", help="Texts (.csv, .tsv, .jsonl) or images."
        ),
    ],
    text: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The column of texts; that of the run if not given."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A .csv or .jsonl file; by default predictions.csv in the run."
        ),
    ] = None,
) -> None:
    """Predict each row of a file, or each image of a folder, with confidences.

    Each row gets its label, a calibrated confidence, every class's probability, and the total and
    epistemic uncertainty in nats; for a language model, its mean log probability and its
    standard deviation.
    """
    made = _room().predict(run, source, out, text)
    typer.echo(made.head())
    typer.echo(f"\n{made.rows} rows, in {made.path.resolve()}")


def _room() -> ModuleType:
    """The room that does the work, which needs packages of an extra."""
    try:
        from regvar import finetuning
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _PACKAGES:
            raise
        raise ModelError(
            f"fine-tuning needs the package {error.name}, but it is not installed. Run "
            "pip install 'regvar[hf]'."
        ) from error
    return finetuning
