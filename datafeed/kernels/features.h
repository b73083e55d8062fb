/* Know what each feature of a schema asks for, and find it by its name. */

#ifndef DATAFEED_FEATURES_H
#define DATAFEED_FEATURES_H

#include "numbers.h"

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

static inline int df_find(const df_schema *schema, const u8 *name, size_t n) {
    for (u32 at = df_hash(name, n);; at++) {
        u32 slot = schema->slots[at & schema->mask];
        if (!slot) return -1;
        const df_spec *spec = &schema->specs[slot - 1];
        if (spec->name_len == n && !memcmp(spec->name, name, n)) return (int)slot - 1;
    }
}

static inline void df_make_slots(const df_schema *schema, u32 *slots) {
    for (u32 i = 0; i < schema->count; i++) {
        u32 at = df_hash(schema->specs[i].name, schema->specs[i].name_len);
        while (slots[at & schema->mask]) at++;
        slots[at & schema->mask] = i + 1;
    }
}

static inline void df_make_lead(df_spec *spec) {
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

#endif
