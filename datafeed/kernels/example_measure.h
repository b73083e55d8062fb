/* Measure the Examples that rows of columns make. */

#ifndef DATAFEED_EXAMPLE_MEASURE_H
#define DATAFEED_EXAMPLE_MEASURE_H

#include <stdlib.h>
#include "features.h"
#include "frames.h"
#include "wire.h"

#define DF_LEFT_OUT 0xffffffffu

typedef struct {
    const u8 *values, *present;
    const i64 *offsets, *inner;
    i64 items, inner_items;  /* how far the offsets may reach */
} df_column;

/* The list's bytes, from the payload's. */
static inline u64 df_list_size(const df_spec *spec, u64 payload) {
    if (spec->form == DF_LIST || (spec->kind != DF_BYTES_KIND && !payload)) return payload;
    return df_field_size(payload);
}

static inline u64 df_entry_size(const df_spec *spec, u64 payload) {
    u64 feature = df_field_size(df_list_size(spec, payload));
    return df_field_size(spec->name_len) + df_field_size(feature);
}

static inline u64 df_quick_payload(const df_spec *spec, const df_column *column, u64 row) {
    if (spec->kind == DF_FLOAT_KIND) return 4;
    return df_varint_size((u64)df_get_int(spec->code, column->values + row * spec->item_size));
}

/* Which items (of row_items) or bytes or values a row has. */
static inline int df_bounds(const df_spec *spec, const df_column *column, u64 row, i64 *start, i64 *end) {
    if (spec->form == DF_FIXED) {
        *start = (i64)row;
        *end = (i64)row + 1;
        return DF_OK;
    }
    *start = column->offsets[row];
    *end = column->offsets[row + 1];
    return *start < 0 || *end < *start || *end > column->items ? DF_OFFSETS : DF_OK;
}

static inline int df_payload_of_values(const df_column *column, i64 start, i64 end, u64 *payload) {
    for (i64 i = start; i < end; i++) {
        i64 a = column->inner[i], b = column->inner[i + 1];
        if (a < 0 || b < a || b > column->inner_items) return DF_OFFSETS;
        *payload += df_field_size((u64)(b - a));
        if (*payload > DF_RECORD_LIMIT) return DF_TOO_LARGE;
    }
    return DF_OK;
}

static inline int df_payload(const df_spec *spec, const df_column *column, u64 row, u64 *payload, df_fault *fault) {
    i64 start, end;
    *payload = 0;
    if (df_bounds(spec, column, row, &start, &end)) return fault->code = DF_OFFSETS;
    if (spec->form == DF_LIST) {
        if (spec->values_wanted >= 0 && end - start != spec->values_wanted)
            return df_unfit(fault, DF_COUNT, (u64)spec->values_wanted, (u64)(end - start));
        return fault->code = df_payload_of_values(column, start, end, payload);
    }
    if (spec->kind != DF_INT_KIND) {
        u64 each = spec->form == DF_ONE ? 1 : spec->row_bytes;
        if (__builtin_mul_overflow((u64)(end - start), each, payload)) return fault->code = DF_TOO_LARGE;
        return DF_OK;
    }
    const u8 *p = column->values + (u64)start * spec->row_bytes;
    for (const u8 *e = column->values + (u64)end * spec->row_bytes; p < e; p += spec->item_size)
        *payload += df_varint_size((u64)df_get_int(spec->code, p));
    return DF_OK;
}

/* How many bytes the record's Features have; payloads[i] becomes each feature's payload. */
static inline int df_measure(const df_schema *schema, const df_column *columns, u64 row, u32 *payloads, u64 *total,
                      df_fault *fault) {
    u64 payload;
    *total = 0;
    fault->row = (i64)row;
    for (u32 i = 0; i < schema->count; i++) {
        const df_spec *spec = &schema->specs[i];
        fault->feature = i;
        if (columns[i].present && !columns[i].present[row]) {
            if (!spec->optional) return fault->code = DF_ABSENT;
            payloads[i] = DF_LEFT_OUT;
            continue;
        }
        if (spec->quick) {
            payloads[i] = (u32)(payload = df_quick_payload(spec, &columns[i], row));
            *total += spec->lead_len + payload;
            continue;
        }
        if (df_payload(spec, &columns[i], row, &payload, fault)) return fault->code;
        if (payload > DF_RECORD_LIMIT) return fault->code = DF_TOO_LARGE;
        payloads[i] = (u32)payload;
        *total += df_field_size(df_entry_size(spec, payload));
        if (df_field_size(*total) > DF_RECORD_LIMIT) return fault->code = DF_TOO_LARGE;
    }
    if (df_field_size(*total) > DF_RECORD_LIMIT) return fault->code = DF_TOO_LARGE;
    return DF_OK;
}

typedef struct { u32 *payloads; u64 *sizes; u64 rows, room, nbytes; } df_sized;

static inline int df_size_rows(const df_schema *schema, const df_column *columns, u64 start, u64 stop, u64 limit,
                        df_sized *sized, df_fault *fault) {
    for (u64 row = start; row < stop; row++) {
        if (sized->rows == sized->room) {
            u64 room = sized->room ? 2 * sized->room : 64;
            u32 *payloads = (u32 *)realloc(sized->payloads, room * (schema->count ? schema->count : 1) * sizeof(u32));
            if (payloads) sized->payloads = payloads;
            u64 *sizes = (u64 *)realloc(sized->sizes, room * sizeof(u64));
            if (sizes) sized->sizes = sizes;
            if (!payloads || !sizes) return fault->code = DF_NO_MEMORY;
            sized->room = room;
        }
        u64 total;
        if (df_measure(schema, columns, row, sized->payloads + sized->rows * schema->count, &total, fault)) {
            if (fault->code == DF_TOO_LARGE && sized->rows) return fault->code = DF_OK;
            return fault->code;
        }
        u64 framed = df_field_size(total) + 16;
        if (sized->rows && (sized->nbytes >= limit || framed > limit - sized->nbytes)) return DF_OK;
        sized->sizes[sized->rows++] = total;
        sized->nbytes += framed;
    }
    return DF_OK;
}

#endif
