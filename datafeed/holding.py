"""Say which samples a loader may keep on its device."""

from __future__ import annotations

import numpy as np
import torch

from datafeed.cache.config import Cache, memory_nbytes
from datafeed.cache.vram import DeviceTier, Form
from datafeed.dataset import Dataset
from datafeed.errors import ConfigError
from datafeed.making import Recipe
from datafeed.mixed import MixedDataset
from datafeed.options import FeedOptions
from datafeed.schema import Feature, Schema
from datafeed.sizes import format_size, some

_CHANNELS_LAST = (1, 2, 0)  # how decoded pixels lie


def device_tier(dataset: Dataset | MixedDataset, options: FeedOptions) -> DeviceTier | None:
    """Return what keeps samples on a loader's device; None where its cache asks for no such tier. Takes no memory yet.

    Raises:
        ConfigError: There is no device, its budget is wrong for it, or what batches hold cannot be kept.
    """
    caches = [one.cache for one in dataset.read_from if one.cache is not None and one.cache.vram is not None]
    if not caches:
        return None
    if isinstance(dataset, MixedDataset):
        raise ConfigError("vram= keeps the samples of one dataset, not those of a Mix: leave it out")
    (cache,), device = caches, options.device
    if device is None:
        raise ConfigError(f'vram={cache.vram!r} needs a device to keep samples on: give device="cuda" beside cache=')
    forms = _forms(dataset.schema, options.recipe)
    budget = _budget(cache, device)
    least = sum(form.nbytes for form in forms.values())
    if budget < least:
        raise ConfigError(f"vram={cache.vram!r} is too small: one sample takes {format_size(least)}; give that or more")
    return DeviceTier(forms, device, budget, cache.policy, len(dataset))


def _budget(cache: Cache, device: torch.device) -> int:
    if device.type == "cuda":
        return cache.vram_nbytes(torch.cuda.get_device_properties(device).total_memory, str(device))
    return cache.vram_nbytes(memory_nbytes(), str(device))


def _forms(schema: Schema, recipe: Recipe) -> dict[str, Form]:
    """Return what a batch holds."""
    if recipe.transform is not None:
        raise ConfigError("vram= cannot keep what transform= makes anew in each epoch: leave one of the two out")
    if recipe.image is not None and recipe.image.draws:
        raise ConfigError(
            'vram= cannot keep pictures that are cut or mirrored at random, anew in each epoch: use crop="center" or '
            "none and flip=0, or leave vram= out"
        )
    chosen = schema if recipe.columns is None else schema.select(recipe.columns)
    forms: dict[str, Form] = {}
    refused = []
    for feature in chosen:
        form = _form(feature, recipe)
        if form is None:
            refused.append(f"{feature.name!r} ({_kind(feature)})")
            continue
        forms[feature.name] = form
        if feature.optional:
            forms[f"{feature.name}.present"] = Form((), torch.bool)
    if refused:
        raise ConfigError(
            f"vram= keeps numbers of a fixed shape and decoded images, not {some(refused)}: choose others by "
            "columns=, decode images by image=, or leave vram= out"
        )
    return forms


def _form(feature: Feature, recipe: Recipe) -> Form | None:
    if feature.is_image and not feature.shape:
        return None if recipe.image is None else Form((3, *recipe.image.sides), torch.uint8, _CHANNELS_LAST)
    if not feature.numeric or feature.ragged:
        return None
    return Form(feature.row_shape, torch.from_numpy(np.empty(0, feature.numpy_dtype)).dtype)


def _kind(feature: Feature) -> str:
    if feature.is_image:
        return "encoded images"
    return f"ragged {feature.dtype}" if feature.numeric else feature.dtype
