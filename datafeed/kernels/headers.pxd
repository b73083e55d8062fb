"""Declare what the headers beside this file offer to the extension module."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t


cdef extern from "kernels/faults.h":
    enum: DF_OK, DF_CUT, DF_LENGTH_CRC, DF_PAST_END, DF_OVER_LIMIT, DF_PAYLOAD_CRC, DF_MORE, DF_NO_MEMORY
    enum: DF_WIRE, DF_GROUP, DF_MISSING, DF_KIND, DF_COUNT, DF_MULTIPLE, DF_SIZE, DF_SIZE_MULTIPLE, DF_RANGE
    enum: DF_TOO_MUCH, DF_ABSENT, DF_OFFSETS, DF_TOO_LARGE

    ctypedef struct df_fault:
        int code
        int64_t row, feature, offset, wanted, found
    const df_fault df_no_fault

cdef extern from "kernels/crc32c.h":
    int df_has_instruction
    void df_setup() noexcept nogil
    uint32_t df_crc(const uint8_t *p, size_t n) noexcept nogil
    uint32_t df_crc_table_only(const uint8_t *p, size_t n) noexcept nogil
    uint32_t df_mask(uint32_t crc) noexcept nogil

cdef extern from "kernels/frames.h":
    enum: DF_RECORD_LIMIT

    ctypedef struct df_record:
        uint64_t offset
        uint32_t length
    ctypedef struct df_walked:
        df_record *records
        uint64_t count, offset, found

    int df_walk(const uint8_t *data, uint64_t nbytes, int64_t wanted, int check, df_walked *out) noexcept nogil

cdef extern from "kernels/features.h":
    enum: DF_FIXED, DF_RAGGED, DF_ONE, DF_LIST, DF_TEXT

    ctypedef struct df_spec:
        const uint8_t *name
        uint32_t name_len, item_size
        uint8_t kind, form, raw, optional, code
        uint64_t row_items, row_bytes
        int64_t values_wanted
    ctypedef struct df_schema:
        const df_spec *specs
        uint32_t count, mask
        const uint32_t *slots

    void df_make_lead(df_spec *spec) noexcept nogil
    void df_make_slots(const df_schema *schema, uint32_t *slots) noexcept nogil

cdef extern from "kernels/wire.h":
    ctypedef struct df_range:
        pass

cdef extern from "kernels/places.h":
    enum: DF_VALUE

    ctypedef struct df_block:
        const uint8_t *data
        const df_record *records
        uint64_t count, nbytes, stride
    ctypedef struct df_row:
        pass
    ctypedef struct df_span:
        const uint8_t *p
        uint64_t bytes
        uint32_t mode
    ctypedef struct df_out:
        uint8_t *out
        uint8_t *present
        df_span *spans

    int df_locate(const df_block **blocks, const int32_t *rows, uint64_t n, df_row *out,
                  df_fault *fault) noexcept nogil

cdef extern from "kernels/example_usual.h":
    enum: DF_STRANGERS

    ctypedef struct df_node:
        pass

    void df_make_nodes(const df_schema *schema, df_node *nodes) noexcept nogil

cdef extern from "kernels/example_parse.h":
    int df_parse(const df_schema *schema, df_out *outs, df_node *nodes, const df_row *rows, uint64_t n,
                 uint64_t *seen, df_range *entries, df_fault *fault) noexcept nogil

cdef extern from "kernels/columns.h":
    int df_total(const df_span *spans, uint64_t n, int64_t *count, int64_t *nbytes) noexcept nogil
    void df_fill_each(const df_spec *spec, const df_span *spans, uint64_t n, uint8_t **outs) noexcept nogil
    void df_fill(const df_spec *spec, const df_span *spans, uint64_t n, uint8_t *out, int64_t *offsets,
                 int64_t *inner) noexcept nogil

cdef extern from "kernels/packed.h":
    ctypedef struct df_place:
        uint64_t values, present

    uint64_t df_place_features(const df_schema *schema, df_place *places) noexcept nogil
    uint64_t df_packed_nbytes(const df_schema *schema, const df_out *outs, uint64_t n, uint64_t stride) noexcept nogil
    void df_pack(const df_schema *schema, const df_place *places, const df_out *outs, uint64_t n, uint64_t stride,
                 uint8_t *data) noexcept nogil
    void df_unpack(const df_schema *schema, const df_place *places, const df_out *outs, const df_row *rows, uint64_t n,
                   uint64_t stride) noexcept nogil

cdef extern from "kernels/example_measure.h":
    ctypedef struct df_column:
        const uint8_t *values
        const uint8_t *present
        const int64_t *offsets
        const int64_t *inner
        int64_t items, inner_items
    ctypedef struct df_sized:
        uint32_t *payloads
        uint64_t *sizes
        uint64_t rows, nbytes

    int df_size_rows(const df_schema *schema, const df_column *columns, uint64_t start, uint64_t stop, uint64_t limit,
                     df_sized *sized, df_fault *fault) noexcept nogil

cdef extern from "kernels/example_write.h":
    int df_put_rows(const df_schema *schema, const df_column *columns, uint64_t start, const df_sized *sized,
                    uint8_t *p, df_fault *fault) noexcept nogil

cdef extern from "kernels/files.h":
    int df_read_file(int descriptor, uint8_t *into, uint64_t nbytes, int64_t offset) noexcept nogil

cdef extern from "kernels/zstd.h":
    ctypedef struct df_zstd_library:
        void *(*create)() noexcept nogil
        size_t (*free)(void *context) noexcept nogil
        unsigned version
    const df_zstd_library df_zstd

    void df_zstd_setup() noexcept
    int df_frame_decode(void *context, const uint8_t *frame, uint64_t nbytes, uint32_t checksum, uint8_t *into,
                        uint64_t raw) noexcept nogil
