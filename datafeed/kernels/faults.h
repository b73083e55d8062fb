/* Say what a kernel found wrong. */

#ifndef DATAFEED_FAULTS_H
#define DATAFEED_FAULTS_H

#include "load.h"

/* of a walk */
enum { DF_OK, DF_CUT, DF_LENGTH_CRC, DF_PAST_END, DF_OVER_LIMIT, DF_PAYLOAD_CRC, DF_MORE, DF_FEWER, DF_NO_MEMORY };

/* of a parse; DF_COUNT of an encoding too */
enum { DF_WIRE = 20, DF_GROUP, DF_MISSING, DF_KIND, DF_COUNT, DF_MULTIPLE, DF_SIZE, DF_SIZE_MULTIPLE, DF_RANGE,
       DF_BAD_INDEX, DF_TOO_MUCH };

/* of an encoding */
enum { DF_ABSENT = 40, DF_OFFSETS, DF_TOO_LARGE, DF_CHANGED };

typedef struct {
    int code;
    i64 row, feature, offset;  /* the byte in the record, for DF_WIRE and DF_GROUP */
    i64 wanted, found;
} df_fault;

static const df_fault df_no_fault = {0, -1, -1, -1, 0, 0};

static inline int df_unfit(df_fault *fault, int code, u64 wanted, u64 found) {
    fault->code = code;
    fault->wanted = (i64)wanted;
    fault->found = (i64)found;
    return code;
}

#endif
