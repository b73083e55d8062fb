/* Turn int64 into the dtype of a column and back. */

#ifndef DATAFEED_NUMBERS_H
#define DATAFEED_NUMBERS_H

#include "load.h"

enum { DF_BOOL, DF_I8, DF_I16, DF_I32, DF_I64, DF_U8, DF_U16, DF_U32, DF_U64, DF_F16, DF_F32, DF_F64, DF_TEXT };

static inline int df_put_int(u8 code, u8 *out, i64 v) {
    #define DF_PUT(type) { type narrow = (type)v; memcpy(out, &narrow, sizeof narrow); return (i64)narrow == v; }
    if (code == DF_I64) {
        memcpy(out, &v, 8);
        return 1;
    }
    switch (code) {
        case DF_I32: DF_PUT(int32_t)
        case DF_U8: DF_PUT(uint8_t)
        case DF_U16: DF_PUT(uint16_t)
        case DF_U32: DF_PUT(uint32_t)
        case DF_I8: DF_PUT(int8_t)
        case DF_I16: DF_PUT(int16_t)
        default: *out = (u8)(v & 1); return v == 0 || v == 1;  /* bool */
    }
    #undef DF_PUT
}

static inline i64 df_get_int(u8 code, const u8 *p) {
    #define DF_GET(type) { type wide; memcpy(&wide, p, sizeof wide); return (i64)wide; }
    switch (code) {
        case DF_I64: DF_GET(int64_t)
        case DF_I32: DF_GET(int32_t)
        case DF_U8: DF_GET(uint8_t)
        case DF_U16: DF_GET(uint16_t)
        case DF_U32: DF_GET(uint32_t)
        case DF_I8: DF_GET(int8_t)
        case DF_I16: DF_GET(int16_t)
        default: return *p != 0;
    }
    #undef DF_GET
}

#endif
