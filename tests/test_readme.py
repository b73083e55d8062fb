"""Test that the README says what is so."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import cv2
import numpy as np
import pytest
from readme_help import README, renewed

from datafeed import errors
from datafeed.stats import LoaderStats

TEXT = README.read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", TEXT, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the raw data that the examples read: "photos", with two pictures in each of three classes."""
    root = tmp_path_factory.mktemp("readme")
    rng = np.random.default_rng(0)
    for label in ("cat", "dog", "owl"):
        (root / "photos" / label).mkdir(parents=True)
        for number in range(2):
            pixels = rng.integers(0, 256, (40, 50, 3), np.uint8)
            cv2.imwrite(str(root / "photos" / label / f"{number}.jpg"), pixels)
    return root


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_example_runs_as_written(number: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fenced Python example runs, in the order of the README, in one folder."""
    monkeypatch.chdir(folder)
    exec(compile(EXAMPLES[number], f"README example {number}", "exec"), {"__name__": "__main__"})  # noqa: S102


def test_the_examples_are_found() -> None:
    """An example that is fenced otherwise would run nowhere."""
    assert len(EXAMPLES) == TEXT.count("```python") >= 4


def test_the_first_example_is_short() -> None:
    """It fits a look: 12 lines, blank ones and the convert line aside."""
    assert len(EXAMPLES[0].strip().splitlines()) <= 14


def test_generated_parts_are_up_to_date() -> None:
    """Help and worked example are those of this code; `PYTHONPATH=. python tests/readme_help.py` writes them."""
    assert renewed(TEXT) == TEXT


def test_the_two_commands_are_those_of_a_clone() -> None:
    """What a new user types first installs this clone, with the constraints, under a name that is ours."""
    commands = re.findall(r"^```sh\n(.*?)\n```$", TEXT, flags=re.MULTILINE | re.DOTALL)
    install = "python3 -m venv .venv && .venv/bin/pip install -c .ci/constraints.txt"
    assert commands == [
        f"{install} '.[all]' && .venv/bin/datafeed demo",
        f"{install} -e '.[test]' && .venv/bin/pip install --no-deps -r .ci/no-deps.txt && .venv/bin/pytest",
    ]
    assert not re.search(r"pip install\s+'?datafeed(?!-torch)", TEXT)


def test_extras_and_version_are_those_of_the_project() -> None:
    """Names that the README gives exist."""
    project = tomllib.loads((README.parent / "pyproject.toml").read_text())["project"]
    named = re.search(r"Extras: (.*?)\.\n", TEXT, flags=re.DOTALL)
    assert named is not None
    assert set(re.findall(r"`([a-z0-9]+)`", named[1])) == set(project["optional-dependencies"]) - {"test", "bench"}
    assert f"### {project['version']}\n" in TEXT


def test_tree_of_errors_is_that_of_the_module() -> None:
    """Each class stands there below its base, with what it is raised for."""
    assert errors.__doc__ is not None
    lines = [line.strip() for line in errors.__doc__.splitlines() if "──" in line]
    assert len(lines) > 20
    assert "\n".join(["DatafeedError", *lines]) in TEXT


def test_every_figure_of_a_loader_is_explained() -> None:
    """A new one is, too."""
    table = TEXT[TEXT.index("`stats()` gives") :]
    table = table[: table.index("\n\n", table.index("|"))]
    figures = {name for name in dir(LoaderStats) if not name.startswith("_")}
    assert {*re.findall(r"`(\w+)`", table)} - {"iter"} == figures


def test_quoted_results_are_committed() -> None:
    """A file of results that the README names is there."""
    for name in re.findall(r"bench/results/[\w.-]+\.json", TEXT):
        json.loads((README.parent / name).read_text())


def test_links_lead_somewhere() -> None:
    """A relative link names a file of the repository, an anchor a heading."""
    lines = re.findall(r"^#+ (.*)$", TEXT, re.MULTILINE)
    headings = {re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-") for line in lines}
    for target in re.findall(r"\]\(([^)]+)\)", TEXT):
        if target.startswith("#"):
            assert target[1:] in headings, target
        elif not target.startswith("http"):
            assert (README.parent / target).exists(), target
