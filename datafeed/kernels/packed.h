/* Keep the records of a block in rows of one size, so that a batch is gathered without reading their encoding again. */

#ifndef DATAFEED_PACKED_H
#define DATAFEED_PACKED_H

#include "columns.h"

#define DF_NOWHERE (~(u64)0)

typedef struct { u64 values, present; } df_place;  /* offsets in a row; DF_NOWHERE for what is always there */
typedef struct { u32 at, nbytes, count, bytes, mode; } df_kept;  /* a df_span, its bytes counted from the block's start */

/* Say where each feature lies in a row; how long a row is. */
static inline u64 df_place_features(const df_schema *schema, df_place *places) {
    u64 at = 0;
    for (u32 i = 0; i < schema->count; i++) {
        const df_spec *spec = &schema->specs[i];
        places[i].values = at;
        at += spec->form == DF_FIXED ? spec->row_bytes : sizeof(df_kept);
        places[i].present = spec->optional ? at : DF_NOWHERE;
        at += spec->optional;
    }
    return at;
}

/* How many bytes n parsed rows take; 0 where there are more than a df_kept can count. */
static inline u64 df_packed_nbytes(const df_schema *schema, const df_out *outs, u64 n, u64 stride) {
    u64 total = n * stride;
    for (u32 i = 0; i < schema->count; i++)
        for (u64 row = 0; outs[i].spans && row < n; row++) total += outs[i].spans[row].nbytes;
    return total <= UINT32_MAX ? total : 0;
}

static inline void df_pack(const df_schema *schema, const df_place *places, const df_out *outs, u64 n, u64 stride,
                           u8 *data) {
    u64 end = n * stride;
    for (u64 row = 0; row < n; row++) {
        u8 *to = data + row * stride;
        for (u32 i = 0; i < schema->count; i++) {
            const df_out *out = &outs[i];
            u64 nbytes = schema->specs[i].row_bytes;
            if (out->present) to[places[i].present] = out->present[row];
            if (!out->spans) {
                memcpy(to + places[i].values, out->out + row * nbytes, nbytes);
                continue;
            }
            df_span span = out->spans[row];
            df_kept kept = {(u32)end, (u32)span.nbytes, (u32)span.count, (u32)span.bytes, span.mode};
            memcpy(to + places[i].values, &kept, sizeof kept);
            if (span.nbytes) memcpy(data + end, span.p, span.nbytes);
            end += span.nbytes;
        }
    }
}

#define DF_TILE 32            /* rows gathered at a time: feature by feature, while they lie in the nearest cache */
#define DF_ROWS_AHEAD 2       /* of long values: they are fetched while those before are copied */
#define DF_LONG_VALUE 256
#define DF_LONGEST_FETCH 4096

typedef struct { const u8 *rows[DF_TILE], *data[DF_TILE]; u64 to[DF_TILE]; u32 count; } df_tile;

static inline void df_fetch(const u8 *p, u64 nbytes) {
    if (nbytes > DF_LONGEST_FETCH) nbytes = DF_LONGEST_FETCH;
    for (u64 at = 0; at < nbytes; at += 64) __builtin_prefetch(p + at);
}

#define DF_COPY_EACH(nbytes) \
    for (u32 j = 0; j < tile->count; j++) memcpy(out + tile->to[j] * (nbytes), tile->rows[j] + at, nbytes)

static inline void df_unpack_values(const df_tile *tile, u8 *out, u64 at, u64 nbytes) {
    if (nbytes == 8) DF_COPY_EACH(8);
    else if (nbytes == 4) DF_COPY_EACH(4);
    else if (nbytes == 2) DF_COPY_EACH(2);
    else if (nbytes == 1) DF_COPY_EACH(1);
    else
        for (u32 j = 0; j < tile->count; j++) {
            if (nbytes >= DF_LONG_VALUE && j + DF_ROWS_AHEAD < tile->count)
                df_fetch(tile->rows[j + DF_ROWS_AHEAD] + at, nbytes);
            memcpy(out + tile->to[j] * nbytes, tile->rows[j] + at, nbytes);
        }
}

static inline void df_unpack_spans(const df_tile *tile, df_span *spans, u64 at) {
    df_kept kept;
    for (u32 j = 0; j < tile->count; j++) {
        memcpy(&kept, tile->rows[j] + at, sizeof kept);
        df_span span = {tile->data[j] + kept.at, kept.nbytes, kept.count, kept.bytes, kept.mode};
        spans[tile->to[j]] = span;
    }
}

/* Fill a tile with the next packed rows; where to go on. */
static inline u64 df_fill_tile(df_tile *tile, const df_row *rows, u64 i, u64 n, u64 stride) {
    for (tile->count = 0; i < n && tile->count < DF_TILE; i++) {
        if (rows[i].limit) continue;
        tile->rows[tile->count] = rows[i].p;
        tile->data[tile->count] = rows[i].e;
        tile->to[tile->count++] = i;
    }
    u64 nbytes = stride < DF_LONG_VALUE * DF_ROWS_AHEAD ? stride : 64;
    for (u64 j = i; j < n && j < i + DF_TILE; j++) df_fetch(rows[j].p, nbytes);
    return i;
}

/* Gather the rows that are packed, those without a limit, to their places; of each feature from places[feature]. */
static inline void df_unpack(const df_schema *schema, const df_place *places, const df_out *outs, const df_row *rows,
                             u64 n, u64 stride) {
    df_tile tile;
    for (u64 i = 0; i < n;) {
        i = df_fill_tile(&tile, rows, i, n, stride);
        for (u32 f = 0; f < schema->count; f++) {
            const df_out *out = &outs[f];
            if (out->spans) df_unpack_spans(&tile, out->spans, places[f].values);
            else df_unpack_values(&tile, out->out, places[f].values, schema->specs[f].row_bytes);
            if (out->present) df_unpack_values(&tile, out->present, places[f].present, 1);
        }
    }
}

#endif
