# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=False
"""Turn bytes into columns and back: frame walk, CRC32C, tf.train.Example, cutting into bytes objects.

Four kernels in C, each with its Python face below them. What they share: nothing at module level changes after the
import, each function may run in many threads at once, and no length from the data is used before it was compared with
what is left of the data.

Wire data is read as protobuf reads it: unknown fields are skipped, `features` may occur several times, the last of
equal map keys counts, a list of another kind replaces the one before it, one of the same kind is appended. Only what is
asked for is looked into. Groups (deprecated, never written by an Example) are refused.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

import numpy as np

from datafeed.columns import Column, Parsed
from datafeed.errors import CorruptRecord, RecordTooLarge, SchemaError


cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <stdlib.h>
    #include <string.h>

    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    #error "the kernels move little-endian data as it is"
    #endif

    typedef uint8_t u8;
    typedef uint32_t u32;
    typedef uint64_t u64;
    typedef int64_t i64;

    static inline u64 df_load64(const u8 *p) { u64 v; memcpy(&v, p, 8); return v; }
    static inline u32 df_load32(const u8 *p) { u32 v; memcpy(&v, p, 4); return v; }

    /* ---- CRC32C ------------------------------------------------------------------------------------------------ */

    /* Three runs of DF_LONG or DF_SHORT bytes are summed side by side, as the instruction takes three cycles but one
       can start in each; a sum is then moved over the next run's bytes by tables of the (linear) zero-byte operator. */
    #define DF_LONG 1024
    #define DF_SHORT 128

    static u32 df_bytes[8][256], df_over_long[4][256], df_over_short[4][256];
    static int df_has_instruction;

    static u32 df_crc_by_table(u32 crc, const u8 *p, size_t n) {
        for (; n >= 8; n -= 8, p += 8) {
            u64 w = df_load64(p) ^ crc;
            crc = df_bytes[7][w & 255] ^ df_bytes[6][w >> 8 & 255] ^ df_bytes[5][w >> 16 & 255]
                ^ df_bytes[4][w >> 24 & 255] ^ df_bytes[3][w >> 32 & 255] ^ df_bytes[2][w >> 40 & 255]
                ^ df_bytes[1][w >> 48 & 255] ^ df_bytes[0][w >> 56];
        }
        for (; n; n--, p++) crc = df_bytes[0][(crc ^ *p) & 255] ^ crc >> 8;
        return crc;
    }

    static inline u32 df_over(u32 table[4][256], u32 crc) {
        return table[0][crc & 255] ^ table[1][crc >> 8 & 255] ^ table[2][crc >> 16 & 255] ^ table[3][crc >> 24];
    }

    #if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
    #define DF_INSTRUCTION __attribute__((target("sse4.2")))
    #define DF_STEP8(crc, p) __builtin_ia32_crc32di(crc, df_load64(p))
    #define DF_STEP1(crc, p) __builtin_ia32_crc32qi((u32)(crc), *(p))
    static int df_find_instruction(void) { __builtin_cpu_init(); return __builtin_cpu_supports("sse4.2"); }
    #elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
    #include <arm_acle.h>
    #define DF_INSTRUCTION
    #define DF_STEP8(crc, p) __crc32cd((u32)(crc), df_load64(p))
    #define DF_STEP1(crc, p) __crc32cb((u32)(crc), *(p))
    static int df_find_instruction(void) { return 1; }
    #else
    static int df_find_instruction(void) { return 0; }
    #endif

    #ifdef DF_INSTRUCTION
    #define DF_THREE(size, table)                                                                                   \\
        for (; n >= 3 * size; n -= 3 * size, p += 3 * size) {                                                       \\
            u64 b = 0, c = 0;                                                                                       \\
            for (size_t i = 0; i < size; i += 8) {                                                                  \\
                a = DF_STEP8(a, p + i);                                                                             \\
                b = DF_STEP8(b, p + size + i);                                                                      \\
                c = DF_STEP8(c, p + 2 * size + i);                                                                  \\
            }                                                                                                       \\
            a = df_over(table, (u32)a) ^ b;                                                                         \\
            a = df_over(table, (u32)a) ^ c;                                                                         \\
        }
    DF_INSTRUCTION static u32 df_crc_by_instruction(u32 crc, const u8 *p, size_t n) {
        u64 a = crc;
        DF_THREE(DF_LONG, df_over_long)
        DF_THREE(DF_SHORT, df_over_short)
        for (; n >= 8; n -= 8, p += 8) a = DF_STEP8(a, p);
        for (; n; n--, p++) a = DF_STEP1(a, p);
        return (u32)a;
    }
    #else
    #define df_crc_by_instruction df_crc_by_table
    #endif

    static inline u32 df_crc(const u8 *p, size_t n) {
        return ~(df_has_instruction ? df_crc_by_instruction(~0u, p, n) : df_crc_by_table(~0u, p, n));
    }

    static u32 df_crc_table_only(const u8 *p, size_t n) { return ~df_crc_by_table(~0u, p, n); }

    static inline u32 df_mask(u32 crc) { return (crc >> 15 | crc << 17) + 0xa282ead8u; }

    static void df_fill_over(u32 table[4][256], size_t nbytes) {
        u32 moved[32];
        for (int bit = 0; bit < 32; bit++) {
            u32 crc = 1u << bit;
            for (size_t i = 0; i < nbytes; i++) crc = df_bytes[0][crc & 255] ^ crc >> 8;
            moved[bit] = crc;
        }
        for (int k = 0; k < 4; k++)
            for (int byte = 0; byte < 256; byte++) {
                u32 crc = 0;
                for (int bit = 0; bit < 8; bit++)
                    if (byte >> bit & 1) crc ^= moved[8 * k + bit];
                table[k][byte] = crc;
            }
    }

    static void df_setup(void) {  /* at import, before any other function */
        for (u32 byte = 0; byte < 256; byte++) {
            u32 crc = byte;
            for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
            df_bytes[0][byte] = crc;
        }
        for (int k = 1; k < 8; k++)
            for (u32 byte = 0; byte < 256; byte++)
                df_bytes[k][byte] = df_bytes[0][df_bytes[k - 1][byte] & 255] ^ df_bytes[k - 1][byte] >> 8;
        df_fill_over(df_over_long, DF_LONG);
        df_fill_over(df_over_short, DF_SHORT);
        df_has_instruction = df_find_instruction();
    }

    /* ---- Frame walk -------------------------------------------------------------------------------------------- */

    enum { DF_OK, DF_CUT, DF_LENGTH_CRC, DF_PAST_END, DF_OVER_LIMIT, DF_PAYLOAD_CRC, DF_MORE, DF_FEWER, DF_NO_MEMORY };

    #define DF_RECORD_LIMIT 0x7fffffffu

    typedef struct { u64 offset; u32 length; } df_record;  /* of the payload */

    typedef struct {
        df_record *records;
        u64 count;
        u64 offset;  /* of the record at fault, its length field included */
        u64 found;
    } df_walked;

    static int df_walk(const u8 *data, u64 nbytes, i64 wanted, int check_payload, df_walked *out) {
        u64 most = nbytes / 16, room = wanted < 0 ? 64 : (u64)wanted;
        if (room > most) room = most;
        out->count = out->offset = out->found = 0;
        out->records = (df_record *)malloc((room ? room : 1) * sizeof(df_record));
        if (!out->records) return DF_NO_MEMORY;
        for (u64 at = 0; at < nbytes;) {
            out->offset = at;
            if (wanted >= 0 && out->count == (u64)wanted) return DF_MORE;
            out->found = nbytes - at;
            if (nbytes - at < 16) return DF_CUT;
            if (df_mask(df_crc(data + at, 8)) != df_load32(data + at + 8)) return DF_LENGTH_CRC;
            u64 length = out->found = df_load64(data + at);
            if (length > nbytes - at - 16) return DF_PAST_END;
            if (length > DF_RECORD_LIMIT) return DF_OVER_LIMIT;
            if (check_payload && df_mask(df_crc(data + at + 12, length)) != df_load32(data + at + 12 + length))
                return DF_PAYLOAD_CRC;
            if (out->count == room) {
                room = 2 * room < most ? 2 * room : most;
                df_record *grown = (df_record *)realloc(out->records, room * sizeof(df_record));
                if (!grown) return DF_NO_MEMORY;
                out->records = grown;
            }
            out->records[out->count].offset = at + 12;
            out->records[out->count].length = (u32)length;
            out->count++;
            at += 16 + length;
        }
        out->offset = nbytes;
        return wanted >= 0 && out->count < (u64)wanted ? DF_FEWER : DF_OK;
    }

    /* ---- What a feature is ------------------------------------------------------------------------------------- */

    enum { DF_BOOL, DF_I8, DF_I16, DF_I32, DF_I64, DF_U8, DF_U16, DF_U32, DF_U64, DF_F16, DF_F32, DF_F64, DF_TEXT };
    enum { DF_BYTES_KIND = 1, DF_FLOAT_KIND = 2, DF_INT_KIND = 3 };  /* field numbers of tf.train.Feature */
    enum { DF_FIXED, DF_RAGGED, DF_ONE, DF_LIST };                   /* forms of a column; the last two of bytes */

    /* An entry of one number: 0x0a, length, 0x0a, length of the name, name, 0x12, length, tag of the kind, length, 0x0a,
       length of the payload, payload. All but the name lie in a byte each; the lead is what stands before the payload. */
    #define DF_HEAD_WORDS 4
    #define DF_LEAD_MOST 40

    typedef struct {
        const u8 *name;
        u32 name_len;
        u8 kind, form, raw, optional, code;
        u8 quick;           /* one number, its lead no longer than DF_LEAD_MOST */
        u32 item_size;
        u64 row_items, row_bytes;
        i64 values_wanted;  /* DF_LIST: -1 for any number */
        u32 lead_len;
        u8 lead[DF_LEAD_MOST];  /* with 0 where a length depends on the payload's */
    } df_spec;

    typedef struct {
        const df_spec *specs;
        u32 count, mask;
        const u32 *slots;  /* open addressing; 1 + the feature's number, 0 for free */
    } df_schema;

    static inline u32 df_hash(const u8 *p, size_t n) {
        u64 h = n;
        for (; n >= 8; n -= 8, p += 8) h = (h ^ df_load64(p)) * 0x9e3779b97f4a7c15u, h ^= h >> 29;
        for (; n; n--, p++) h = (h ^ *p) * 0x9e3779b97f4a7c15u;
        return (u32)(h >> 32);
    }

    static int df_find(const df_schema *schema, const u8 *name, size_t n) {
        for (u32 at = df_hash(name, n);; at++) {
            u32 slot = schema->slots[at & schema->mask];
            if (!slot) return -1;
            const df_spec *spec = &schema->specs[slot - 1];
            if (spec->name_len == n && !memcmp(spec->name, name, n)) return (int)slot - 1;
        }
    }

    static void df_make_slots(const df_schema *schema, u32 *slots) {
        for (u32 i = 0; i < schema->count; i++) {
            u32 at = df_hash(schema->specs[i].name, schema->specs[i].name_len);
            while (slots[at & schema->mask]) at++;
            slots[at & schema->mask] = i + 1;
        }
    }

    static void df_make_lead(df_spec *spec) {
        u8 *p = spec->lead;
        spec->quick = spec->form == DF_FIXED && !spec->raw && spec->row_items == 1
                      && spec->name_len + 5 <= 8 * DF_HEAD_WORDS;
        if (!spec->quick) return;
        spec->lead_len = spec->name_len + 10;
        p[0] = p[2] = 0x0a;
        p[3] = (u8)spec->name_len;
        memcpy(p + 4, spec->name, spec->name_len);
        p += 4 + spec->name_len;
        p[0] = 0x12;
        p[2] = (u8)(spec->kind << 3 | 2);
        p[4] = 0x0a;
    }

    /* ---- Example to columns ------------------------------------------------------------------------------------ */

    enum { DF_WIRE = 20, DF_GROUP, DF_MISSING, DF_KIND, DF_COUNT, DF_MULTIPLE, DF_SIZE, DF_SIZE_MULTIPLE, DF_RANGE,
           DF_BAD_INDEX, DF_TOO_MUCH };

    typedef struct {
        int code;
        i64 row, feature, offset;  /* the byte in the record, for DF_WIRE and DF_GROUP */
        i64 wanted, found;
    } df_fault;

    typedef struct { const u8 *data; const df_record *records; u64 count, nbytes; } df_block;
    typedef struct { const u8 *p, *e, *limit; } df_row;  /* limit: how far the block can be read */
    typedef struct { const u8 *p, *e; } df_range;

    /* Where the values of a ragged or bytes feature lie in one record. */
    enum { DF_NOTHING, DF_PACKED, DF_VALUE, DF_VALUES, DF_ENTRY };
    typedef struct { const u8 *p; u64 nbytes, count, bytes; u32 mode; } df_span;

    typedef struct { u8 *out; u8 *present; df_span *spans; } df_out;

    /* What is known of an entry before it is read. Entries mostly follow each other as in the record before. */
    typedef struct {
        u64 head[DF_HEAD_WORDS], mask[DF_HEAD_WORDS];  /* the lead up to 0x12, an integer's without the length */
        u8 *out;
        const u8 *key;
        u32 key_len, head_len, item_size, next;
        int feature;  /* -1 for one that is not asked for */
        u8 kind, code, words;
    } df_node;

    #define DF_STRANGERS 256  /* how many entries not asked for are remembered */

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

    /* Any Example, slowly: find each feature's last entry, look at it, take its values. */

    typedef struct { u32 number, wire; u64 value; df_range body; } df_field;

    static int df_next(const u8 **pp, const u8 *e, df_field *field) {
        u64 tag, n;
        const u8 *p = *pp;
        if (!df_varint(&p, e, &tag) || tag >> 32 || !(tag >> 3)) return DF_WIRE;
        field->number = (u32)(tag >> 3);
        field->wire = tag & 7;
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

    /* What one entry holds; with `spec`, its integers are held against their dtype; with `out`, it is written too. */
    typedef struct {
        u32 kind;
        u64 count, bytes;
        int out_of_range;
        i64 found;
        const u8 *at;     /* where the wire data is broken */
        const df_spec *spec;
        u8 *out;
        i64 *ends;        /* DF_LIST: where to write the end of each value */
        i64 base;
        u64 room, room_bytes;
    } df_visit;

    /* Values of a list that another kind replaces later are written too, and then written over. */
    static inline int df_due(const df_visit *v) { return v->out && v->kind == v->spec->kind && v->count < v->room; }

    static void df_take_int(df_visit *v, u64 value) {
        u8 unused[8];
        u8 *out = df_due(v) ? v->out + v->count * v->spec->item_size : unused;
        if (v->spec->kind == DF_INT_KIND && !df_put_int(v->spec->code, out, (i64)value) && !v->out_of_range) {
            v->out_of_range = 1;
            v->found = (i64)value;
        }
        v->count++;
    }

    static void df_take_float(df_visit *v, const u8 *p) {
        if (df_due(v)) memcpy(v->out + 4 * v->count, p, 4);
        v->count++;
    }

    static void df_take_bytes(df_visit *v, df_range body) {
        u64 n = (u64)(body.e - body.p);
        if (df_due(v) && v->bytes <= v->room_bytes && n <= v->room_bytes - v->bytes) {
            memcpy(v->out + v->bytes, body.p, n);
            if (v->ends) v->ends[v->count] = v->base + (i64)(v->bytes + n);
        }
        v->count++;
        v->bytes += n;
    }

    static int df_visit_packed(df_visit *v, df_range body) {
        u64 value;
        if (v->kind == DF_FLOAT_KIND) {
            v->at = body.p;
            if ((body.e - body.p) % 4) return DF_WIRE;
            for (const u8 *p = body.p; p < body.e; p += 4) df_take_float(v, p);
            return DF_OK;
        }
        for (const u8 *p = body.p; p < body.e;) {
            v->at = p;
            if (!df_varint(&p, body.e, &value)) return DF_WIRE;
            df_take_int(v, value);
        }
        return DF_OK;
    }

    static int df_visit_list(df_visit *v, df_range list) {
        df_field field;
        int code;
        for (const u8 *p = list.p; p < list.e;) {
            v->at = p;
            if ((code = df_next(&p, list.e, &field))) return code;
            if (field.number != 1) continue;
            if (v->kind == DF_BYTES_KIND) {
                if (field.wire == 2) df_take_bytes(v, field.body);
            } else if (field.wire == 2) {
                if ((code = df_visit_packed(v, field.body))) return code;
            } else if (v->kind == DF_FLOAT_KIND && field.wire == 5) {
                df_take_float(v, p - 4);
            } else if (v->kind == DF_INT_KIND && field.wire == 0) {
                df_take_int(v, field.value);
            }
        }
        return DF_OK;
    }

    static int df_visit_feature(df_visit *v, df_range feature) {
        df_field field;
        int code;
        for (const u8 *p = feature.p; p < feature.e;) {
            v->at = p;
            if ((code = df_next(&p, feature.e, &field))) return code;
            if (field.wire != 2 || field.number > 3) continue;
            if (v->kind && v->kind != field.number) {
                v->count = v->bytes = 0;
                v->out_of_range = 0;
            }
            v->kind = field.number;
            if ((code = df_visit_list(v, field.body))) return code;
        }
        return DF_OK;
    }

    static int df_visit_entry(df_visit *v, df_range entry) {
        df_field field;
        int code;
        for (const u8 *p = entry.p; p < entry.e;) {
            v->at = p;
            if ((code = df_next(&p, entry.e, &field))) return code;
            if (field.number == 2 && field.wire == 2 && (code = df_visit_feature(v, field.body))) return code;
        }
        return DF_OK;
    }

    static int df_collect_entry(const df_schema *schema, df_range entry, df_range *entries, const u8 **at) {
        df_field field;
        df_range key = {entry.p, entry.p};
        int code;
        for (const u8 *p = entry.p; p < entry.e;) {
            *at = p;
            if ((code = df_next(&p, entry.e, &field))) return code;
            if (field.number == 1 && field.wire == 2) key = field.body;
        }
        int feature = df_find(schema, key.p, (size_t)(key.e - key.p));
        if (feature >= 0) entries[feature] = entry;
        return DF_OK;
    }

    static int df_collect(const df_schema *schema, df_range record, df_range *entries, const u8 **at) {
        df_field field, inner;
        int code;
        for (const u8 *p = record.p; p < record.e;) {
            *at = p;
            if ((code = df_next(&p, record.e, &field))) return code;
            if (field.number != 1 || field.wire != 2) continue;
            for (const u8 *q = field.body.p; q < field.body.e;) {
                *at = q;
                if ((code = df_next(&q, field.body.e, &inner))) return code;
                if (inner.number == 1 && inner.wire == 2 && (code = df_collect_entry(schema, inner.body, entries, at)))
                    return code;
            }
        }
        return DF_OK;
    }

    static void df_put_missing(const df_spec *spec, df_out *out, u64 row) {
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

    static int df_unfit(df_fault *fault, int code, u64 wanted, u64 found) {
        fault->code = code;
        fault->wanted = (i64)wanted;
        fault->found = (i64)found;
        return code;
    }

    /* Whether what an entry holds is what its feature asks for. */
    static int df_check(const df_spec *spec, const df_visit *v, df_fault *fault) {
        if (v->kind != spec->kind) return df_unfit(fault, DF_KIND, spec->kind, v->kind);
        if (spec->kind == DF_BYTES_KIND) {
            i64 wanted = spec->form == DF_LIST ? spec->values_wanted : 1;
            if (spec->raw && spec->form == DF_RAGGED && !v->count) return DF_OK;
            if (wanted >= 0 && v->count != (u64)wanted) return df_unfit(fault, DF_COUNT, (u64)wanted, v->count);
            if (!spec->raw) return DF_OK;
            if (spec->form == DF_FIXED)
                return v->bytes == spec->row_bytes ? DF_OK : df_unfit(fault, DF_SIZE, spec->row_bytes, v->bytes);
            if (spec->row_bytes ? v->bytes % spec->row_bytes : v->bytes)
                return df_unfit(fault, DF_SIZE_MULTIPLE, spec->row_bytes, v->bytes);
            return DF_OK;
        }
        if (spec->form == DF_FIXED && v->count != spec->row_items)
            return df_unfit(fault, DF_COUNT, spec->row_items, v->count);
        if (spec->form == DF_RAGGED && (spec->row_items ? v->count % spec->row_items : v->count))
            return df_unfit(fault, DF_MULTIPLE, spec->row_items, v->count);
        return v->out_of_range ? df_unfit(fault, DF_RANGE, 0, (u64)v->found) : DF_OK;
    }

    static int df_slow_feature(const df_spec *spec, df_out *out, df_range entry, df_row r, u64 row, df_fault *fault) {
        df_visit look = {0};
        look.spec = spec;
        if (entry.p) {
            int code = df_visit_entry(&look, entry);
            if (code) {
                fault->offset = look.at - r.p;
                return fault->code = code;
            }
        }
        if (!look.kind) {
            if (!spec->optional) return fault->code = DF_MISSING;
            df_put_missing(spec, out, row);
            return DF_OK;
        }
        if (df_check(spec, &look, fault)) return fault->code;
        if (out->present) out->present[row] = 1;
        if (out->spans) {
            df_span span = {entry.p, (u64)(entry.e - entry.p), look.count, look.bytes, DF_ENTRY};
            out->spans[row] = span;
            return DF_OK;
        }
        df_visit write = {0};
        write.spec = spec;
        write.out = out->out + row * spec->row_bytes;
        write.room = spec->raw ? 1 : spec->row_items;
        write.room_bytes = spec->row_bytes;
        df_visit_entry(&write, entry);
        return DF_OK;
    }

    static int df_slow(const df_schema *schema, df_out *outs, df_range *entries, df_row r, u64 row, df_fault *fault) {
        const u8 *at = r.p;
        df_range record = {r.p, r.e};
        memset(entries, 0, schema->count * sizeof(df_range));
        fault->row = (i64)row;
        fault->feature = -1;
        int code = df_collect(schema, record, entries, &at);
        if (code) {
            fault->offset = at - r.p;
            return fault->code = code;
        }
        for (u32 i = 0; i < schema->count; i++) {
            fault->feature = i;
            if (df_slow_feature(&schema->specs[i], &outs[i], entries[i], r, row, fault)) return fault->code;
        }
        return DF_OK;
    }

    /* An Example as writers make them: one Features, entries of key then value, a list of packed numbers or of bytes.
       0 for anything else, wrong data too: df_slow then reads the record anew, and says what is wrong. */

    static inline int df_exact(const u8 **pp, const u8 *e, u8 tag) {  /* a field that fills the rest */
        u64 n;
        const u8 *p = *pp;
        if (p >= e || *p++ != tag || !df_varint(&p, e, &n) || n != (u64)(e - p)) return 0;
        *pp = p;
        return 1;
    }

    static int df_fast_ints(const df_spec *spec, df_out *out, u64 row, const u8 *p, const u8 *e) {
        const u8 *start = p;
        u8 unused[8];
        u64 value, count = 0;
        if (spec->form == DF_FIXED) {
            u8 *to = out->out + row * spec->row_bytes;
            for (; count < spec->row_items; count++, to += spec->item_size)
                if (!df_varint(&p, e, &value) || !df_put_int(spec->code, to, (i64)value)) return 0;
            return p == e;
        }
        for (; p < e; count++)
            if (!df_varint(&p, e, &value) || !df_put_int(spec->code, unused, (i64)value)) return 0;
        df_span span = {start, (u64)(e - start), count, 0, DF_PACKED};
        out->spans[row] = span;
        return spec->row_items && count % spec->row_items == 0;
    }

    static int df_fast_values(const df_spec *spec, df_out *out, u64 row, const u8 *p, const u8 *e) {
        const u8 *start = p;
        u64 n, count = 0, bytes = 0;
        for (; p < e; count++, bytes += n, p += n)
            if (*p++ != 0x0a || !df_varint(&p, e, &n) || n > (u64)(e - p)) return 0;
        df_span span = {start, (u64)(e - start), count, bytes, DF_VALUES};
        out->spans[row] = span;
        return spec->values_wanted < 0 || (u64)spec->values_wanted == count;
    }

    static int df_fast_feature(const df_spec *spec, df_out *out, u64 row, const u8 *p, const u8 *e) {
        if (!df_exact(&p, e, (u8)(spec->kind << 3 | 2))) return 0;
        if (spec->form == DF_LIST) return df_fast_values(spec, out, row, p, e);
        if (!df_exact(&p, e, 0x0a)) return 0;
        if (spec->kind == DF_INT_KIND) return df_fast_ints(spec, out, row, p, e);
        u64 n = (u64)(e - p);
        if (spec->form == DF_FIXED) {
            if (n != spec->row_bytes) return 0;
            memcpy(out->out + row * spec->row_bytes, p, n);
            return 1;
        }
        df_span span = {p, n, spec->raw || spec->form == DF_ONE ? 1 : n / 4, n, DF_VALUE};
        out->spans[row] = span;
        return spec->form == DF_ONE || (spec->row_bytes && n % spec->row_bytes == 0);
    }

    static void df_set_head(df_node *node, const u8 *lead, u32 name_len) {
        u8 mask[8 * DF_HEAD_WORDS] = {255, 0}, head[8 * DF_HEAD_WORDS] = {0};
        node->head_len = name_len + 5;
        node->words = (u8)((node->head_len + 7) / 8);
        memset(mask + 2, 255, node->head_len - 2);
        memcpy(head, lead, node->head_len);
        if (node->kind == DF_FLOAT_KIND) {
            head[1] = (u8)(node->head_len + 7);
            mask[1] = 255;
        }
        memcpy(node->mask, mask, sizeof mask);
        memcpy(node->head, head, sizeof head);
    }

    static void df_make_nodes(const df_schema *schema, df_node *nodes) {  /* count + 1 of them */
        for (u32 i = 0; i <= schema->count; i++) {
            df_node *node = &nodes[i];
            memset(node, 0, sizeof *node);
            node->next = i < schema->count ? i + 1 : 0;
            node->feature = (int)i - 1;
            node->mask[0] = 255;  /* an entry must begin with the 0 in `head` then; df_quick refuses it by its lengths */
            if (!i) continue;
            const df_spec *spec = &schema->specs[i - 1];
            node->key = spec->name;
            node->key_len = spec->name_len;
            node->item_size = spec->item_size;
            node->kind = spec->kind;
            node->code = spec->code;
            if (spec->quick) df_set_head(node, spec->lead, spec->name_len);
        }
    }

    /* Remember an entry that is not asked for. */
    static void df_set_stranger(df_node *node, const u8 *key, u32 key_len, int fresh) {
        u32 next = fresh ? 0 : node->next;
        memset(node, 0, sizeof *node);
        node->next = next;
        node->feature = -1;
        node->key = key;
        node->key_len = key_len;
        node->mask[0] = 255;
        u8 lead[8 * DF_HEAD_WORDS] = {0x0a, 0, 0x0a, (u8)key_len};
        if (key_len + 5 > sizeof lead) return;
        memcpy(lead + 4, key, key_len);
        lead[4 + key_len] = 0x12;
        df_set_head(node, lead, key_len);
    }

    #define DF_TOPS 0x8080808080808080u
    #define DF_QUICK_REACH (8 * DF_HEAD_WORDS + 16)  /* how far past its start df_quick may look */

    static inline u64 df_differ(const df_node *node, const u8 *p, int word) {
        return (df_load64(p + 8 * word) ^ node->head[word]) & node->mask[word];
    }

    /* One number behind a head known in advance; how long the entry is, or 0. */
    static inline u32 df_quick(const df_node *node, u64 row, const u8 *p) {
        u64 differ = df_differ(node, p, 0) | df_differ(node, p, 1);
        if (node->words > 2) differ |= df_differ(node, p, 2) | df_differ(node, p, 3);
        if (differ) return 0;
        const u8 *q = p + node->head_len;
        u8 *out = node->out + row * node->item_size;
        u64 lengths = df_load64(q) & 0xffffffffffu;
        if (node->kind == DF_FLOAT_KIND) {
            if (lengths != 0x040a061208u) return 0;
            memcpy(out, q + 5, 4);
            return node->head_len + 9;
        }
        if (!node->kind) return node->head_len && p[1] < 128 && p[1] - node->head_len + 1 == *q ? (u32)p[1] + 2 : 0;
        u64 n = (u64)p[1] - node->head_len - 3;  /* of the payload */
        if (n - 1 > 7 || lengths != 0x000a021a04u + n * 0x0100010001u) return 0;
        u64 shift = 64 - 8 * n, w = df_load64(q + 5) << shift;
        if ((w & DF_TOPS) != (DF_TOPS << shift ^ (u64)1 << 63)) return 0;  /* all bytes but the last go on */
        w = (w & ~DF_TOPS) >> shift;
        w = (w & 0x7f007f007f007f00u) >> 1 | (w & 0x007f007f007f007fu);
        w = (w & 0x3fff00003fff0000u) >> 2 | (w & 0x00003fff00003fffu);
        w = (w & 0x0fffffff00000000u) >> 4 | (w & 0x000000000fffffffu);
        return df_put_int(node->code, out, (i64)w) ? (u32)p[1] + 2 : 0;
    }

    typedef struct {
        const df_schema *schema;
        df_out *outs;
        df_node *nodes;
        u64 *seen;          /* 1 + the last row that had the feature */
        df_range *entries;
        u32 strangers;      /* how many there were */
    } df_parsing;

    /* The number of the node for a key; the guess is tried first, and put right. */
    static inline u32 df_name(df_parsing *ps, u32 *guess, const u8 *key, u32 n) {
        const df_node *node = &ps->nodes[*guess];
        if (node->key && node->key_len == n && !memcmp(node->key, key, n)) return *guess;
        int feature = df_find(ps->schema, key, n);
        if (feature >= 0) return *guess = (u32)feature + 1;
        *guess = ps->schema->count + 1 + ps->strangers % DF_STRANGERS;
        df_set_stranger(&ps->nodes[*guess], key, n, ps->strangers < DF_STRANGERS);
        ps->strangers++;
        return *guess;
    }

    /* The number of the node for an entry, its value's bytes in `value`; 0 for one of another form. */
    static inline u32 df_fast_entry(df_parsing *ps, u32 *guess, df_range entry, df_range *value) {
        const u8 *p = entry.p, *e = entry.e;
        if (e - p < 2 || *p != 0x0a || p[1] > 127 || p[1] > e - p - 2) return 0;
        u32 n = p[1];
        const u8 *key = p + 2;
        p = key + n;
        if (!df_exact(&p, e, 0x12)) return 0;
        value->p = p;
        value->e = e;
        return df_name(ps, guess, key, n);
    }

    static int df_fast_missing(df_parsing *ps, u64 row) {
        for (u32 i = 0; i < ps->schema->count; i++)
            if (ps->seen[i] != row + 1) {
                if (!ps->schema->specs[i].optional) return 0;
                df_put_missing(&ps->schema->specs[i], &ps->outs[i], row);
            }
        return 1;
    }

    static inline int df_fast(df_parsing *ps, df_row r, u64 row) {
        const u8 *p = r.p, *e = r.e;
        const u8 *quick_end = e;  /* where df_quick can no longer look as far as it does */
        if (r.limit - e < DF_QUICK_REACH) quick_end = r.limit - p < DF_QUICK_REACH ? p : r.limit - DF_QUICK_REACH;
        u32 got = 0, at = 0;
        df_range value;
        if (!df_exact(&p, e, 0x0a)) return 0;
        for (; p < e;) {
            u32 *guess = &ps->nodes[at].next;
            const df_node *node = &ps->nodes[*guess];
            if (p < quick_end) {
                u32 n = df_quick(node, row, p);
                if (n) {
                    if (n > (u64)(e - p)) return 0;
                    at = *guess;
                    p += n;
                    if (node->feature < 0) continue;
                    if (ps->seen[node->feature] == row + 1) return 0;
                    ps->seen[node->feature] = row + 1;
                    got++;
                    continue;
                }
            }
            u64 n;
            if (*p++ != 0x0a || !df_varint(&p, e, &n) || n > (u64)(e - p)) return 0;
            df_range entry = {p, p + n};
            p += n;
            at = df_fast_entry(ps, guess, entry, &value);
            if (!at) return 0;
            int feature = ps->nodes[at].feature;
            if (feature < 0) continue;
            if (ps->seen[feature] == row + 1) return 0;
            ps->seen[feature] = row + 1;
            if (!df_fast_feature(&ps->schema->specs[feature], &ps->outs[feature], row, value.p, value.e)) return 0;
            got++;
        }
        return got == ps->schema->count || df_fast_missing(ps, row);
    }

    static const df_fault df_no_fault = {0, -1, -1, -1, 0, 0};

    /* Find the rows; blocks[i] is row i's block, NULL where there is none. */
    static int df_locate(const df_block *const *blocks, const int32_t *rows, u64 n, df_row *out, df_fault *fault) {
        for (u64 i = 0; i < n; i++) {
            const df_block *block = blocks[i];
            fault->row = (i64)i;
            if (!block || rows[i] < 0 || (u64)rows[i] >= block->count) return fault->code = DF_BAD_INDEX;
            df_record record = block->records[rows[i]];
            out[i].p = block->data + record.offset;
            out[i].e = out[i].p + record.length;
            out[i].limit = block->data + block->nbytes;
        }
        return DF_OK;
    }

    #define DF_AHEAD 4
    #define DF_AHEAD_BYTES 2048

    static int df_parse(const df_schema *schema, df_out *outs, df_node *nodes, const df_row *rows, u64 n, u64 *seen,
                        df_range *entries, df_fault *fault) {
        df_parsing ps = {schema, outs, nodes, seen, entries, 0};
        for (u32 i = 0; i < schema->count; i++) {
            nodes[i + 1].out = outs[i].out;
            if (outs[i].present) memset(outs[i].present, 1, n);
        }
        for (u64 i = 0; i < n; i++) {
            if (i + DF_AHEAD < n) {
                df_row next = rows[i + DF_AHEAD];
                i64 ahead = next.e - next.p < DF_AHEAD_BYTES ? next.e - next.p : DF_AHEAD_BYTES;
                for (i64 at = 0; at < ahead; at += 64) __builtin_prefetch(next.p + at);
            }
            if (!df_fast(&ps, rows[i], i) && df_slow(schema, outs, entries, rows[i], i, fault)) return fault->code;
        }
        return DF_OK;
    }

    static int df_total(const df_span *spans, u64 n, i64 *count, i64 *bytes) {
        *count = *bytes = 0;
        for (u64 i = 0; i < n; i++)
            if (__builtin_add_overflow(*count, (i64)spans[i].count, count)
                    || __builtin_add_overflow(*bytes, (i64)spans[i].bytes, bytes)) return DF_TOO_MUCH;
        return DF_OK;
    }

    static void df_fill_span(const df_spec *spec, const df_span *span, u8 *out, i64 *ends, i64 base) {
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

    static void df_fill(const df_spec *spec, const df_span *spans, u64 n, u8 *out, i64 *offsets, i64 *inner) {
        i64 count = 0, bytes = 0;
        offsets[0] = 0;
        if (inner) inner[0] = 0;
        for (u64 i = 0; i < n; i++) {
            const df_span *span = &spans[i];
            if (i + DF_FILL_AHEAD < n && spans[i + DF_FILL_AHEAD].p) __builtin_prefetch(spans[i + DF_FILL_AHEAD].p);
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

    static void df_fill_each(const df_spec *spec, const df_span *spans, u64 n, u8 **outs) {
        for (u64 i = 0; i < n; i++) {
            if (i + DF_FILL_AHEAD < n && spans[i + DF_FILL_AHEAD].p) __builtin_prefetch(spans[i + DF_FILL_AHEAD].p);
            df_fill_span(spec, &spans[i], outs[i], NULL, 0);
        }
    }

    /* ---- Columns to Example ------------------------------------------------------------------------------------ */

    enum { DF_ABSENT = 40, DF_OFFSETS, DF_TOO_LARGE, DF_CHANGED };

    #define DF_LEFT_OUT 0xffffffffu

    typedef struct {
        const u8 *values, *present;
        const i64 *offsets, *inner;
        i64 items, inner_items, nbytes;  /* how far the offsets may reach; of `values` */
    } df_column;

    static inline u32 df_varint_size(u64 v) { return (u32)((63 - __builtin_clzll(v | 1)) * 9 + 73) / 64; }

    static inline u8 *df_put_varint(u8 *p, u64 v) {
        for (; v >= 128; v >>= 7) *p++ = (u8)(v | 128);
        *p++ = (u8)v;
        return p;
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

    static inline u64 df_field_size(u64 n) { return 1 + df_varint_size(n) + n; }

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

    /* Which items (of row_items) or bytes or values a row has. */
    static int df_bounds(const df_spec *spec, const df_column *column, u64 row, i64 *start, i64 *end) {
        if (spec->form == DF_FIXED) {
            *start = (i64)row;
            *end = (i64)row + 1;
            return DF_OK;
        }
        *start = column->offsets[row];
        *end = column->offsets[row + 1];
        return *start < 0 || *end < *start || *end > column->items ? DF_OFFSETS : DF_OK;
    }

    static int df_payload_of_values(const df_column *column, i64 start, i64 end, u64 *payload) {
        for (i64 i = start; i < end; i++) {
            i64 a = column->inner[i], b = column->inner[i + 1];
            if (a < 0 || b < a || b > column->inner_items) return DF_OFFSETS;
            *payload += df_field_size((u64)(b - a));
            if (*payload > DF_RECORD_LIMIT) return DF_TOO_LARGE;
        }
        return DF_OK;
    }

    static int df_payload(const df_spec *spec, const df_column *column, u64 row, u64 *payload, df_fault *fault) {
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
    static int df_measure(const df_schema *schema, const df_column *columns, u64 row, u32 *payloads, u64 *total,
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

    static int df_size_rows(const df_schema *schema, const df_column *columns, u64 start, u64 stop, u64 limit,
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

    static u8 *df_put_head(u8 *p, const df_spec *spec, u64 payload) {
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
    static int df_put_payload(const df_spec *spec, const df_column *column, u64 row, u8 *p, u64 payload) {
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

    static int df_put_rows(const df_schema *schema, const df_column *columns, u64 start, const df_sized *sized, u8 *p,
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
    """
    enum: DF_OK, DF_CUT, DF_LENGTH_CRC, DF_PAST_END, DF_OVER_LIMIT, DF_PAYLOAD_CRC, DF_MORE, DF_FEWER, DF_NO_MEMORY
    enum: DF_WIRE, DF_GROUP, DF_MISSING, DF_KIND, DF_COUNT, DF_MULTIPLE, DF_SIZE, DF_SIZE_MULTIPLE, DF_RANGE
    enum: DF_BAD_INDEX, DF_TOO_MUCH, DF_ABSENT, DF_OFFSETS, DF_TOO_LARGE, DF_CHANGED
    enum: DF_FIXED, DF_RAGGED, DF_ONE, DF_LIST, DF_TEXT, DF_RECORD_LIMIT, DF_STRANGERS

    ctypedef struct df_record:
        uint64_t offset
        uint32_t length
    ctypedef struct df_walked:
        df_record *records
        uint64_t count, offset, found
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
    ctypedef struct df_fault:
        int code
        int64_t row, feature, offset, wanted, found
    const df_fault _NO_FAULT "df_no_fault"
    ctypedef struct df_block:
        const uint8_t *data
        const df_record *records
        uint64_t count, nbytes
    ctypedef struct df_row:
        pass
    ctypedef struct df_range:
        pass
    ctypedef struct df_span:
        const uint8_t *p
        uint64_t bytes
        uint32_t mode
    ctypedef struct df_node:
        pass
    ctypedef struct df_out:
        uint8_t *out
        uint8_t *present
        df_span *spans
    ctypedef struct df_column:
        const uint8_t *values
        const uint8_t *present
        const int64_t *offsets
        const int64_t *inner
        int64_t items, inner_items, nbytes
    ctypedef struct df_sized:
        uint32_t *payloads
        uint64_t *sizes
        uint64_t rows, nbytes

    int df_has_instruction
    void df_setup() noexcept nogil
    uint32_t df_crc(const uint8_t *p, size_t n) noexcept nogil
    uint32_t df_crc_table_only(const uint8_t *p, size_t n) noexcept nogil
    uint32_t df_mask(uint32_t crc) noexcept nogil
    int df_walk(const uint8_t *data, uint64_t nbytes, int64_t wanted, int check, df_walked *out) noexcept nogil
    void df_make_lead(df_spec *spec) noexcept nogil
    void df_make_slots(const df_schema *schema, uint32_t *slots) noexcept nogil
    int df_locate(const df_block **blocks, const int32_t *rows, uint64_t n, df_row *out,
                  df_fault *fault) noexcept nogil
    void df_make_nodes(const df_schema *schema, df_node *nodes) noexcept nogil
    int df_parse(const df_schema *schema, df_out *outs, df_node *nodes, const df_row *rows, uint64_t n,
                 uint64_t *seen, df_range *entries, df_fault *fault) noexcept nogil
    int DF_VALUE
    int df_total(const df_span *spans, uint64_t n, int64_t *count, int64_t *nbytes) noexcept nogil
    void df_fill_each(const df_spec *spec, const df_span *spans, uint64_t n, uint8_t **outs) noexcept nogil
    void df_fill(const df_spec *spec, const df_span *spans, uint64_t n, uint8_t *out, int64_t *offsets,
                 int64_t *inner) noexcept nogil
    int df_size_rows(const df_schema *schema, const df_column *columns, uint64_t start, uint64_t stop, uint64_t limit,
                     df_sized *sized, df_fault *fault) noexcept nogil
    int df_put_rows(const df_schema *schema, const df_column *columns, uint64_t start, const df_sized *sized,
                    uint8_t *p, df_fault *fault) noexcept nogil


df_setup()

cdef tuple _CODES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
                     "float32", "float64")
cdef tuple _KINDS = ("no", "a bytes", "a float", "an int64")
cdef object _INT32 = np.dtype(np.int32)
cdef object _INT64 = np.dtype(np.int64)
cdef object _BOOL = np.dtype(np.bool_)
cdef object _UINT8 = np.dtype(np.uint8)


cdef class _Memory:
    """Own zeroed memory, freed with the object."""

    cdef void *p

    def __cinit__(self, size_t count, size_t size):
        self.p = calloc(count if count else 1, size)
        if self.p == NULL:
            raise MemoryError(f"no {count} x {size} bytes of memory")

    def __dealloc__(self):
        free(self.p)


cdef void *_address(object array, int flags) except? NULL:
    # Valid while the array lives: numpy moves an array's memory only in resize(), which refuses one that is referenced.
    cdef Py_buffer view
    PyObject_GetBuffer(array, &view, flags)
    cdef void *p = view.buf
    PyBuffer_Release(&view)
    return p


def crc32c(data):
    cdef Py_buffer view
    cdef uint32_t crc
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        with nogil:
            crc = df_crc(<const uint8_t *>view.buf, <size_t>view.len)
    finally:
        PyBuffer_Release(&view)
    return crc


def masked_crc32c(data):
    return df_mask(<uint32_t>crc32c(data))


def _crc32c_by_table(data):
    cdef Py_buffer view
    cdef uint32_t crc
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        with nogil:
            crc = df_crc_table_only(<const uint8_t *>view.buf, <size_t>view.len)
    finally:
        PyBuffer_Release(&view)
    return crc


def _crc32c_has_instruction():
    return bool(df_has_instruction)


# Outside the garbage collector, whose tp_clear drops the exporter of a Py_buffer without releasing the export. A
# block refers to bytes alone, so no cycle leads through it.
@cython.no_gc
cdef class Block:
    cdef Py_buffer _view
    cdef bint _held
    cdef object _memory
    cdef df_walked _walked
    cdef df_block _block

    def __cinit__(self, raw, Py_ssize_t records=-1, *, bint check_payload=False):
        cdef int code
        PyObject_GetBuffer(raw, &self._view, PyBUF_SIMPLE)
        self._held = True
        with nogil:
            code = df_walk(<const uint8_t *>self._view.buf, <uint64_t>self._view.len, records, check_payload,
                           &self._walked)
        if code == DF_NO_MEMORY:
            raise MemoryError("no memory for a block's record offsets")
        if code != DF_OK:
            raise CorruptRecord(_walk_reason(code, self, records), record=self._walked.count,
                                offset=self._walked.offset)
        self._block.data = <const uint8_t *>self._view.buf
        self._block.nbytes = <uint64_t>self._view.len
        self._block.records = self._walked.records
        self._block.count = self._walked.count
        self._memory = memoryview(raw).toreadonly().cast("B") if self._view.len else memoryview(b"")

    def __dealloc__(self):
        free(self._walked.records)
        if self._held:
            PyBuffer_Release(&self._view)

    @property
    def nbytes(self):
        return self._view.len

    @property
    def raw(self):
        return self._memory

    def __len__(self):
        return <Py_ssize_t>self._walked.count

    def record(self, Py_ssize_t row):
        if row < 0 or <uint64_t>row >= self._walked.count:
            raise IndexError(f"record {row} of a block of {self._walked.count} records")
        cdef df_record found = self._walked.records[row]
        return self._memory[found.offset:found.offset + found.length]


cdef str _walk_reason(int code, Block block, Py_ssize_t records):
    cdef uint64_t found = block._walked.found
    if code == DF_CUT:
        return f"expected a record of at least 16 bytes, found {found} bytes before the end"
    if code == DF_LENGTH_CRC:
        return "the length's checksum is wrong"
    if code == DF_PAST_END:
        left = block._view.len - block._walked.offset - 16
        return f"expected a length of at most the {left} bytes that are left, found {found}"
    if code == DF_OVER_LIMIT:
        return f"expected a record of at most {DF_RECORD_LIMIT} bytes, found {found}"
    if code == DF_PAYLOAD_CRC:
        return "the data's checksum is wrong"
    if code == DF_MORE:
        return f"expected {records} records, found more"
    return f"expected {records} records, found {block._walked.count}"


cdef class _Layout:
    """Hold what the kernels must know of each feature."""

    cdef readonly tuple features
    cdef tuple _names
    cdef list _dtypes, _shapes
    cdef _Memory _spec_memory, _slot_memory
    cdef df_spec *_specs
    cdef df_schema _schema

    def __cinit__(self, features):
        cdef uint32_t i, slots = 4
        self.features = tuple(features)
        self._names = tuple([feature.name.encode() for feature in self.features])
        if len(set(self._names)) != len(self._names):
            raise SchemaError("features share a name")
        self._dtypes = [feature.numpy_dtype for feature in self.features]
        self._shapes = [feature.row_shape for feature in self.features]
        self._spec_memory = _Memory(len(self._names), sizeof(df_spec))
        self._specs = <df_spec *>self._spec_memory.p
        for i in range(len(self._names)):
            _specify(&self._specs[i], self.features[i], self._names[i])
        while slots < 2 * <uint32_t>len(self._names):
            slots *= 2
        self._slot_memory = _Memory(slots, sizeof(uint32_t))
        self._schema.specs = self._specs
        self._schema.count = <uint32_t>len(self._names)
        self._schema.mask = slots - 1
        self._schema.slots = <const uint32_t *>self._slot_memory.p
        df_make_slots(&self._schema, <uint32_t *>self._slot_memory.p)

    def __reduce__(self):
        return type(self), (self.features,)


cdef int _specify(df_spec *spec, object feature, bytes name) except -1:
    if feature.row_items > DF_RECORD_LIMIT or len(name) > DF_RECORD_LIMIT:
        raise SchemaError(f"shape {feature.shape} is more than a record can hold", feature=feature.name)
    spec.name = <const uint8_t *>PyBytes_AS_STRING(name)
    spec.name_len = <uint32_t>len(name)
    spec.kind = {"bytes": 1, "float": 2, "int64": 3}[feature.kind]
    spec.optional = feature.optional
    spec.raw = feature.raw
    spec.code = _CODES.index(feature.dtype) if feature.numeric else DF_TEXT
    spec.item_size = feature.numpy_dtype.itemsize
    spec.row_items = feature.row_items
    spec.row_bytes = spec.row_items * spec.item_size
    if feature.numeric:
        spec.form = DF_RAGGED if feature.ragged else DF_FIXED
    else:
        spec.form = DF_LIST if feature.shape else DF_ONE
    spec.values_wanted = -1 if feature.ragged else feature.row_items
    df_make_lead(spec)
    return 0


cdef object _unfit(tuple features, df_fault *fault):
    feature = features[fault.feature] if 0 <= fault.feature < len(features) else None
    name = feature.name if feature is not None else ""
    if fault.code == DF_TOO_LARGE:
        return RecordTooLarge(f"expected a record of at most {DF_RECORD_LIMIT} bytes; split the row or shrink its "
                              "largest value", row=fault.row, feature=name)
    if fault.code == DF_NO_MEMORY or fault.code == DF_TOO_MUCH:
        return MemoryError("no memory for that many rows; use fewer at once")
    return SchemaError(_unfit_reason(feature, fault), row=fault.row, feature=name)


cdef str _unfit_reason(object feature, df_fault *fault):
    cdef int code = fault.code
    if code == DF_WIRE:
        return f"expected a tf.train.Example, found broken wire data at byte {fault.offset} of the record"
    if code == DF_GROUP:
        return f"expected a tf.train.Example, found a group (deprecated) at byte {fault.offset} of the record"
    if code == DF_MISSING:
        return "expected in each record, found none; mark it optional if records may lack it"
    if code == DF_KIND:
        return f"expected {_KINDS[fault.wanted]} list, found {_KINDS[fault.found]} list"
    if code == DF_COUNT:
        return f"expected {fault.wanted} values for shape {feature.shape}, found {fault.found}"
    if code == DF_MULTIPLE:
        return f"expected a multiple of {fault.wanted} values for shape {feature.shape}, found {fault.found}"
    if code == DF_SIZE:
        return f"expected {fault.wanted} bytes for {feature.dtype} {feature.shape}, found {fault.found}"
    if code == DF_SIZE_MULTIPLE:
        return f"expected a multiple of {fault.wanted} bytes for {feature.dtype} {feature.shape}, found {fault.found}"
    if code == DF_RANGE:
        return f"expected values that fit {feature.dtype}, found {fault.found}"
    if code == DF_ABSENT:
        return "expected in each row as it is not optional, found a row without it"
    if code == DF_OFFSETS:
        return "expected offsets that never fall and stay inside the values"
    return "the column changed while it was encoded"


cdef object _indices(object array, str name):
    if not isinstance(array, np.ndarray) or array.dtype != _INT32 or array.ndim != 1:
        raise TypeError(f"{name}: expected a 1-D int32 array, found {type(array).__name__} "
                        f"{getattr(array, 'dtype', '')} {getattr(array, 'shape', '')}")
    return np.ascontiguousarray(array)


cdef class Parser(_Layout):
    cdef dict _groups  # dtype -> its scalar features, by number
    cdef _Memory _nodes

    def __cinit__(self, features):
        self._nodes = _Memory(self._schema.count + 1, sizeof(df_node))
        df_make_nodes(&self._schema, <df_node *>self._nodes.p)
        self._groups = {}
        for number, feature in enumerate(self.features):
            if feature.numeric and feature.shape == ():
                self._groups.setdefault(feature.numpy_dtype, []).append(number)

    @property
    def groups(self):
        return list(self._groups.values())

    def parse(self, blocks, which, rows):
        parsed = self.parse_batch(blocks, which, rows, frozenset(), frozenset())
        columns = parsed.columns
        for numbers, whole in zip(self._groups.values(), parsed.wholes, strict=True):
            for number, values in zip(numbers, whole, strict=True):
                columns[number] = Column(values, None, None, parsed.present[number])
        return columns

    def parse_batch(self, blocks, which, rows, listed, viewed):
        cdef df_fault fault = _NO_FAULT
        cdef int code
        cdef uint64_t n
        cdef uint32_t i, count = self._schema.count
        cdef list held = []
        which = _indices(which, "which")
        rows = _indices(rows, "rows")
        if len(which) != len(rows):
            raise ValueError(f"expected as many block numbers as rows, found {len(which)} and {len(rows)}")
        n = len(rows)
        cdef _Memory located = _locate(blocks, which, rows, n, held)
        cdef _Memory out_memory = _Memory(count, sizeof(df_out))
        cdef _Memory seen = _Memory(count, sizeof(uint64_t))
        cdef _Memory entries = _Memory(count, sizeof(df_range))
        cdef _Memory nodes = _Memory(count + 1 + DF_STRANGERS, sizeof(df_node))
        memcpy(nodes.p, self._nodes.p, (count + 1) * sizeof(df_node))
        cdef df_out *outs = <df_out *>out_memory.p
        cdef list values = [None] * count, present = [None] * count, spans = [None] * count
        cdef list wholes = self._allocate(n, outs, values, present, spans)
        with nogil:
            code = df_parse(&self._schema, outs, <df_node *>nodes.p, <const df_row *>located.p, n,
                            <uint64_t *>seen.p, <df_range *>entries.p, &fault)
        if code != DF_OK:
            raise _unfit(self.features, &fault)
        cdef list columns = [None] * count
        cdef dict texts = {}, views = {}
        for i in range(count):
            if outs[i].spans == NULL:
                if values[i] is not None:
                    columns[i] = Column(values[i], None, None, present[i])
            elif self._specs[i].form == DF_ONE and i in viewed:
                views[i] = _view_spans(&self._specs[i], outs[i].spans, n, held[0])
            elif self._specs[i].form == DF_ONE and i in listed:
                texts[i] = _list_spans(&self._specs[i], outs[i].spans, n)
            else:
                columns[i] = self._gather(i, n, outs[i].spans, present[i])
        return Parsed(wholes, columns, texts, views, present)

    cdef list _allocate(self, uint64_t n, df_out *outs, list values, list present, list spans):
        cdef uint32_t i
        cdef uint8_t *out
        cdef list wholes = []
        for dtype, numbers in self._groups.items():
            whole = np.empty((len(numbers), n), dtype)
            wholes.append(whole)
            out = <uint8_t *>_address(whole, PyBUF_SIMPLE | PyBUF_WRITABLE)
            for i in numbers:
                outs[i].out = out
                out += n * self._specs[i].item_size
        for i in range(self._schema.count):
            if self._specs[i].optional:
                present[i] = np.empty(n, _BOOL)
                outs[i].present = <uint8_t *>_address(present[i], PyBUF_SIMPLE | PyBUF_WRITABLE)
            if self._specs[i].form != DF_FIXED:
                spans[i] = _Memory(n, sizeof(df_span))
                outs[i].spans = <df_span *>(<_Memory>spans[i]).p
            elif outs[i].out == NULL:
                values[i] = np.empty((n, *self._shapes[i]), self._dtypes[i])
                outs[i].out = <uint8_t *>_address(values[i], PyBUF_SIMPLE | PyBUF_WRITABLE)
        return wholes

    cdef object _gather(self, uint32_t i, uint64_t n, df_span *spans, object present):
        cdef df_spec *spec = &self._specs[i]
        cdef int64_t count = 0, nbytes = 0
        cdef int code
        with nogil:
            code = df_total(spans, n, &count, &nbytes)
        if code != DF_OK:
            raise MemoryError("no memory for that many rows; use fewer at once")
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
            inner_at = <int64_t *>_address(inner, PyBUF_SIMPLE | PyBUF_WRITABLE)
        offsets = np.empty(n + 1, _INT64)
        cdef uint8_t *out = <uint8_t *>_address(values, PyBUF_SIMPLE | PyBUF_WRITABLE)
        cdef int64_t *offsets_at = <int64_t *>_address(offsets, PyBUF_SIMPLE | PyBUF_WRITABLE)
        with nogil:
            df_fill(spec, spans, n, out, offsets_at, inner_at)
        return Column(values, offsets, inner, present)


cdef list _list_spans(const df_spec *spec, const df_span *spans, uint64_t n):
    cdef list texts = []
    cdef uint64_t i
    cdef _Memory memory = _Memory(n, sizeof(void *))
    cdef uint8_t **outs = <uint8_t **>memory.p
    for i in range(n):
        text = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>spans[i].bytes)
        outs[i] = <uint8_t *>PyBytes_AS_STRING(text)
        texts.append(text)
    with nogil:
        df_fill_each(spec, spans, n, outs)
    return texts


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


cdef list _choose(object blocks, const int32_t *which, Py_ssize_t n, const df_block **chosen):
    # Only the blocks asked for are looked at: there may be many more than rows. The list keeps them alive.
    cdef Py_ssize_t i, count = len(blocks)
    cdef list held = []
    cdef Block block
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
    return held


cdef _Memory _locate(object blocks, object which, object rows, Py_ssize_t n, list held):
    cdef df_fault fault = _NO_FAULT
    cdef int code
    cdef _Memory memory = _Memory(n, sizeof(void *)), located = _Memory(n, sizeof(df_row))
    cdef const df_block **chosen = <const df_block **>memory.p
    cdef const int32_t *rows_at = <const int32_t *>_address(rows, PyBUF_SIMPLE)
    held.append(_choose(blocks, <const int32_t *>_address(which, PyBUF_SIMPLE), n, chosen))
    with nogil:
        code = df_locate(chosen, rows_at, n, <df_row *>located.p, &fault)
    if code != DF_OK:
        number, row = int(which[fault.row]), int(rows[fault.row])
        there = f"of {chosen[fault.row].count} records" if chosen[fault.row] != NULL else "which is not there"
        raise IndexError(f"position {fault.row}: no record {row} in block {number} {there} ({len(blocks)} blocks)")
    return located


cdef class Encoder(_Layout):
    def encode(self, columns, start, stop, limit):
        cdef df_fault fault = _NO_FAULT
        cdef int code
        cdef uint64_t first, last, most
        cdef uint8_t *out
        cdef list kept = list(columns), held = []
        cdef _Memory memory = _Memory(self._schema.count, sizeof(df_column))
        cdef df_column *taken = <df_column *>memory.p
        cdef _Sized sized = _Sized()
        rows = _take_columns(self, kept, held, taken)
        if not 0 <= start <= stop or (rows >= 0 and stop > rows) or limit < 0:
            raise ValueError(f"expected 0 <= start <= stop <= {rows} and a limit, found {start}, {stop} and {limit}")
        first, last, most = start, stop, min(limit, 2**62)
        with nogil:
            code = df_size_rows(&self._schema, taken, first, last, most, &sized.sized, &fault)
        if code != DF_OK:
            raise _unfit(self.features, &fault)
        framed = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>sized.sized.nbytes)
        out = <uint8_t *>PyBytes_AS_STRING(framed)
        if sized.sized.rows:
            with nogil:
                code = df_put_rows(&self._schema, taken, first, &sized.sized, out, &fault)
        if code != DF_OK:
            raise _unfit(self.features, &fault)
        return framed, sized.sized.rows


cdef class _Sized:
    """Own what `df_size_rows` measures."""

    cdef df_sized sized

    def __dealloc__(self):
        free(self.sized.payloads)
        free(self.sized.sizes)


cdef Py_ssize_t _take_columns(_Layout layout, list columns, list held, df_column *taken) except -2:
    cdef uint32_t i
    cdef Py_ssize_t rows = -1, here
    if len(columns) != <Py_ssize_t>layout._schema.count:
        raise SchemaError(f"expected {layout._schema.count} columns, found {len(columns)}")
    for i in range(layout._schema.count):
        here = _take_column(layout, i, columns[i], held, &taken[i])
        if rows >= 0 and here != rows:
            raise SchemaError(f"expected {rows} rows as in the columns before, found {here}",
                              feature=layout.features[i].name)
        rows = here
    return rows


cdef Py_ssize_t _take_column(_Layout layout, uint32_t i, object column, list held, df_column *taken) except -1:
    cdef df_spec *spec = &layout._specs[i]
    name = layout.features[i].name
    shape = layout._shapes[i] if spec.form <= DF_RAGGED else ()
    values = _array(column.values, layout._dtypes[i], len(shape) + 1, name, "values")
    if values.shape[1:] != shape:
        raise SchemaError(f"values: expected shape (n, *{shape}), found {values.shape}", feature=name)
    rows = len(values)
    if (column.offsets is None) != (spec.form == DF_FIXED) or (column.inner is None) != (spec.form != DF_LIST):
        raise SchemaError("expected offsets for ragged and bytes features only, inner ones for bytes lists only",
                          feature=name)
    taken.items = taken.inner_items = len(values)
    if spec.form == DF_LIST:
        inner = _offsets(column.inner, name, "inner", held)
        taken.inner = <const int64_t *>_address(inner, PyBUF_SIMPLE)
        taken.items = len(inner) - 1
    if spec.form != DF_FIXED:
        offsets = _offsets(column.offsets, name, "offsets", held)
        taken.offsets = <const int64_t *>_address(offsets, PyBUF_SIMPLE)
        rows = len(offsets) - 1
    if column.present is not None:
        present = _array(column.present, _BOOL, 1, name, "present")
        if len(present) != rows:
            raise SchemaError(f"present: expected {rows} rows, found {len(present)}", feature=name)
        held.append(present)
        taken.present = <const uint8_t *>_address(present, PyBUF_SIMPLE)
    held.append(values)
    taken.values = <const uint8_t *>_address(values, PyBUF_SIMPLE)
    return rows


cdef object _array(object array, object dtype, int ndim, str name, str part):
    if not isinstance(array, np.ndarray) or array.dtype != dtype or array.ndim != ndim:
        raise SchemaError(f"{part}: expected a {ndim}-D {dtype} array, found {type(array).__name__} "
                          f"{getattr(array, 'dtype', '')} {getattr(array, 'shape', '')}", feature=name)
    return np.ascontiguousarray(array)


cdef object _offsets(object array, str name, str part, list held):
    array = _array(array, _INT64, 1, name, part)
    if not len(array) or array[0] != 0:
        raise SchemaError(f"{part}: expected offsets that start at 0, found {array[:1]}", feature=name)
    held.append(array)
    return array


def bytes_list(values, offsets):
    cdef list held = []
    cdef Py_ssize_t i, n, total
    cdef bint wrong = False
    values = _array(values, _UINT8, 1, "", "values")
    offsets = _array(offsets, _INT64, 1, "", "offsets")
    if not len(offsets):
        raise SchemaError("offsets: expected at least one, found none")
    n = len(offsets) - 1
    total = len(values)
    cdef const uint8_t *p = <const uint8_t *>_address(values, PyBUF_SIMPLE)
    cdef const int64_t *at = <const int64_t *>_address(offsets, PyBUF_SIMPLE)
    cdef _Memory ends = _Memory(n + 1, sizeof(int64_t)), starts = _Memory(n, sizeof(void *))
    cdef int64_t *end = <int64_t *>ends.p
    cdef char **to = <char **>starts.p
    with nogil:
        memcpy(end, at, (n + 1) * sizeof(int64_t))
        wrong = end[0] < 0 or end[n] > total
        for i in range(n):
            wrong |= end[i + 1] < end[i]
    if wrong:
        raise SchemaError("offsets: expected ones that never fall and stay inside the values")
    cut = PyList_New(n)
    for i in range(n):
        piece = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>(end[i + 1] - end[i]))
        to[i] = PyBytes_AS_STRING(piece)
        Py_INCREF(piece)
        PyList_SET_ITEM(cut, i, piece)
    with nogil:
        for i in range(n):
            memcpy(to[i], p + end[i], <size_t>(end[i + 1] - end[i]))
    return cut
