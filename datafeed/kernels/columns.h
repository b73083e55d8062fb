/* Gather ragged and bytes values, found by a parse, into columns. */

#ifndef DATAFEED_COLUMNS_H
#define DATAFEED_COLUMNS_H

#include "example_any.h"

static inline int df_total(const df_span *spans, u64 n, i64 *count, i64 *bytes) {
    *count = *bytes = 0;
    for (u64 i = 0; i < n; i++)
        if (__builtin_add_overflow(*count, (i64)spans[i].count, count)
                || __builtin_add_overflow(*bytes, (i64)spans[i].bytes, bytes)) return DF_TOO_MUCH;
    return DF_OK;
}

static inline void df_fill_span(const df_spec *spec, const df_span *span, u8 *out, i64 *ends, i64 base) {
    const u8 *p = span->p, *e = p + span->nbytes;
    u64 n;
    if (span->mode == DF_VALUE) {
        memcpy(out, p, span->nbytes);
        if (ends) ends[0] = base + (i64)span->nbytes;
    } else if (span->mode == DF_PACKED) {
        for (u64 i = 0; i < span->count && df_varint(&p, e, &n); i++, out += spec->item_size)
            df_put_int(spec->code, out, (i64)n);
    } else if (span->mode == DF_VALUES) {
        for (u64 i = 0; i < span->count; i++, p += n) {
            if (*p++ != 0x0a || !df_varint(&p, e, &n) || n > (u64)(e - p)) return;
            memcpy(out, p, n);
            out += n;
            ends[i] = base += (i64)n;
        }
    } else if (span->mode == DF_ENTRY) {
        df_range entry = {p, e};
        df_visit write = {0};
        write.spec = spec;
        write.out = out;
        write.ends = ends;
        write.base = base;
        write.room = span->count;
        write.room_bytes = span->bytes;
        df_visit_entry(&write, entry);
    }
}

#define DF_FILL_AHEAD 8

static inline void df_fetch_ahead(const df_span *spans, u64 n, u64 i) {
    if (i + DF_FILL_AHEAD < n && spans[i + DF_FILL_AHEAD].p) __builtin_prefetch(spans[i + DF_FILL_AHEAD].p);
}

static inline void df_fill(const df_spec *spec, const df_span *spans, u64 n, u8 *out, i64 *offsets, i64 *inner) {
    i64 count = 0, bytes = 0;
    offsets[0] = 0;
    if (inner) inner[0] = 0;
    for (u64 i = 0; i < n; i++) {
        const df_span *span = &spans[i];
        df_fetch_ahead(spans, n, i);
        int in_bytes = spec->raw || spec->form == DF_ONE || spec->form == DF_LIST;
        u8 *to = out + (in_bytes ? bytes : count * (i64)spec->item_size);
        df_fill_span(spec, span, to, inner ? inner + count + 1 : NULL, bytes);
        count += (i64)span->count;
        bytes += (i64)span->bytes;
        if (spec->form == DF_LIST) offsets[i + 1] = count;
        else if (spec->form == DF_ONE) offsets[i + 1] = bytes;
        else if (spec->raw) offsets[i + 1] = spec->row_bytes ? bytes / (i64)spec->row_bytes : 0;
        else offsets[i + 1] = spec->row_items ? count / (i64)spec->row_items : 0;
    }
}

static inline void df_fill_each(const df_spec *spec, const df_span *spans, u64 n, u8 **outs) {
    for (u64 i = 0; i < n; i++) {
        df_fetch_ahead(spans, n, i);
        df_fill_span(spec, &spans[i], outs[i], NULL, 0);
    }
}

#endif
