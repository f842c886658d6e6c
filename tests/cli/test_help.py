"""Help names every command and option, and the defaults it shows are those that hold."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields

import pytest

from regvar.cli import finetuning
from regvar.finetuning import Settings
from regvar.version import __version__
from tests.cli.calling import Call

OPTIONS: dict[str, tuple[str, ...]] = {
    "list": (),
    "run": ("--seeds", "--methods", "--cells", "--out"),
    "report": ("--out",),
    "demo": ("--out",),
    "finetune": (
        *("--data", "--out", "--task", "--model", "--lora", "--text", "--label", "--method"),
        *("--samples", "--lam", "--epochs", "--lr", "--batch", "--tokens", "--precision"),
        *("--frozen", "--limit", "--seed"),
    ),
    "predict": ("--run", "--input", "--text", "--out"),
}


def named(help_text: str) -> set[str]:
    """The options that a line of the help begins with."""
    return set(re.findall(r"^ +(--[a-z]+)\b", help_text, re.MULTILINE)) - {"--help"}


def test_version_is_one_line(call: Call) -> None:
    found = call("--version")
    assert (found.code, found.out, found.err) == (0, f"regvar {__version__}\n", "")


def test_help_names_every_command_and_where_to_start(call: Call) -> None:
    found = call("--help")
    assert found.code == 0 and found.err == ""
    commands = found.out.split("Commands:")[1]
    assert re.findall(r"^  ([a-z]+) ", commands, re.MULTILINE) == list(OPTIONS)
    assert named(found.out) == {"--version"}
    assert "regvar demo" in found.out


def test_no_arguments_give_the_help(call: Call) -> None:
    found = call()
    assert found.code != 0  # nothing was done
    assert "Commands:" in found.out + found.err


@pytest.mark.parametrize("command", OPTIONS)
def test_help_of_a_command_names_its_options(call: Call, command: str) -> None:
    found = call(command, "--help")
    assert found.code == 0 and found.err == ""
    assert named(found.out) == set(OPTIONS[command])
    assert found.out.startswith(f"Usage: regvar {command} ")


def test_every_setting_is_an_option_with_the_same_default() -> None:
    asked = {
        name: parameter.default
        for name, parameter in inspect.signature(finetuning.finetune).parameters.items()
    }
    assert asked.pop("out") is inspect.Parameter.empty
    assert asked.pop("frozen") is None  # names between commas
    held = {f.name: f.default for f in fields(Settings)}
    assert held.pop("frozen") == ()
    data, missing = asked.pop("data"), held.pop("data")
    assert data is inspect.Parameter.empty and missing is not None
    assert asked == held


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("fintune",), "No such command 'fintune'. Did you mean 'finetune'?"),
        (("list", "--all"), "No such option: --all"),
        (("finetune",), "Missing option '--data'"),
        (("finetune", "--data", "a.csv", "--out", "b", "--epochs", "x"), "'--epochs'"),
        (("predict", "--run", "a"), "Missing option '--input'"),
        (("report",), "Missing argument 'DIR'"),
    ],
)
def test_a_command_that_cannot_be_read_is_answered_with_its_usage(
    call: Call, arguments: tuple[str, ...], said: str
) -> None:
    found = call(*arguments)
    assert found.code == 2 and found.out == ""
    assert found.err.startswith("Usage: regvar ")
    assert said in found.err.splitlines()[-1]
