"""Feed PyTorch training from converted datasets.

`convert` turns a raw data set into shards, `Dataset` reads them by number, `Loader` feeds them to a training loop in
the place of `torch.utils.data.DataLoader`. Names are imported on first use: `import datafeed` loads neither torch nor
any optional package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datafeed.cache.config import Cache as Cache
    from datafeed.converters.convert import ConvertOptions as ConvertOptions
    from datafeed.converters.convert import convert as convert
    from datafeed.converters.export import ExportOptions as ExportOptions
    from datafeed.converters.export import export as export
    from datafeed.converters.merge import merge as merge
    from datafeed.converters.remap import map_dataset as map_dataset
    from datafeed.converters.write import write as write
    from datafeed.dataset import Dataset as Dataset
    from datafeed.images import ImageOptions as ImageOptions
    from datafeed.loader import Loader as Loader
    from datafeed.mix import Mix as Mix
    from datafeed.ragged import Ragged as Ragged
    from datafeed.schema import Feature as Feature
    from datafeed.schema import Schema as Schema

__version__ = "0.1.0"

_HOME = {
    "Cache": "datafeed.cache.config",
    "ConvertOptions": "datafeed.converters.convert",
    "Dataset": "datafeed.dataset",
    "ExportOptions": "datafeed.converters.export",
    "Feature": "datafeed.schema",
    "ImageOptions": "datafeed.images",
    "Loader": "datafeed.loader",
    "Mix": "datafeed.mix",
    "Ragged": "datafeed.ragged",
    "Schema": "datafeed.schema",
    "convert": "datafeed.converters.convert",
    "export": "datafeed.converters.export",
    "map_dataset": "datafeed.converters.remap",
    "merge": "datafeed.converters.merge",
    "write": "datafeed.converters.write",
}

__all__ = [*_HOME, "__version__"]  # noqa: PLE0604  (a literal dict's keys are strings)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'datafeed' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
