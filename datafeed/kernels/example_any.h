/* Read any Example, slowly: find each feature's last entry, look at it, take its values. */

#ifndef DATAFEED_EXAMPLE_ANY_H
#define DATAFEED_EXAMPLE_ANY_H

#include "places.h"
#include "wire.h"

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

static inline void df_take_int(df_visit *v, u64 value) {
    u8 unused[8];
    u8 *out = df_due(v) ? v->out + v->count * v->spec->item_size : unused;
    if (v->spec->kind == DF_INT_KIND && !df_put_int(v->spec->code, out, (i64)value) && !v->out_of_range) {
        v->out_of_range = 1;
        v->found = (i64)value;
    }
    v->count++;
}

static inline void df_take_float(df_visit *v, const u8 *p) {
    if (df_due(v)) memcpy(v->out + 4 * v->count, p, 4);
    v->count++;
}

static inline void df_take_bytes(df_visit *v, df_range body) {
    u64 n = (u64)(body.e - body.p);
    if (df_due(v) && v->bytes <= v->room_bytes && n <= v->room_bytes - v->bytes) {
        memcpy(v->out + v->bytes, body.p, n);
        if (v->ends) v->ends[v->count] = v->base + (i64)(v->bytes + n);
    }
    v->count++;
    v->bytes += n;
}

static inline int df_visit_packed(df_visit *v, df_range body) {
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

static inline int df_visit_list(df_visit *v, df_range list) {
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

static inline int df_visit_feature(df_visit *v, df_range feature) {
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

static inline int df_visit_entry(df_visit *v, df_range entry) {
    df_field field;
    int code;
    for (const u8 *p = entry.p; p < entry.e;) {
        v->at = p;
        if ((code = df_next(&p, entry.e, &field))) return code;
        if (field.number == 2 && field.wire == 2 && (code = df_visit_feature(v, field.body))) return code;
    }
    return DF_OK;
}

static inline int df_collect_entry(const df_schema *schema, df_range entry, df_range *entries, const u8 **at) {
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

static inline int df_collect(const df_schema *schema, df_range record, df_range *entries, const u8 **at) {
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

/* Whether what an entry holds is what its feature asks for. */
static inline int df_check(const df_spec *spec, const df_visit *v, df_fault *fault) {
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

static inline int df_slow_feature(const df_spec *spec, df_out *out, df_range entry, df_row r, u64 row, df_fault *fault) {
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

static inline int df_slow(const df_schema *schema, df_out *outs, df_range *entries, df_row r, u64 row, df_fault *fault) {
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

#endif
