# Part of _native.pyx: where blocks begin in their shards, and extents among the blocks.


def cut_extents(stored, counts, nbytes):
    cdef object sizes = checked_array(stored, _UINT32, 1, "", "stored")
    cdef object held = checked_array(counts, _INT64, 1, "", "counts")
    cdef Py_ssize_t i, stop, shard, shards = len(held), extents = 0
    cdef int64_t most = nbytes, begun, offset
    if shards and (held.min() < 0 or held.max() > len(sizes)) or held.sum() != len(sizes) or most < 1:
        raise ValueError(f"expected counts that add up to {len(sizes)} blocks, and extents of at least 1 byte")
    cdef object offsets = np.empty(len(sizes), np.int64), bounds = np.empty(len(sizes) + 1, np.int64)
    cdef const uint32_t *size = <const uint32_t *>address_of(sizes, PyBUF_SIMPLE)
    cdef const int64_t *count = <const int64_t *>address_of(held, PyBUF_SIMPLE)
    cdef int64_t *offset_at = <int64_t *>address_of(offsets, PyBUF_SIMPLE | PyBUF_WRITABLE)
    cdef int64_t *bound = <int64_t *>address_of(bounds, PyBUF_SIMPLE | PyBUF_WRITABLE)
    with nogil:
        i = 0
        bound[0] = 0
        for shard in range(shards):
            begun = offset = 0
            stop = i + count[shard]
            while i < stop:
                offset_at[i] = offset
                offset += size[i]
                i += 1
                if offset - begun >= most or i == stop:
                    extents += 1
                    bound[extents] = i
                    begun = offset
    return offsets, bounds[: extents + 1].copy()
