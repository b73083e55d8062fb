"""List the forms of export."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Literal, cast, get_args

from datafeed.converters.export_form import Exported, Form
from datafeed.errors import ConfigError

To = Literal["tfrecord", "parquet", "npy", "mds", "webdataset", "images"]

_PLACES = {
    "tfrecord": "export_tfrecord:TFRecordForm",
    "parquet": "export_parquet:ParquetForm",
    "npy": "export_npy:NpyForm",
    "mds": "export_mds:MdsForm",
    "webdataset": "export_webdataset:WebDatasetForm",
    "images": "export_images:ImagesForm",
}


def form_of(to: str, exported: Exported) -> Form:
    """Return a form of export.

    Raises:
        ConfigError: There is no such form.
        SchemaError: It cannot hold a feature, which the message names.
        MissingExtra: It needs a package.
    """
    if to not in get_args(To):
        raise ConfigError(f"unknown form {to!r} to export to; there are {', '.join(get_args(To))}")
    module, _, name = _PLACES[to].partition(":")
    found = getattr(importlib.import_module(f"{__package__}.{module}"), name)
    return cast("Callable[[Exported], Form]", found)(exported)
