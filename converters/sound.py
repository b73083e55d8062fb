"""Check arrays from files that Arrow reads unchecked: a damaged offset would lead outside of the memory read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from datafeed.converters.leaves import Leaf, dig

if TYPE_CHECKING:
    import pyarrow as pa


def check_sound(batch: pa.RecordBatch, leaves: Sequence[Leaf]) -> None:
    """Check that every value of some leaves lies within the batch's memory; text may be any bytes.

    Args:
        batch: Rows of a file.
        leaves: What is wanted of it.

    Raises:
        pyarrow.ArrowInvalid: One does not.
    """
    batch.validate()
    for leaf in leaves:
        _check(dig(batch, leaf.path))


def _check(array: pa.Array) -> None:
    import pyarrow as pa
    from pyarrow import types

    if isinstance(array.type, pa.BaseExtensionType):
        _check(array.storage)
    elif types.is_dictionary(array.type):
        _check(array.dictionary)
        pa.DictionaryArray.from_arrays(array.indices, pa.nulls(len(array.dictionary)))  # which looks at each index
    else:
        array.view(_bare(array.type)).validate(full=True)


def _bare(kind: pa.DataType) -> pa.DataType:
    """Return a type of the same layout with bytes in place of text, whose encoding is judged row by row."""
    import pyarrow as pa
    from pyarrow import types

    if types.is_string(kind):
        return pa.binary()
    if types.is_large_string(kind):
        return pa.large_binary()
    if types.is_string_view(kind):
        return pa.binary_view()
    if types.is_fixed_size_list(kind):
        return pa.list_(_bare(kind.value_type), kind.list_size)
    if types.is_large_list(kind):
        return pa.large_list(_bare(kind.value_type))
    return pa.list_(_bare(kind.value_type)) if types.is_list(kind) else kind
