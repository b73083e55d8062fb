/* Walk TFRecord frames: length, its CRC, payload, its CRC. */

#ifndef DATAFEED_FRAMES_H
#define DATAFEED_FRAMES_H

#include <stdlib.h>
#include "crc32c.h"
#include "faults.h"

#define DF_RECORD_LIMIT 0x7fffffffu

typedef struct { u64 offset; u32 length; } df_record;  /* of the payload */

typedef struct {
    df_record *records;
    u64 count;
    u64 offset;  /* of the record at fault, its length field included */
    u64 found;
} df_walked;

static inline int df_walk(const u8 *data, u64 nbytes, i64 wanted, int check_payload, df_walked *out) {
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

#endif
