# Part of _native.pyx: decompress the blocks of a run in one go.


def _zstd_version():
    return df_zstd.version


cdef enum:
    DF_KEPT_ROOM = 16777216  # what a context keeps of the longest run: eight extents


cdef class _Context:
    """Own a decompression context of libzstd, and room for the frames of a run."""

    cdef void *p
    cdef uint8_t *room
    cdef uint64_t nbytes

    def __cinit__(self):
        self.p = df_zstd.create()
        if self.p == NULL:
            raise MemoryError("no memory for a zstd context")

    def __dealloc__(self):
        free(self.room)
        if self.p != NULL:
            df_zstd.free(self.p)

    cdef uint8_t *hold(self, uint64_t nbytes) except NULL:
        """Return room for so many bytes: kept for the next call, fresh memory costs a page fault every 4 KiB."""
        if self.room == NULL or nbytes > self.nbytes or self.nbytes > DF_KEPT_ROOM:
            free(self.room)
            self.nbytes = 0
            self.room = <uint8_t *>malloc(nbytes if nbytes else 1)
            if self.room == NULL:
                raise MemoryError(f"no {nbytes} bytes of memory for the frames of a run")
            self.nbytes = nbytes
        return self.room


cdef class Decoder:
    cdef object _offset, _stored, _raw, _records, _checksum
    cdef const int64_t *_offset_at
    cdef const uint32_t *_stored_at
    cdef const uint32_t *_raw_at
    cdef const uint32_t *_records_at
    cdef const uint32_t *_checksum_at
    cdef Py_ssize_t _count
    cdef list _contexts  # those that no call uses now: taken and given back under the GIL

    def __cinit__(self, offset, stored, raw, records, checksum):
        self._offset = checked_array(offset, _INT64, 1, "", "offset")
        self._stored = checked_array(stored, _UINT32, 1, "", "stored")
        self._raw = checked_array(raw, _UINT32, 1, "", "raw")
        self._records = checked_array(records, _UINT32, 1, "", "records")
        self._checksum = checked_array(checksum, _UINT32, 1, "", "checksum")
        self._count = len(self._stored)
        if not len(self._offset) == self._count == len(self._raw) == len(self._records) == len(self._checksum):
            raise ValueError("expected columns of one length")
        self._offset_at = <const int64_t *>address_of(self._offset, PyBUF_SIMPLE)
        self._stored_at = <const uint32_t *>address_of(self._stored, PyBUF_SIMPLE)
        self._raw_at = <const uint32_t *>address_of(self._raw, PyBUF_SIMPLE)
        self._records_at = <const uint32_t *>address_of(self._records, PyBUF_SIMPLE)
        self._checksum_at = <const uint32_t *>address_of(self._checksum, PyBUF_SIMPLE)
        self._contexts = []

    def decode(self, data, start, stop, take):
        cdef Py_buffer view
        cdef _Runs runs = _Runs(self, [(start, stop)], None, take)
        if runs.blocks is None:
            return None
        cdef _Context context = self._context()
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        with nogil:
            runs.good = self._decode(context.p, <const uint8_t *>view.buf, <uint64_t>view.len, &runs.runs[0])
        PyBuffer_Release(&view)
        self._contexts.append(context)
        return runs.found()

    def read(self, wanted, descriptors, take):
        cdef _Runs runs = _Runs(self, wanted, descriptors, take)
        if runs.blocks is None:
            return None
        cdef Py_ssize_t number
        cdef df_run *run
        cdef _Context context = self._context()
        cdef uint8_t *room = context.hold(runs.most)
        with nogil:
            for number in range(runs.count):
                run = &runs.runs[number]
                runs.good = (
                    df_read_file(run.descriptor, room, run.nbytes, self._offset_at[run.start])
                    and self._decode(context.p, room, run.nbytes, run)
                )
                if not runs.good:
                    break
        self._contexts.append(context)
        return runs.found()

    cdef _Context _context(self):
        return self._contexts.pop() if self._contexts else _Context()

    cdef bint _decode(self, void *context, const uint8_t *data, uint64_t nbytes, const df_run *run) noexcept nogil:
        """Decompress the frames of a run, and find the records; 0 where anything is not as it should be."""
        cdef Py_ssize_t i, at
        cdef uint64_t used = 0
        for i in range(run.start, run.stop):
            at = i - run.start
            if not (
                <uint64_t>self._stored_at[i] <= nbytes - used
                and df_frame_decode(context, data + used, <uint64_t>self._stored_at[i], self._checksum_at[i],
                                    run.into[at], <uint64_t>self._raw_at[i])
                and df_walk(run.into[at], <uint64_t>self._raw_at[i], self._records_at[i], False,
                            &run.walked[at]) == DF_OK
            ):
                return False
            used += <uint64_t>self._stored_at[i]
        return True


ctypedef struct df_run:
    Py_ssize_t start, stop  # blocks
    uint64_t nbytes         # of the frames, end to end
    int descriptor
    uint8_t **into          # per block, its memory
    df_walked *walked       # per block, its records


cdef class _Runs:
    """Own what a call decodes into: one Block for each block of some runs."""

    cdef list blocks  # None where the index holds what no writer makes
    cdef df_run *runs
    cdef Py_ssize_t count
    cdef uint64_t most  # nbytes of the longest
    cdef bint good
    cdef _Memory _runs, _into, _walked

    def __cinit__(self, Decoder decoder, wanted, descriptors, take):
        cdef Py_ssize_t start, stop, i, number, blocks = 0
        cdef df_run *run
        cdef Block block
        if not df_zstd.version:
            return
        self.good = True
        self.count = len(wanted)
        self._runs = _Memory(self.count, sizeof(df_run))
        self.runs = <df_run *>self._runs.p
        for number, (start, stop) in enumerate(wanted):
            if not 0 <= start < stop <= decoder._count:
                raise ValueError(f"blocks {start} to {stop} of {decoder._count}")
            run = &self.runs[number]
            run.start = start
            run.stop = stop
            run.descriptor = -1 if descriptors is None else descriptors[number]
            for i in range(start, stop):
                if not decoder._raw_at[i] or not decoder._stored_at[i]:
                    return
                run.nbytes += <uint64_t>decoder._stored_at[i]
            self.most = max(self.most, run.nbytes)
            blocks += stop - start
        self._into = _Memory(blocks, sizeof(void *))
        self._walked = _Memory(blocks, sizeof(df_walked))
        made = []
        for number in range(self.count):
            run = &self.runs[number]
            run.into = <uint8_t **>self._into.p + len(made)
            run.walked = <df_walked *>self._walked.p + len(made)
            for i in range(run.start, run.stop):
                block = Block.__new__(Block, take(decoder._raw_at[i]))
                if block._view.readonly or block._view.len != decoder._raw_at[i]:
                    raise ValueError(f"expected a writable buffer of {decoder._raw_at[i]} bytes")
                run.into[i - run.start] = <uint8_t *>block._view.buf
                made.append(block)
        self.blocks = made

    cdef list found(self):
        """Give each block its records; those behind one that failed have none."""
        cdef Py_ssize_t i
        for i in range(len(self.blocks)):
            (<Block>self.blocks[i])._keep(&(<df_walked *>self._walked.p)[i])
        return self.blocks if self.good else None
