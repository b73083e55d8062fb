# Part of _native.pyx: the raw bytes of a block, with where its records lie.

# The lengths of a block are walked in a few microseconds: to let go of the GIL and wait for it again takes longer.
cdef enum:
    DF_SHORT_WALK = 1048576


# Outside the garbage collector, whose tp_clear drops the exporter of a Py_buffer without releasing the export. A
# block refers to bytes alone, so no cycle leads through it.
@cython.no_gc
cdef class Block:
    cdef Py_buffer _view
    cdef bint _held
    cdef object _memory
    cdef df_block _block

    def __cinit__(self, raw, records=-1, *, check_payload=False):
        PyObject_GetBuffer(raw, &self._view, PyBUF_SIMPLE)
        self._held = True
        self._memory = memoryview(raw).toreadonly().cast("B") if self._view.len else memoryview(b"")

    def __init__(self, raw, Py_ssize_t records=-1, *, bint check_payload=False):
        cdef int code
        cdef df_walked walked
        if self._block.data != NULL:
            raise TypeError("a block is made once")
        if check_payload or self._view.len > DF_SHORT_WALK:
            with nogil:
                code = df_walk(<const uint8_t *>self._view.buf, <uint64_t>self._view.len, records, check_payload,
                               &walked)
        else:
            code = df_walk(<const uint8_t *>self._view.buf, <uint64_t>self._view.len, records, False, &walked)
        if code != DF_OK:
            free(walked.records)
        if code == DF_NO_MEMORY:
            raise MemoryError("no memory for a block's record offsets")
        if code != DF_OK:
            raise CorruptRecord(walk_reason(code, &walked, self._view.len, records), record=walked.count,
                                offset=walked.offset)
        self._keep(&walked)

    cdef void _keep(self, const df_walked *walked) noexcept:
        self._block.data = <const uint8_t *>self._view.buf
        self._block.nbytes = <uint64_t>self._view.len
        self._block.records = walked.records
        self._block.count = walked.count

    def __dealloc__(self):
        free(<void *>self._block.records)
        if self._held:
            PyBuffer_Release(&self._view)

    @property
    def nbytes(self):
        return self._view.len

    @property
    def raw(self):
        return self._memory

    def __len__(self):
        return <Py_ssize_t>self._block.count

    def record(self, Py_ssize_t row):
        if row < 0 or <uint64_t>row >= self._block.count:
            raise IndexError(f"record {row} of a block of {self._block.count} records")
        cdef df_record found = self._block.records[row]
        return self._memory[found.offset:found.offset + found.length]
