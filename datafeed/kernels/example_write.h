/* Write rows of columns as framed Examples. */

#ifndef DATAFEED_EXAMPLE_WRITE_H
#define DATAFEED_EXAMPLE_WRITE_H

#include "crc32c.h"
#include "example_measure.h"

/* One number, where DF_LEAD_MOST + 8 bytes may be written. */
static inline u8 *df_put_quick(u8 *p, const df_spec *spec, const df_column *column, u64 row, u32 n) {
    const u8 *from = column->values + row * spec->item_size;
    memcpy(p, spec->lead, DF_LEAD_MOST);
    p[1] = (u8)(spec->name_len + 8 + n);
    p += spec->lead_len;
    p[-5] = (u8)(n + 4);
    p[-3] = (u8)(n + 2);
    p[-1] = (u8)n;
    if (spec->kind == DF_FLOAT_KIND) {
        memcpy(p, from, 4);
        return p + 4;
    }
    u64 v = (u64)df_get_int(spec->code, from);
    u64 w = (v & 0x000000000fffffffu) | (v & 0x00fffffff0000000u) << 4;
    w = (w & 0x00003fff00003fffu) | (w & 0x0fffc0000fffc000u) << 2;
    w = (w & 0x007f007f007f007fu) | (w & 0x3f803f803f803f80u) << 1;
    w |= 0x8080808080808080u & (((u64)1 << 8 * (n - 1)) - 1);
    memcpy(p, &w, 8);
    return p + n;
}

static inline u8 *df_put_head(u8 *p, const df_spec *spec, u64 payload) {
    u64 list = df_list_size(spec, payload), feature = df_field_size(list);
    *p++ = 0x0a;
    p = df_put_varint(p, df_field_size(spec->name_len) + df_field_size(feature));
    *p++ = 0x0a;
    p = df_put_varint(p, spec->name_len);
    memcpy(p, spec->name, spec->name_len);
    p += spec->name_len;
    *p++ = 0x12;
    p = df_put_varint(p, feature);
    *p++ = (u8)(spec->kind << 3 | 2);
    p = df_put_varint(p, list);
    if (list != payload) {
        *p++ = 0x0a;
        p = df_put_varint(p, payload);
    }
    return p;
}

/* The array may be changed by another thread since it was measured: never write past the payload's end. */
static inline int df_put_payload(const df_spec *spec, const df_column *column, u64 row, u8 *p, u64 payload) {
    i64 start, end;
    u8 *stop = p + payload;
    if (df_bounds(spec, column, row, &start, &end)) return DF_CHANGED;
    if (spec->form == DF_LIST) {
        for (i64 i = start; i < end; i++) {
            i64 a = column->inner[i], b = column->inner[i + 1];
            if (a < 0 || b < a || b > column->inner_items || df_field_size((u64)(b - a)) > (u64)(stop - p))
                return DF_CHANGED;
            *p++ = 0x0a;
            p = df_put_varint(p, (u64)(b - a));
            memcpy(p, column->values + a, (size_t)(b - a));
            p += b - a;
        }
        return p == stop ? DF_OK : DF_CHANGED;
    }
    u64 each = spec->form == DF_ONE ? 1 : spec->row_bytes;
    const u8 *from = column->values + (u64)start * each;
    u64 nbytes = (u64)(end - start) * each;
    if (spec->kind != DF_INT_KIND) {
        if (nbytes != payload) return DF_CHANGED;
        memcpy(p, from, payload);
        return DF_OK;
    }
    for (const u8 *e = from + nbytes; from < e; from += spec->item_size) {
        u64 v = (u64)df_get_int(spec->code, from);
        if (df_varint_size(v) > (u64)(stop - p)) return DF_CHANGED;
        p = df_put_varint(p, v);
    }
    return p == stop ? DF_OK : DF_CHANGED;
}

static inline int df_put_rows(const df_schema *schema, const df_column *columns, u64 start, const df_sized *sized, u8 *p,
                       df_fault *fault) {
    const u32 *payload = sized->payloads;
    const u8 *end = p + sized->nbytes;
    for (u64 i = 0; i < sized->rows; i++) {
        u64 length = df_field_size(sized->sizes[i]);
        memcpy(p, &length, 8);
        u32 crc = df_mask(df_crc(p, 8));
        memcpy(p + 8, &crc, 4);
        u8 *data = p + 12;
        p = data;
        *p++ = 0x0a;
        p = df_put_varint(p, sized->sizes[i]);
        for (u32 k = 0; k < schema->count; k++, payload++) {
            if (*payload == DF_LEFT_OUT) continue;
            if (schema->specs[k].quick && *payload <= 8 && end - p >= DF_LEAD_MOST + 8) {
                p = df_put_quick(p, &schema->specs[k], &columns[k], start + i, *payload);
                continue;
            }
            p = df_put_head(p, &schema->specs[k], *payload);
            fault->row = (i64)(start + i);
            fault->feature = k;
            if (df_put_payload(&schema->specs[k], &columns[k], start + i, p, *payload))
                return fault->code = DF_CHANGED;
            p += *payload;
        }
        crc = df_mask(df_crc(data, length));
        memcpy(p, &crc, 4);
        p += 4;
    }
    return DF_OK;
}

#endif
