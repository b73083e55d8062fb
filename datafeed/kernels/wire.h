/* Read and write the fields of protobuf's wire format. */

#ifndef DATAFEED_WIRE_H
#define DATAFEED_WIRE_H

#include "faults.h"

typedef struct { const u8 *p, *e; } df_range;

static inline int df_varint(const u8 **pp, const u8 *e, u64 *out) {
    const u8 *p = *pp;
    if (p < e && *p < 128) {
        *out = *p;
        *pp = p + 1;
        return 1;
    }
    u64 v = 0;
    for (int shift = 0; shift < 70 && p < e; shift += 7) {
        u8 byte = *p++;
        v |= (u64)(byte & 127) << shift;  /* bits past the 64th fall away, as in protobuf */
        if (byte < 128) {
            *out = v;
            *pp = p;
            return 1;
        }
    }
    return 0;
}

typedef struct { u32 number, wire; u64 value; df_range body; } df_field;

static inline int df_next(const u8 **pp, const u8 *e, df_field *field) {
    u64 tag, n;
    const u8 *p = *pp;
    if (!df_varint(&p, e, &tag) || tag >> 32 || !(tag >> 3)) return DF_WIRE;
    field->number = (u32)(tag >> 3);
    field->wire = tag & 7;
    field->value = 0;
    field->body.p = field->body.e = p;
    switch (field->wire) {
        case 0:
            if (!df_varint(&p, e, &field->value)) return DF_WIRE;
            break;
        case 1:
            if (e - p < 8) return DF_WIRE;
            p += 8;
            break;
        case 2:
            if (!df_varint(&p, e, &n) || n > (u64)(e - p)) return DF_WIRE;
            field->body.p = p;
            field->body.e = p += n;
            break;
        case 5:
            if (e - p < 4) return DF_WIRE;
            field->value = df_load32(p);
            p += 4;
            break;
        case 3: case 4:
            return DF_GROUP;
        default:
            return DF_WIRE;
    }
    *pp = p;
    return DF_OK;
}

static inline u32 df_varint_size(u64 v) { return (u32)((63 - __builtin_clzll(v | 1)) * 9 + 73) / 64; }

static inline u8 *df_put_varint(u8 *p, u64 v) {
    for (; v >= 128; v >>= 7) *p++ = (u8)(v | 128);
    *p++ = (u8)v;
    return p;
}

static inline u64 df_field_size(u64 n) { return 1 + df_varint_size(n) + n; }

#endif
