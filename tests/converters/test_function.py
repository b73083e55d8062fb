"""Test making samples by people's own functions."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numbered import digests

from datafeed.converters.callables import code_digest, load_function, name_of
from datafeed.converters.convert import ConvertOptions, convert, plan
from datafeed.converters.pool import AHEAD
from datafeed.converters.remap import map_dataset
from datafeed.dataset import Dataset
from datafeed.errors import BadItem, ConfigError, EmptySource, OutputDiffers, SourceError
from datafeed.schema import Schema, stored

SMALL = ConvertOptions(shard_size=4000, block_size=700, workers=1)


def several(number: int) -> list[dict[str, object]] | None:
    """Make no, one or two samples of a number."""
    if number % 3 == 0:
        return None
    return [{"n": number, "part": part, "a": np.arange(number % 5)} for part in range(number % 3)]


def lines_of(path: str) -> Iterator[dict[str, object]]:
    """Yield a sample for each line of a file."""
    with open(path) as file:
        for number, line in enumerate(file):
            yield {"file": os.path.basename(path), "number": number, "x": int(line)}


def large(number: int) -> dict[str, object]:
    """Make a sample of 60 kB."""
    return {"n": number, "blob": bytes([number % 256]) * 60_000}


def failing(number: int) -> dict[str, int]:
    """Fail for one number."""
    return {"x": 10 // (number - 7)}


def test_a_function_makes_no_one_or_several_samples(tmp_path: Path) -> None:
    """In the order of the inputs, whatever they are."""
    report = convert(range(100), tmp_path / "out", SMALL, fn=several)
    expected = [(sample["n"], sample["part"]) for number in range(100) for sample in several(number) or ()]
    columns = Dataset(tmp_path / "out")[:]
    assert list(zip(columns["n"].tolist(), columns["part"].tolist(), strict=True)) == expected
    assert [array.tolist() for array in columns["a"]] == [list(range(n % 5)) for n, _ in expected]
    assert report.records == len(expected)


def test_what_is_no_mapping_is_one_value(tmp_path: Path) -> None:
    """A number, text, bytes or an array; a list is several samples."""
    for number, (fn, value) in enumerate([(int, 7), (str, "7"), (np.arange, list(range(7))), (lambda _: [7], 7)]):
        convert([7], tmp_path / str(number), SMALL, fn=fn)
        found = Dataset(tmp_path / str(number))[0]["value"]
        assert (found.tolist() if isinstance(found, (np.ndarray, np.generic)) else found) == value


def test_files_are_given_as_paths(tmp_path: Path) -> None:
    """Of a folder, a pattern, or several."""
    (tmp_path / "in").mkdir()
    for name in ("a", "b"):
        (tmp_path / "in" / f"{name}.dat").write_text("1\n2\n")
    for number, source in enumerate((tmp_path / "in", str(tmp_path / "in" / "{a,b}.dat"))):
        convert(source, tmp_path / str(number), SMALL, fn=lines_of)
        assert Dataset(tmp_path / str(number))[:]["file"] == ["a.dat", "a.dat", "b.dat", "b.dat"]


def test_f05_an_input_file_that_changes_is_found(tmp_path: Path) -> None:
    """As for every other source."""
    (tmp_path / "a.dat").write_text("1\n")

    def spoil(path: str) -> dict[str, int]:
        with open(path, "a") as file:
            file.write("2\n")
        return {"x": 1}

    with pytest.raises(SourceError, match="changed while it was converted"):
        convert(str(tmp_path / "*.dat"), tmp_path / "out", SMALL, fn=spoil)


def test_an_exception_names_the_input_and_the_place(tmp_path: Path) -> None:
    """It stops the conversion, or is passed over as any bad item; the function's own error is the cause."""
    with pytest.raises(BadItem, match=r"7: .*failing raised ZeroDivisionError: .* \(test_function.py:\d+\)") as caught:
        convert(range(20), tmp_path / "out", SMALL, fn=failing)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    report = convert(range(20), tmp_path / "skip", ConvertOptions(workers=1, on_error="skip"), fn=failing)
    assert (report.records, report.skipped) == (19, 1)
    assert report.reasons[0].startswith("7: ")


@pytest.mark.usefixtures("ray_workers")
def test_workers_make_the_same_bytes(tmp_path: Path) -> None:
    """On Ray, a function of this module travels with its task."""
    inputs = list(range(2500))
    one = ConvertOptions(shard_size="1MB", workers=1)
    convert(inputs, tmp_path / "1", one, fn=large)
    two = dataclasses.replace(one, workers=2, ray_address="auto")
    assert len(plan(inputs, tmp_path / "2", two, fn=large).tasks) > 2 + AHEAD
    report = convert(inputs, tmp_path / "2", two, fn=large)
    assert report.ran_on == "ray"
    assert digests(tmp_path / "1") == digests(tmp_path / "2")


def test_a_later_sample_that_does_not_fit_is_a_bad_item(tmp_path: Path) -> None:
    """Of another type, with another name; a schema that is given decides."""

    def odd(number: int) -> dict[str, object]:
        return {"x": number} if number < 1500 else {"x": "text"} if number < 1501 else {"x": 1, "y": 2}

    report = convert(range(1502), tmp_path / "out", ConvertOptions(workers=1, on_error="skip"), fn=odd)
    assert (report.records, report.skipped) == (1500, 2)
    assert sorted(reason.partition(":")[0] for reason in report.reasons) == ["1500", "1501"]
    assert any("which the schema lacks" in reason for reason in report.reasons)
    schema = Schema([stored("x", "int16", optional=True), stored("y", "int64", optional=True)])
    report = convert([1600], tmp_path / "given", SMALL, fn=odd, schema=schema)
    assert Dataset(tmp_path / "given").schema.features == schema.features


@pytest.mark.parametrize(
    ("inputs", "fn", "error", "message"),
    [
        ([], several, EmptySource, "there is no input"),
        ([0, 3], several, EmptySource, "gave no sample for the first 2 inputs"),
        ([1, 2], lambda _: [{1: 2}], BadItem, "expected names that are text"),
        ([1, 2], lambda number: {"x": number if number == 1 else "a"}, SourceError, "of another kind or shape"),
        ([1], lambda _: {}, SourceError, "the first sample holds no value, .*: give a schema"),
        ([1, 2], lambda _: {"x": None}, SourceError, "the first 2 samples hold .* None alone"),
    ],
)
def test_what_makes_no_samples_is_refused(
    tmp_path: Path, inputs: list[int], fn: object, error: type[Exception], message: str
) -> None:
    """When the conversion is planned."""
    with pytest.raises(error, match=message):
        convert(inputs, tmp_path / "out", SMALL, fn=fn)


def test_a_schema_or_values_without_a_function_are_refused(tmp_path: Path) -> None:
    """By name."""
    with pytest.raises(ConfigError, match="a schema is given, but no function"):
        convert(str(tmp_path), tmp_path / "out", SMALL, schema=Schema([stored("x", "int64")]))
    with pytest.raises(ConfigError, match="other inputs need a function"):
        convert([1, 2], tmp_path / "out", SMALL)


def test_f06_another_function_is_another_conversion(tmp_path: Path) -> None:
    """Its name, code and plain bound values count: a rerun with a changed one is refused."""
    convert(range(5), tmp_path / "out", SMALL, fn=functools.partial(scaled, factor=2))
    assert convert(range(5), tmp_path / "out", SMALL, fn=functools.partial(scaled, factor=2)).ran_on == "nothing"
    with pytest.raises(OutputDiffers, match="code: "):
        convert(range(5), tmp_path / "out", SMALL, fn=functools.partial(scaled, factor=3))


def scaled(number: int, factor: int) -> dict[str, int]:
    """Multiply."""
    return {"x": number * factor}


class Adder:
    """Add what it holds."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(self, other: int) -> dict[str, int]:
        """Add."""
        return {"x": self.number + other}


def test_digests_tell_functions_apart() -> None:
    """Code, closures, defaults, partial arguments and attributes."""

    def bound(number: int) -> object:
        return lambda: number

    some = [
        bound(1),
        bound(2),
        Adder(1),
        Adder(2),
        scaled,
        functools.partial(scaled, factor=1),
        several,
        lambda x=1: x,
        lambda x=2: x,
        functools.partial(scaled, factor={1, 2}),
        functools.partial(scaled, factor={1, 3}),
        functools.partial(scaled, factor={"a": 1}),
        functools.partial(scaled, factor={"a": 2}),
        lambda x: x in {"a", "b"},
        lambda x: x in {"a", "c"},
    ]
    assert len({code_digest(fn) for fn in some}) == len(some)
    assert code_digest(bound(1)) == code_digest(bound(1))
    assert code_digest(Adder(1)) == code_digest(Adder(1))
    assert name_of(Adder(1)).endswith(":Adder")
    assert name_of(functools.partial(scaled, factor=1)).endswith(":scaled")


def test_a_digest_is_the_same_in_every_process() -> None:
    """Texts in a set stand in another order in each."""
    code = (
        "from datafeed.converters.callables import code_digest; print(code_digest(lambda x: x in {'a', 'b', 'c', 'd'}))"
    )
    found = set()
    for seed in "123":
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        found.add(subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True).stdout)
    assert len(found) == 1


class Mute(Exception):
    """Fail to say what is wrong."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


def leaving(error: BaseException) -> dict[str, int]:
    """Raise what it is given."""
    raise error


@pytest.mark.parametrize(("error", "said"), [(SystemExit(0), "SystemExit: 0"), (Mute(), r"Mute \(")])
def test_whatever_a_function_raises_is_a_bad_item(error: BaseException, said: str, tmp_path: Path) -> None:
    """Even what would end the process as if all were done, and an error without a text."""
    with pytest.raises(BadItem, match=f"leaving raised {said}"):
        convert([error], tmp_path / "out", SMALL, fn=leaving)


@pytest.mark.parametrize("code", ["def f(:", "raise RuntimeError('no GPU')", "import sys; sys.exit(0)"])
def test_a_module_that_cannot_be_imported_is_named(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it raises."""
    (tmp_path / "broken_functions.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(ConfigError, match=r"cannot import 'broken_functions:f': it raised (Syn|Run|Sys)"):
        load_function("broken_functions:f")


def test_functions_are_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the current folder too; what is not there is named."""
    (tmp_path / "my_functions.py").write_text("def double(x):\n    return {'x': 2 * x}\nNUMBER = 5\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert load_function("my_functions:double")(4) == {"x": 8}
    assert load_function("json:JSONDecoder.decode") is json.JSONDecoder.decode
    for name, message in (
        ("double", "expected module:function"),
        ("no_such_module:f", "cannot import"),
        ("my_functions:gone", "cannot import"),
        ("my_functions:NUMBER", "is a int and no function"),
    ):
        with pytest.raises(ConfigError, match=message):
            load_function(name)


def drop_odd(sample: dict[str, object]) -> dict[str, object] | None:
    """Leave out odd numbers, add a square."""
    number = int(sample["x"])  # type: ignore[call-overload]  # an integer
    return None if number % 2 else {**sample, "square": number**2}


def test_map_makes_a_dataset_of_a_dataset(tmp_path: Path) -> None:
    """Samples are changed, left out or kept as they are; a conversion's options hold."""
    convert(range(200), tmp_path / "a", SMALL, fn=functools.partial(scaled, factor=1))
    report = map_dataset(tmp_path / "a", tmp_path / "b", drop_odd, SMALL)
    found = Dataset(tmp_path / "b")[:]
    assert found["x"].tolist() == list(range(0, 200, 2))
    assert found["square"].tolist() == [x * x for x in range(0, 200, 2)]
    assert report.records == 100
    again = map_dataset(tmp_path / "a", tmp_path / "c", options=ConvertOptions(workers=1, shard_size="1MB"))
    assert (again.records, again.shards) == (200, 1)
    assert Dataset(tmp_path / "c").schema.features == Dataset(tmp_path / "a").schema.features
    assert Dataset(tmp_path / "c")[:]["x"].tolist() == list(range(200))


def test_map_names_the_place_of_a_sample_that_fails(tmp_path: Path) -> None:
    """Shard, block and record."""
    convert(range(200), tmp_path / "a", SMALL, fn=functools.partial(scaled, factor=1))

    def fail(sample: dict[str, object]) -> dict[str, object]:
        assert sample["x"] != 150, "not this one"
        return sample

    with pytest.raises(
        BadItem, match=r"shard-00000\d.tfrecord.zst, block \d+, record \d+: .*AssertionError: not this one"
    ):
        map_dataset(tmp_path / "a", tmp_path / "b", fail, SMALL)
    with pytest.raises(ConfigError, match="lies in the source"):
        map_dataset(tmp_path / "a", tmp_path / "a" / "b", None, SMALL)
    with pytest.raises(ConfigError, match="kind 'csv' has no effect"):
        map_dataset(tmp_path / "a", tmp_path / "b", None, ConvertOptions(kind="csv"))
