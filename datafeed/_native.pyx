# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=False
"""Turn bytes into columns and back: the Python face of the kernels in `kernels/`.

What the kernels share: nothing at module level changes after the import, each function may run in many threads at once,
and no length from the data is used before it was compared with what is left of the data.

Wire data is read as protobuf reads it: unknown fields are skipped, `features` may occur several times, the last of
equal map keys counts, a list of another kind replaces the one before it, one of the same kind is appended. Only what is
asked for is looked into. Groups (deprecated, never written by an Example) are refused.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from datafeed.kernels.headers cimport (
    DF_FIXED, DF_LIST, DF_NO_MEMORY, DF_OK, DF_ONE, DF_RAGGED, DF_STRANGERS, DF_VALUE, df_block, df_column, df_crc,
    df_crc_table_only, df_fault, df_fill, df_has_instruction, df_locate, df_make_nodes, df_make_slots, df_mask,
    df_no_fault, df_node, df_out, df_parse, df_put_rows, df_range, df_record, df_row, df_schema, df_setup, df_size_rows,
    df_frame_decode, df_pack, df_packed_nbytes, df_place, df_place_features, df_read_file, df_sized, df_span, df_spec,
    df_total, df_unpack, df_walk, df_walked, df_zstd, df_zstd_setup,
)
from datafeed.kernels.arrays cimport address_of, checked_array, indices_array, take_columns
from datafeed.kernels.reasons cimport unfit, walk_reason
from datafeed.kernels.specs cimport specify
from datafeed.kernels.strings cimport cut_to_list, spans_to_list

import numpy as np

from datafeed.columns import Column, Parsed
from datafeed.errors import CorruptRecord, SchemaError

df_setup()
df_zstd_setup()

cdef object _INT64 = np.dtype(np.int64)
cdef object _BOOL = np.dtype(np.bool_)
cdef object _UINT8 = np.dtype(np.uint8)
cdef object _UINT32 = np.dtype(np.uint32)


cdef class _Memory:
    """Own zeroed memory, freed with the object."""

    cdef void *p

    def __cinit__(self, size_t count, size_t size):
        self.p = calloc(count if count else 1, size)
        if self.p == NULL:
            raise MemoryError(f"no {count} x {size} bytes of memory")

    def __dealloc__(self):
        free(self.p)


cdef uint32_t _sum(object data, bint by_table) except? 0:
    cdef Py_buffer view
    cdef uint32_t crc
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    with nogil:
        crc = (df_crc_table_only if by_table else df_crc)(<const uint8_t *>view.buf, <size_t>view.len)
    PyBuffer_Release(&view)
    return crc


def crc32c(data):
    return _sum(data, False)


def masked_crc32c(data):
    return df_mask(_sum(data, False))


def _crc32c_by_table(data):
    return _sum(data, True)


def _crc32c_has_instruction():
    return bool(df_has_instruction)


include "kernels/block.pxi"
include "kernels/decoder.pxi"
include "kernels/extents.pxi"


cdef class _Layout:
    """Hold what the kernels must know of each feature."""

    cdef readonly tuple features
    cdef tuple _names
    cdef list _dtypes, _shapes, _wanted
    cdef _Memory _spec_memory, _slot_memory
    cdef df_spec *_specs
    cdef df_schema _schema

    def __cinit__(self, features):
        cdef uint32_t i, slots = 4
        self.features = tuple(features)
        self._names = tuple([feature.name.encode() for feature in self.features])
        if len(set(self._names)) != len(self._names):
            raise SchemaError("features share a name")
        self._dtypes = [feature.numpy_dtype for feature in self.features]
        self._shapes = [feature.row_shape if feature.numeric else () for feature in self.features]
        self._wanted = [(f.name, d, s) for f, d, s in zip(self.features, self._dtypes, self._shapes, strict=True)]
        self._spec_memory = _Memory(len(self._names), sizeof(df_spec))
        self._specs = <df_spec *>self._spec_memory.p
        for i in range(len(self._names)):
            specify(&self._specs[i], self.features[i], self._names[i])
        while slots < 2 * <uint32_t>len(self._names):
            slots *= 2
        self._slot_memory = _Memory(slots, sizeof(uint32_t))
        self._schema.specs = self._specs
        self._schema.count = <uint32_t>len(self._names)
        self._schema.mask = slots - 1
        self._schema.slots = <const uint32_t *>self._slot_memory.p
        df_make_slots(&self._schema, <uint32_t *>self._slot_memory.p)

    def __reduce__(self):
        return type(self), (self.features,)


include "kernels/parser.pxi"


cdef class Encoder(_Layout):
    def encode(self, columns, start, stop, limit):
        cdef df_fault fault = df_no_fault
        cdef int code
        cdef uint64_t first, last, most
        cdef uint8_t *out
        cdef list kept = list(columns), held = []
        cdef _Memory memory = _Memory(self._schema.count, sizeof(df_column))
        cdef df_column *taken = <df_column *>memory.p
        cdef _Sized sized = _Sized()
        rows = take_columns(self._specs, self._wanted, kept, held, taken)
        if not 0 <= start <= stop or (rows >= 0 and stop > rows) or limit < 0:
            raise ValueError(f"expected 0 <= start <= stop <= {rows} and a limit, found {start}, {stop} and {limit}")
        first, last, most = start, stop, min(limit, 2**62)
        with nogil:
            code = df_size_rows(&self._schema, taken, first, last, most, &sized.sized, &fault)
        if code != DF_OK:
            raise unfit(self.features, &fault)
        framed = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>sized.sized.nbytes)
        out = <uint8_t *>PyBytes_AS_STRING(framed)
        if sized.sized.rows:
            with nogil:
                code = df_put_rows(&self._schema, taken, first, &sized.sized, out, &fault)
        if code != DF_OK:
            raise unfit(self.features, &fault)
        return framed, sized.sized.rows


cdef class _Sized:
    """Own what `df_size_rows` measures."""

    cdef df_sized sized

    def __dealloc__(self):
        free(self.sized.payloads)
        free(self.sized.sizes)


def bytes_list(values, offsets):
    cdef Py_ssize_t i, n, total
    cdef bint wrong = False
    values = checked_array(values, _UINT8, 1, "", "values")
    offsets = checked_array(offsets, _INT64, 1, "", "offsets")
    if not len(offsets):
        raise SchemaError("offsets: expected at least one, found none")
    n = len(offsets) - 1
    total = len(values)
    cdef const int64_t *given = <const int64_t *>address_of(offsets, PyBUF_SIMPLE)
    cdef _Memory ends = _Memory(n + 1, sizeof(int64_t)), starts = _Memory(n, sizeof(void *))
    cdef int64_t *end = <int64_t *>ends.p
    with nogil:
        memcpy(end, given, (n + 1) * sizeof(int64_t))  # nobody else can change the copy once it is checked
        wrong = end[0] < 0 or end[n] > total
        for i in range(n):
            wrong |= end[i + 1] < end[i]
    if wrong:
        raise SchemaError("offsets: expected ones that never fall and stay inside the values")
    return cut_to_list(<const uint8_t *>address_of(values, PyBUF_SIMPLE), end, n, <uint8_t **>starts.p)
