/* Read an Example as writers make them, at a glance where its entries follow each other as in the record before. */

#ifndef DATAFEED_EXAMPLE_USUAL_H
#define DATAFEED_EXAMPLE_USUAL_H

#include "places.h"
#include "wire.h"

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

/* As writers make them: one Features, entries of key then value, a list of packed numbers or of bytes. 0 for anything
   else, wrong data too: df_slow then reads the record anew, and says what is wrong. */

static inline int df_exact(const u8 **pp, const u8 *e, u8 tag) {  /* a field that fills the rest */
    u64 n;
    const u8 *p = *pp;
    if (p >= e || *p++ != tag || !df_varint(&p, e, &n) || n != (u64)(e - p)) return 0;
    *pp = p;
    return 1;
}

static inline int df_fast_ints(const df_spec *spec, df_out *out, u64 row, const u8 *p, const u8 *e) {
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

static inline int df_fast_values(const df_spec *spec, df_out *out, u64 row, const u8 *p, const u8 *e) {
    const u8 *start = p;
    u64 n, count = 0, bytes = 0;
    for (; p < e; count++, bytes += n, p += n)
        if (*p++ != 0x0a || !df_varint(&p, e, &n) || n > (u64)(e - p)) return 0;
    df_span span = {start, (u64)(e - start), count, bytes, DF_VALUES};
    out->spans[row] = span;
    return spec->values_wanted < 0 || (u64)spec->values_wanted == count;
}

static inline int df_fast_feature(const df_spec *spec, df_out *out, u64 row, const u8 *p, const u8 *e) {
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

static inline void df_set_head(df_node *node, const u8 *lead, u32 name_len) {
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

static inline void df_make_nodes(const df_schema *schema, df_node *nodes) {  /* count + 1 of them */
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
static inline void df_set_stranger(df_node *node, const u8 *key, u32 key_len, int fresh) {
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

static inline int df_fast_missing(df_parsing *ps, u64 row) {
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

#endif
