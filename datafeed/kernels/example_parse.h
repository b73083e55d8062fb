/* Parse many records in one pass: the usual form first, any form where that fails. Packed rows are passed over. */

#ifndef DATAFEED_EXAMPLE_PARSE_H
#define DATAFEED_EXAMPLE_PARSE_H

#include "example_any.h"
#include "example_usual.h"

#define DF_AHEAD 4
#define DF_AHEAD_BYTES 2048

static inline int df_parse(const df_schema *schema, df_out *outs, df_node *nodes, const df_row *rows, u64 n, u64 *seen,
                    df_range *entries, df_fault *fault) {
    df_parsing ps = {schema, outs, nodes, seen, entries, 0};
    for (u32 i = 0; i < schema->count; i++) {
        nodes[i + 1].out = outs[i].out;
        if (outs[i].present) memset(outs[i].present, 1, n);
    }
    for (u64 i = 0; i < n; i++) {
        if (i + DF_AHEAD < n) {
            df_row next = rows[i + DF_AHEAD];
            i64 ahead = !next.limit ? 0 : next.e - next.p < DF_AHEAD_BYTES ? next.e - next.p : DF_AHEAD_BYTES;
            for (i64 at = 0; at < ahead; at += 64) __builtin_prefetch(next.p + at);
        }
        if (rows[i].limit && !df_fast(&ps, rows[i], i) && df_slow(schema, outs, entries, rows[i], i, fault)) return fault->code;
    }
    return DF_OK;
}

#endif
