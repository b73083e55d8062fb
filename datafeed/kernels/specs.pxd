"""Tell the kernels what a feature is."""

from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport uint8_t, uint32_t

from datafeed.kernels.headers cimport DF_FIXED, DF_LIST, DF_ONE, DF_RAGGED, DF_RECORD_LIMIT, DF_TEXT
from datafeed.kernels.headers cimport df_make_lead, df_spec
from datafeed.kernels.reasons cimport misfit


cdef inline int dtype_code(str dtype) except -1:
    return ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
            "float64").index(dtype)  # as numbers.h counts them


cdef inline int specify(df_spec *spec, object feature, bytes name) except -1:
    if feature.row_items > DF_RECORD_LIMIT or len(name) > DF_RECORD_LIMIT:
        raise misfit(f"shape {feature.shape} is more than a record can hold", feature.name)
    spec.name = <const uint8_t *>PyBytes_AS_STRING(name)
    spec.name_len = <uint32_t>len(name)
    spec.kind = {"bytes": 1, "float": 2, "int64": 3}[feature.kind]
    spec.optional = feature.optional
    spec.raw = feature.raw
    spec.code = dtype_code(feature.dtype) if feature.numeric else DF_TEXT
    spec.item_size = feature.numpy_dtype.itemsize
    spec.row_items = feature.row_items
    spec.row_bytes = spec.row_items * spec.item_size
    if feature.numeric:
        spec.form = DF_RAGGED if feature.ragged else DF_FIXED
    else:
        spec.form = DF_LIST if feature.shape else DF_ONE
    spec.values_wanted = -1 if feature.ragged else feature.row_items
    df_make_lead(spec)
    return 0
