/* Know where a parse reads its records and where it leaves their values. */

#ifndef DATAFEED_PLACES_H
#define DATAFEED_PLACES_H

#include "faults.h"
#include "features.h"
#include "frames.h"

/* stride: how long the rows of a packed block are, 0 for one of records. */
typedef struct { const u8 *data; const df_record *records; u64 count, nbytes, stride; } df_block;
/* limit: how far the block can be read; NULL for a packed row, whose e is the block's start. */
typedef struct { const u8 *p, *e, *limit; } df_row;

/* Where the values of a ragged or bytes feature lie in one record. */
enum { DF_NOTHING, DF_PACKED, DF_VALUE, DF_VALUES, DF_ENTRY };
typedef struct { const u8 *p; u64 nbytes, count, bytes; u32 mode; } df_span;

typedef struct { u8 *out; u8 *present; df_span *spans; } df_out;

static inline void df_put_missing(const df_spec *spec, df_out *out, u64 row) {
    if (out->present) out->present[row] = 0;
    if (out->spans) {
        memset(&out->spans[row], 0, sizeof(df_span));
        return;
    }
    u8 *p = out->out + row * spec->row_bytes;
    if (spec->code != DF_F16 && spec->code != DF_F32 && spec->code != DF_F64) {
        memset(p, 0, spec->row_bytes);
        return;
    }
    u64 nan = spec->code == DF_F16 ? 0x7e00 : spec->code == DF_F32 ? 0x7fc00000 : 0x7ff8000000000000;
    for (u64 i = 0; i < spec->row_items; i++) memcpy(p + i * spec->item_size, &nan, spec->item_size);
}

/* Find the rows; blocks[i] is row i's block, NULL where there is none. */
static inline int df_locate(const df_block *const *blocks, const int32_t *rows, u64 n, df_row *out, df_fault *fault) {
    for (u64 i = 0; i < n; i++) {
        const df_block *block = blocks[i];
        fault->row = (i64)i;
        if (!block || rows[i] < 0 || (u64)rows[i] >= block->count) return fault->code = DF_BAD_INDEX;
        if (block->stride) {
            df_row packed = {block->data + (u64)rows[i] * block->stride, block->data, NULL};
            out[i] = packed;
            continue;
        }
        df_record record = block->records[rows[i]];
        out[i].p = block->data + record.offset;
        out[i].e = out[i].p + record.length;
        out[i].limit = block->data + block->nbytes;
    }
    return DF_OK;
}

#endif
