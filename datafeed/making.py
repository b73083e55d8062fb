"""Make the batch of a step: parse its records, decode its images, apply the transform."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch.utils.data import default_collate

from datafeed._native import Parser
from datafeed.batches import to_sample
from datafeed.buffers import ArrayPool, BufferPool
from datafeed.columns import Column, Parsed
from datafeed.crops import DRAWS
from datafeed.dataset import Dataset, place_name, placed
from datafeed.errors import ConfigError, CorruptData, SchemaError, TransformError
from datafeed.images import ImageDecoder, ImageOptions, Pixels
from datafeed.mixed import MixedDataset
from datafeed.pipeline import Table
from datafeed.schedule import Step
from datafeed.schema import Schema
from datafeed.splitmix import image_draws, sample_key
from datafeed.tensors import TensorForm, Value
from datafeed.work import Work

Batch = dict[str, Value]
Sample = Mapping[str, object]
Transform = Callable[[dict[str, object], np.random.Generator], Sample]

_PART_SAMPLES = 32  # decoded or transformed in one task: about 8 ms of JPEGs, so that threads share out one batch


@dataclass(frozen=True, slots=True)
class Recipe:
    """Say what a batch is made of.

    Args:
        columns: The features to parse; None for all.
        image: What encoded images become; None to leave them encoded.
        transform: `transform(sample, rng)`, applied to each sample; its results are collated as torch does.
    """

    columns: Sequence[str] | None = None
    image: ImageOptions | None = None
    transform: Transform | None = None


class Maker:
    """Make batches of one dataset, or of a mix; safe to use on many threads.

    Args:
        dataset: Where the records are.
        recipe: What to make of them.
        seed: Seeds each sample's random generator, together with the epoch and the record's number.
        batch_size: Records a batch; the last one of a step may be shorter.
        ahead: Batches that are made ahead: the memory of as many batches of pictures is used again.

    Raises:
        SchemaError: A column is unknown.
        ConfigError: The recipe does not fit the dataset.
    """

    def __init__(self, dataset: Dataset | MixedDataset, recipe: Recipe, seed: int, batch_size: int, ahead: int) -> None:
        self._dataset = dataset
        self.batch_size = batch_size
        self._seed = seed
        self._recipe = recipe
        if isinstance(recipe.columns, str):
            raise ConfigError(f"columns must be a list of names, found {recipe.columns!r}: write [{recipe.columns!r}]")
        schema = dataset.select(recipe.columns)
        self._schema = schema
        self._parser = Parser(schema.features)
        self._images = [feature.name for feature in schema if feature.is_image and not feature.shape]
        if recipe.image is not None:
            if not isinstance(recipe.image, ImageOptions):
                raise ConfigError(f"image must be ImageOptions(size=...), found {recipe.image!r}")
            if not self._images:
                raise ConfigError(f"image= is given, but no feature of {schema!r} is an image")
            self._decode = ImageDecoder(recipe.image).decode
            # Fresh memory for each batch costs its page faults and its zeroing, a twelfth of the time of decoding.
            self._canvas_shape = (*recipe.image.sides, 3)
            self._canvases = BufferPool(batch_size * math.prod(self._canvas_shape), ahead * len(self._images))
        else:
            self._images = []
        self._numbers = {feature.name: number for number, feature in enumerate(schema)}
        single = [number for number, feature in enumerate(schema) if not feature.numeric and not feature.shape]
        self._viewed = frozenset(number for number in single if schema.features[number].is_image)
        self._listed = frozenset(single) - self._viewed
        if self._images:
            self._viewed = frozenset()
        self._arrays = ArrayPool(ahead + 1)
        self._form = TensorForm(schema, self._parser.groups)
        self._plain = Schema([feature for feature in schema if feature.name not in self._images])
        if recipe.transform is not None:
            _check_transform(recipe.transform)

    @property
    def parses_only(self) -> bool:
        """Whether nothing is to do for single samples: then batches are best made several together."""
        return not self._images and self._recipe.transform is None

    def begin(self, table: Table, step: Step, epoch: int) -> Work[list[Batch]]:
        """Parse a step's records and say what is left to do."""
        step = step.to_make()
        if not len(step.rows):  # all are kept made
            return Work([], _nothing)
        parts = [slice(low, low + _PART_SAMPLES) for low in range(0, len(step.rows), _PART_SAMPLES)]
        pixels = {name: self._canvas(len(step.rows)) for name in self._images}
        if self._recipe.transform is None:
            with self._placing(step):
                parsed = self._parser.parse_batch(
                    table, step.blocks, step.rows, self._listed, self._viewed, self._arrays.empty
                )
            encoded = {name: parsed.columns[self._numbers[name]] for name in self._images}
            decoding = [partial(self._decode_part, encoded, pixels, step, part, epoch) for part in parts if pixels]
            return Work(decoding, partial(self._collect, parsed, pixels, step))
        with self._placing(step):
            columns = self._parser.parse(table, step.blocks, step.rows)
        by_name = dict(zip(self._numbers, columns, strict=True))
        samples: list[Sample] = [{}] * len(step.rows)
        making = [partial(self._transform_part, by_name, pixels, step, part, epoch, samples) for part in parts]
        return Work(making, partial(self._collate, samples, step))

    @contextmanager
    def _placing(self, step: Step) -> Iterator[None]:
        """Add its record's place to a SchemaError of one row."""
        try:
            yield
        except SchemaError as exc:
            if exc.row < 0:
                raise
            dataset, block = self._dataset.locate(int(step.blocks[exc.row]))
            raise placed(exc, dataset, block, int(step.rows[exc.row])) from None

    def _canvas(self, count: int) -> Pixels:
        buffer = self._canvases.take(count * math.prod(self._canvas_shape))
        return np.frombuffer(buffer, np.uint8).reshape(count, *self._canvas_shape)

    def _decode_part(
        self, columns: Mapping[str, Column | None], pixels: Mapping[str, Pixels], step: Step, part: slice, epoch: int
    ) -> None:
        draws = self._draws(step, part, epoch) if pixels else ()
        for name, out in pixels.items():
            column = columns[name]
            assert column is not None
            assert column.offsets is not None
            bounds = column.offsets[part.start : part.stop + 1].tolist()
            for row, (start, end) in enumerate(itertools.pairwise(bounds), part.start):
                if column.present is not None and not column.present[row]:
                    out[row] = 0
                    continue
                try:
                    chosen = draws[row - part.start] if draws else ()
                    self._decode(column.values[start:end].view(np.uint8), out[row], chosen)
                except CorruptData as exc:
                    raise CorruptData(f"{self._where(step, row)}: feature {name!r}: {exc.reason}") from exc

    def _draws(self, step: Step, part: slice, epoch: int) -> Sequence[Sequence[float]]:
        """Return what chooses each row's crop and flip, the same for all images of a record."""
        if self._recipe.image is None or not self._recipe.image.draws:
            return ()
        numbers = self._dataset.numbers(step.blocks[part], step.rows[part])
        return image_draws(self._seed, epoch, numbers, DRAWS).tolist()  # type: ignore[no-any-return]

    def _collect(self, parsed: Parsed, pixels: Mapping[str, Pixels], step: Step) -> list[Batch]:
        images = {self._numbers[name]: _channels_first(out) for name, out in pixels.items()}
        with self._placing(step):
            return self._form.batches(parsed, images, self.batch_size)

    def _transform_part(
        self,
        columns: Mapping[str, Column],
        pixels: Mapping[str, Pixels],
        step: Step,
        part: slice,
        epoch: int,
        out: list[Sample],
    ) -> None:
        transform = self._recipe.transform
        assert transform is not None
        self._decode_part(columns, pixels, step, part, epoch)
        plain = [columns[feature.name] for feature in self._plain]
        images = {name: _channels_first(canvas) for name, canvas in pixels.items()}
        numbers = self._dataset.numbers(step.blocks[part], step.rows[part]).tolist()
        for row, number in enumerate(numbers, part.start):
            with self._placing(step):
                sample: dict[str, object] = {**to_sample(self._plain, plain, row)}
            for name, image in images.items():
                present = columns[name].present
                sample[name] = image[row] if present is None or present[row] else None
            rng = np.random.Generator(np.random.Philox(key=sample_key(self._seed, epoch, number)))
            try:
                out[row] = transform(sample, rng)
            except Exception as exc:
                raise TransformError(f"the transform failed on {self._where(step, row)}: {exc!r}") from exc
            if not isinstance(out[row], Mapping):
                raise TransformError(
                    f"the transform must return a dict, found {out[row]!r:.100} for {self._where(step, row)}"
                )

    def _collate(self, samples: list[Sample], step: Step) -> list[Batch]:
        for row, sample in enumerate(samples):
            if sample.keys() != samples[0].keys():
                expected = f"the keys {list(samples[0])} as for {self._where(step, 0)}"
                raise TransformError(
                    f"the transform must return {expected}, found {list(sample)} for {self._where(step, row)}"
                )
        return [
            {name: _collated(name, [sample[name] for sample in batch]) for name in samples[0]}
            for batch in (samples[low : low + self.batch_size] for low in range(0, len(samples), self.batch_size))
        ]

    def _where(self, step: Step, row: int) -> str:
        dataset, block = self._dataset.locate(int(step.blocks[row]))
        return place_name(dataset, block, int(step.rows[row]))


def _nothing() -> list[Batch]:
    return [{}]


def _collated(name: str, values: list[object]) -> Value:
    """Return one key's values as torch collates them; numpy's scalars keep their dtype, uint64 too."""
    try:
        if all(isinstance(value, (np.number, np.bool_)) for value in values):
            return torch.from_numpy(np.array(values))
        return default_collate(values)  # type: ignore[no-any-return]  # whatever the user's values make
    except (RuntimeError, TypeError, ValueError) as exc:
        raise TransformError(
            f"the transform's {name!r} does not make a batch: {exc}. Return it in one shape and type for every sample, "
            "or leave it out"
        ) from exc


def _channels_first(pixels: Pixels) -> torch.Tensor:
    """View (batch, height, width, 3) pixels as (batch, 3, height, width), in torch's channels_last memory format."""
    return torch.from_numpy(pixels).permute(0, 3, 1, 2)


def _check_transform(transform: Transform) -> None:
    try:
        inspect.signature(transform).bind({}, None)
    except TypeError as exc:
        raise ConfigError(
            f"transform must take (sample, rng), found {transform!r}: rng is a numpy Generator seeded for the sample, "
            "so that the same seed gives the same augmentation on any number of threads"
        ) from exc
    except ValueError:
        return  # a builtin without a signature
