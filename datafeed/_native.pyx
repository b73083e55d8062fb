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
    df_frame_decode, df_read_file, df_sized, df_span, df_spec, df_total, df_walk, df_walked, df_zstd, df_zstd_setup,
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


cdef class Parser(_Layout):
    cdef dict _groups  # dtype -> its scalar features, by number
    cdef _Memory _nodes

    def __cinit__(self, features):
        self._nodes = _Memory(self._schema.count + 1, sizeof(df_node))
        df_make_nodes(&self._schema, <df_node *>self._nodes.p)
        self._groups = {}
        for number, feature in enumerate(self.features):
            if feature.numeric and feature.shape == ():
                self._groups.setdefault(feature.numpy_dtype, []).append(number)

    @property
    def groups(self):
        return list(self._groups.values())

    def parse(self, blocks, which, rows):
        parsed = self.parse_batch(blocks, which, rows, frozenset(), frozenset())
        columns = parsed.columns
        for numbers, whole in zip(self._groups.values(), parsed.wholes, strict=True):
            for number, values in zip(numbers, whole, strict=True):
                columns[number] = Column(values, None, None, parsed.present[number])
        return columns

    def parse_batch(self, blocks, which, rows, listed, viewed):
        cdef df_fault fault = df_no_fault
        cdef int code, placed
        cdef uint64_t n
        cdef uint32_t i, count = self._schema.count
        which = indices_array(which, "which")
        rows = indices_array(rows, "rows")
        if len(which) != len(rows):
            raise ValueError(f"expected as many block numbers as rows, found {len(which)} and {len(rows)}")
        n = len(rows)
        cdef _Memory chosen_memory = _Memory(n, sizeof(void *)), located = _Memory(n, sizeof(df_row))
        cdef const df_block **chosen = <const df_block **>chosen_memory.p
        cdef const int32_t *rows_at = <const int32_t *>address_of(rows, PyBUF_SIMPLE)
        cdef list held = _choose(blocks, <const int32_t *>address_of(which, PyBUF_SIMPLE), n, chosen)
        cdef _Memory out_memory = _Memory(count, sizeof(df_out))
        cdef _Memory seen = _Memory(count, sizeof(uint64_t))
        cdef _Memory entries = _Memory(count, sizeof(df_range))
        cdef _Memory nodes = _Memory(count + 1 + DF_STRANGERS, sizeof(df_node))
        memcpy(nodes.p, self._nodes.p, (count + 1) * sizeof(df_node))
        cdef df_out *outs = <df_out *>out_memory.p
        cdef list values = [None] * count, present = [None] * count, spans = [None] * count
        cdef list wholes = self._allocate(n, outs, values, present, spans)
        with nogil:
            placed = code = df_locate(chosen, rows_at, n, <df_row *>located.p, &fault)
            if placed == DF_OK:
                code = df_parse(&self._schema, outs, <df_node *>nodes.p, <const df_row *>located.p, n,
                                <uint64_t *>seen.p, <df_range *>entries.p, &fault)
        if placed != DF_OK:
            raise _no_record(blocks, which, rows, chosen, fault.row)
        if code != DF_OK:
            raise unfit(self.features, &fault)
        cdef list columns = [None] * count
        cdef dict texts = {}, views = {}
        for i in range(count):
            if outs[i].spans == NULL:
                if values[i] is not None:
                    columns[i] = Column(values[i], None, None, present[i])
            elif self._specs[i].form == DF_ONE and i in viewed:
                views[i] = _view_spans(&self._specs[i], outs[i].spans, n, held)
            elif self._specs[i].form == DF_ONE and i in listed:
                texts[i] = _list_spans(&self._specs[i], outs[i].spans, n)
            else:
                columns[i] = self._gather(i, n, outs[i].spans, present[i])
        return Parsed(wholes, columns, texts, views, present)

    cdef list _allocate(self, uint64_t n, df_out *outs, list values, list present, list spans):
        cdef uint32_t i
        cdef uint8_t *out
        cdef list wholes = []
        for dtype, numbers in self._groups.items():
            whole = np.empty((len(numbers), n), dtype)
            wholes.append(whole)
            out = <uint8_t *>address_of(whole, PyBUF_SIMPLE | PyBUF_WRITABLE)
            for i in numbers:
                outs[i].out = out
                out += n * self._specs[i].item_size
        for i in range(self._schema.count):
            if self._specs[i].optional:
                present[i] = np.empty(n, _BOOL)
                outs[i].present = <uint8_t *>address_of(present[i], PyBUF_SIMPLE | PyBUF_WRITABLE)
            if self._specs[i].form != DF_FIXED:
                spans[i] = _Memory(n, sizeof(df_span))
                outs[i].spans = <df_span *>(<_Memory>spans[i]).p
            elif outs[i].out == NULL:
                values[i] = np.empty((n, *self._shapes[i]), self._dtypes[i])
                outs[i].out = <uint8_t *>address_of(values[i], PyBUF_SIMPLE | PyBUF_WRITABLE)
        return wholes

    cdef object _gather(self, uint32_t i, uint64_t n, df_span *spans, object present):
        cdef df_spec *spec = &self._specs[i]
        cdef df_fault fault = df_no_fault
        cdef int64_t count = 0, nbytes = 0
        cdef int code
        code = df_total(spans, n, &count, &nbytes)
        if code != DF_OK:
            fault.code = code
            raise unfit(self.features, &fault)
        inner = None
        cdef int64_t *inner_at = NULL
        if spec.form == DF_RAGGED:
            items = nbytes // spec.row_bytes if spec.raw and spec.row_bytes else 0
            if not spec.raw and spec.row_items:
                items = count // spec.row_items
            values = np.empty((items, *self._shapes[i]), self._dtypes[i])
        else:
            values = np.empty(nbytes, _UINT8)
        if spec.form == DF_LIST:
            inner = np.empty(count + 1, _INT64)
            inner_at = <int64_t *>address_of(inner, PyBUF_SIMPLE | PyBUF_WRITABLE)
        offsets = np.empty(n + 1, _INT64)
        cdef uint8_t *out = <uint8_t *>address_of(values, PyBUF_SIMPLE | PyBUF_WRITABLE)
        cdef int64_t *offsets_at = <int64_t *>address_of(offsets, PyBUF_SIMPLE | PyBUF_WRITABLE)
        with nogil:
            df_fill(spec, spans, n, out, offsets_at, inner_at)
        return Column(values, offsets, inner, present)


cdef list _list_spans(const df_spec *spec, const df_span *spans, Py_ssize_t n):
    cdef _Memory at = _Memory(n, sizeof(void *))
    return spans_to_list(spec, spans, n, <uint8_t **>at.p)


cdef list _view_spans(const df_spec *spec, const df_span *spans, uint64_t n, list blocks):
    cdef list views = []
    cdef uint64_t i
    cdef Py_ssize_t start
    cdef Block block
    for i in range(n):
        block = <Block>blocks[i]
        if spans[i].mode == DF_VALUE:
            start = spans[i].p - block._block.data
            views.append(block._memory[start:start + <Py_ssize_t>spans[i].bytes])
        else:  # it is missing, or put together from several places
            views.append(memoryview(_list_spans(spec, &spans[i], 1)[0]))
    return views


cdef list _choose(object blocks, const int32_t *which, Py_ssize_t n, const df_block **chosen):
    # Only the blocks asked for are looked at: there may be many more than rows. The list keeps them alive.
    cdef Py_ssize_t i, count = len(blocks)
    cdef list held = []
    cdef Block block
    for i in range(n):
        if not 0 <= which[i] < count:
            continue
        found = blocks[which[i]]
        if found is None:
            continue
        if not isinstance(found, Block):
            raise TypeError(f"blocks: expected a Block or None, found {type(found).__name__}")
        block = found
        chosen[i] = &block._block
        held.append(block)
    return held


cdef object _no_record(object blocks, object which, object rows, const df_block **chosen, Py_ssize_t i):
    number, row = int(which[i]), int(rows[i])
    there = f"of {chosen[i].count} records" if chosen[i] != NULL else "which is not there"
    return IndexError(f"position {i}: no record {row} in block {number} {there} ({len(blocks)} blocks)")


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
