# Part of _native.pyx: records to columns, from their encoding or from packed rows.


# Outside the garbage collector, as Block is.
@cython.no_gc
cdef class Packed(Block):
    cdef Parser _parser

    def __init__(self, *args, **kwargs):
        raise TypeError("Parser.pack makes packed blocks")

    @property
    def raw(self):
        raise TypeError("a packed block does not hold its records' encoding")

    def record(self, row):
        raise TypeError("a packed block does not hold its records' encoding")


cdef class _Filled:
    """Own what the records of a call are parsed into."""

    cdef list held     # their blocks, in turn
    cdef list wholes, values, present, spans
    cdef df_out *outs
    cdef uint64_t n
    cdef _Memory _outs


cdef class Parser(_Layout):
    cdef dict _groups  # dtype -> its scalar features, by number
    cdef _Memory _nodes, _places
    cdef uint64_t _stride
    cdef tuple _theirs  # the parser that packed what was met last, and where this one's features lie in its rows

    def __cinit__(self, features):
        self._nodes = _Memory(self._schema.count + 1, sizeof(df_node))
        df_make_nodes(&self._schema, <df_node *>self._nodes.p)
        self._places = _Memory(self._schema.count, sizeof(df_place))
        self._stride = df_place_features(&self._schema, <df_place *>self._places.p)
        self._theirs = (None, None)
        self._groups = {}
        for number, feature in enumerate(self.features):
            if feature.numeric and feature.shape == ():
                self._groups.setdefault(feature.numpy_dtype, []).append(number)

    @property
    def groups(self):
        return list(self._groups.values())

    def pack(self, Block block, take):
        cdef uint64_t n = len(block), nbytes
        cdef Packed packed
        cdef uint8_t *data
        rows = np.arange(n, dtype=np.int32)
        cdef _Filled filled = self._fill([block], np.zeros_like(rows), rows, np.empty)
        with nogil:
            nbytes = df_packed_nbytes(&self._schema, filled.outs, n, self._stride) if self._stride else 0
        if not nbytes:
            return block
        packed = Packed.__new__(Packed, take(nbytes))
        if packed._view.readonly or <uint64_t>packed._view.len != nbytes:
            raise ValueError(f"expected a writable buffer of {nbytes} bytes")
        data = <uint8_t *>packed._view.buf
        with nogil:
            df_pack(&self._schema, <df_place *>self._places.p, filled.outs, n, self._stride, data)
        packed._parser = self
        packed._block.data = data
        packed._block.nbytes = nbytes
        packed._block.count = n
        packed._block.stride = self._stride
        return packed

    def parse(self, blocks, which, rows):
        parsed = self.parse_batch(blocks, which, rows, frozenset(), frozenset())
        columns = parsed.columns
        for numbers, whole in zip(self._groups.values(), parsed.wholes, strict=True):
            for number, values in zip(numbers, whole, strict=True):
                columns[number] = Column(values, None, None, parsed.present[number])
        return columns

    def parse_batch(self, blocks, which, rows, listed, viewed, empty=np.empty):
        cdef _Filled filled = self._fill(blocks, which, rows, empty)
        cdef uint32_t i, count = self._schema.count
        cdef uint64_t n = filled.n
        cdef df_out *outs = filled.outs
        cdef list columns = [None] * count
        cdef dict texts = {}, views = {}
        for i in range(count):
            if outs[i].spans == NULL:
                if filled.values[i] is not None:
                    columns[i] = Column(filled.values[i], None, None, filled.present[i])
            elif self._specs[i].form == DF_ONE and i in viewed:
                views[i] = _view_spans(&self._specs[i], outs[i].spans, n, filled.held)
            elif self._specs[i].form == DF_ONE and i in listed:
                texts[i] = _list_spans(&self._specs[i], outs[i].spans, n)
            else:
                columns[i] = self._gather(i, n, outs[i].spans, filled.present[i])
        return Parsed(filled.wholes, columns, texts, views, filled.present)

    cdef _Filled _fill(self, blocks, which, rows, empty):
        """Find the rows, and read or gather them."""
        cdef df_fault fault = df_no_fault
        cdef int code, placed
        cdef uint64_t n
        cdef uint32_t count = self._schema.count
        which = indices_array(which, "which")
        rows = indices_array(rows, "rows")
        if len(which) != len(rows):
            raise ValueError(f"expected as many block numbers as rows, found {len(which)} and {len(rows)}")
        n = len(rows)
        cdef _Memory chosen_memory = _Memory(n, sizeof(void *)), located = _Memory(n, sizeof(df_row))
        cdef const df_block **chosen = <const df_block **>chosen_memory.p
        cdef const int32_t *rows_at = <const int32_t *>address_of(rows, PyBUF_SIMPLE)
        cdef _Filled filled = _Filled()
        cdef Parser packer = None
        filled.n = n
        filled.held, packer = _choose(blocks, <const int32_t *>address_of(which, PyBUF_SIMPLE), n, chosen)
        cdef _Memory places = None if packer is None else self._places_in(packer)
        cdef _Memory seen = _Memory(count, sizeof(uint64_t))
        cdef _Memory entries = _Memory(count, sizeof(df_range))
        cdef _Memory nodes = _Memory(count + 1 + DF_STRANGERS, sizeof(df_node))
        memcpy(nodes.p, self._nodes.p, (count + 1) * sizeof(df_node))
        self._allocate(filled, empty)
        cdef df_out *outs = filled.outs
        cdef df_place *places_at = NULL if places is None else <df_place *>places.p
        cdef uint64_t stride = 0 if packer is None else packer._stride
        with nogil:
            placed = code = df_locate(chosen, rows_at, n, <df_row *>located.p, &fault)
            if placed == DF_OK:
                code = df_parse(&self._schema, outs, <df_node *>nodes.p, <const df_row *>located.p, n,
                                <uint64_t *>seen.p, <df_range *>entries.p, &fault)
            if code == DF_OK and places_at != NULL:
                df_unpack(&self._schema, places_at, outs, <const df_row *>located.p, n, stride)
        if placed != DF_OK:
            raise _no_record(blocks, which, rows, chosen, fault.row)
        if code != DF_OK:
            raise unfit(self.features, &fault)
        return filled

    cdef _Memory _places_in(self, Parser packer):
        """Find where the features lie in another parser's rows."""
        if packer is self:
            return self._places
        known, places = self._theirs
        if known is packer:
            return places
        cdef _Memory found = _Memory(self._schema.count, sizeof(df_place))
        for number, feature in enumerate(self.features):
            if feature not in packer.features:
                raise TypeError(f"feature {feature.name!r} is not among those that were packed")
            (<df_place *>found.p)[number] = (<df_place *>packer._places.p)[<Py_ssize_t>packer.features.index(feature)]
        self._theirs = (packer, found)
        return found

    cdef int _allocate(self, _Filled filled, empty) except -1:
        cdef uint32_t i, count = self._schema.count
        cdef uint64_t n = filled.n
        cdef uint8_t *out
        filled._outs = _Memory(count, sizeof(df_out))
        cdef df_out *outs = <df_out *>filled._outs.p
        filled.outs = outs
        filled.wholes = []
        filled.values, filled.present, filled.spans = [None] * count, [None] * count, [None] * count
        for dtype, numbers in self._groups.items():
            whole = empty((len(numbers), n), dtype)
            filled.wholes.append(whole)
            out = <uint8_t *>address_of(whole, PyBUF_SIMPLE | PyBUF_WRITABLE)
            for i in numbers:
                outs[i].out = out
                out += n * self._specs[i].item_size
        for i in range(count):
            if self._specs[i].optional:
                filled.present[i] = np.empty(n, _BOOL)
                outs[i].present = <uint8_t *>address_of(filled.present[i], PyBUF_SIMPLE | PyBUF_WRITABLE)
            if self._specs[i].form != DF_FIXED:
                filled.spans[i] = _Memory(n, sizeof(df_span))
                outs[i].spans = <df_span *>(<_Memory>filled.spans[i]).p
            elif outs[i].out == NULL:
                filled.values[i] = empty((n, *self._shapes[i]), self._dtypes[i])
                outs[i].out = <uint8_t *>address_of(filled.values[i], PyBUF_SIMPLE | PyBUF_WRITABLE)
        return 0

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


cdef tuple _choose(object blocks, const int32_t *which, Py_ssize_t n, const df_block **chosen):
    # Only the blocks asked for are looked at: there may be many more than rows. The list keeps them alive. With it
    # comes the parser that packed those that are packed.
    cdef Py_ssize_t i, count = len(blocks)
    cdef list held = []
    cdef Block block
    cdef Parser packer = None, theirs
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
        if block._block.stride:
            theirs = (<Packed>block)._parser
            if packer is not None and packer is not theirs:
                raise TypeError("blocks: expected those that are packed to come from one parser")
            packer = theirs
    return held, packer


cdef object _no_record(object blocks, object which, object rows, const df_block **chosen, Py_ssize_t i):
    number, row = int(which[i]), int(rows[i])
    there = f"of {chosen[i].count} records" if chosen[i] != NULL else "which is not there"
    return IndexError(f"position {i}: no record {row} in block {number} {there} ({len(blocks)} blocks)")
