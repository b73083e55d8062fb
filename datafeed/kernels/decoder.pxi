# Part of _native.pyx: decompress the blocks of a run in one go.


def _zstd_version():
    return df_zstd.version


cdef class _Context:
    """Own a decompression context of libzstd."""

    cdef void *p

    def __cinit__(self):
        self.p = df_zstd.create()
        if self.p == NULL:
            raise MemoryError("no memory for a zstd context")

    def __dealloc__(self):
        if self.p != NULL:
            df_zstd.free(self.p)


cdef class Decoder:
    cdef object _stored, _raw, _records, _checksum
    cdef const int64_t *_stored_at
    cdef const int64_t *_raw_at
    cdef const int64_t *_records_at
    cdef const uint32_t *_checksum_at
    cdef Py_ssize_t _count
    cdef list _contexts  # those that no call uses now: taken and given back under the GIL

    def __cinit__(self, stored, raw, records, checksum):
        self._stored = checked_array(stored, _INT64, 1, "", "stored")
        self._raw = checked_array(raw, _INT64, 1, "", "raw")
        self._records = checked_array(records, _INT64, 1, "", "records")
        self._checksum = checked_array(checksum, _UINT32, 1, "", "checksum")
        self._count = len(self._stored)
        if not self._count == len(self._raw) == len(self._records) == len(self._checksum):
            raise ValueError("expected columns of one length")
        self._stored_at = <const int64_t *>address_of(self._stored, PyBUF_SIMPLE)
        self._raw_at = <const int64_t *>address_of(self._raw, PyBUF_SIMPLE)
        self._records_at = <const int64_t *>address_of(self._records, PyBUF_SIMPLE)
        self._checksum_at = <const uint32_t *>address_of(self._checksum, PyBUF_SIMPLE)
        self._contexts = []

    def decode(self, data, Py_ssize_t start, Py_ssize_t stop, take):
        cdef Py_buffer view
        cdef Py_ssize_t i
        cdef uint64_t at = 0
        cdef bint good = True
        cdef Block block
        cdef list blocks = []
        if not df_zstd.version:
            return None
        if not 0 <= start < stop <= self._count:
            raise ValueError(f"blocks {start} to {stop} of {self._count}")
        cdef _Memory found = _Memory(stop - start, sizeof(df_walked))
        cdef df_walked *walked = <df_walked *>found.p
        cdef _Memory bounds = _Memory(stop - start, sizeof(void *))
        cdef uint8_t **into = <uint8_t **>bounds.p
        for i in range(start, stop):
            if self._raw_at[i] <= 0 or self._stored_at[i] <= 0:
                return None
            block = Block.__new__(Block, take(self._raw_at[i]))
            if block._view.readonly or block._view.len != self._raw_at[i]:
                raise ValueError(f"expected a writable buffer of {self._raw_at[i]} bytes")
            into[i - start] = <uint8_t *>block._view.buf
            blocks.append(block)
        cdef _Context context = self._contexts.pop() if self._contexts else _Context()
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        with nogil:
            for i in range(start, stop):
                good = (
                    <uint64_t>self._stored_at[i] <= <uint64_t>view.len - at
                    and df_frame_decode(context.p, <const uint8_t *>view.buf + at, <uint64_t>self._stored_at[i],
                                        self._checksum_at[i], into[i - start], <uint64_t>self._raw_at[i])
                    and df_walk(into[i - start], <uint64_t>self._raw_at[i], self._records_at[i], False,
                                &walked[i - start]) == DF_OK
                )
                if not good:
                    break
                at += <uint64_t>self._stored_at[i]
        PyBuffer_Release(&view)
        self._contexts.append(context)
        for i in range(stop - start):  # those behind one that failed have no records
            block = blocks[i]
            block._keep(&walked[i])
        return blocks if good else None
