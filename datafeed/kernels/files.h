/* Read from files. */

#ifndef DATAFEED_FILES_H
#define DATAFEED_FILES_H

#include <errno.h>
#include <unistd.h>
#include "load.h"

/* Fill memory from a file; 0 where it ends before, or cannot be read. */
static inline int df_read_file(int descriptor, u8 *into, u64 nbytes, i64 offset) {
    while (nbytes) {
        ssize_t n = pread(descriptor, into, nbytes, offset);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return 0;
        into += n;
        nbytes -= (u64)n;
        offset += n;
    }
    return 1;
}

#endif
