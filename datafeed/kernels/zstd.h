/* Decompress frames with the system's libzstd, found at run time: nothing is linked, no header of it is needed. */

#ifndef DATAFEED_ZSTD_H
#define DATAFEED_ZSTD_H

#include <dlfcn.h>
#include "load.h"

#define DF_ZSTD_OLDEST 10400u  /* 1.4.0: what it decodes has not changed since */

#ifdef __APPLE__
#define DF_ZSTD_FILE "libzstd.1.dylib"
#else
#define DF_ZSTD_FILE "libzstd.so.1"
#endif

typedef struct {
    void *(*create)(void);
    size_t (*free)(void *context);
    size_t (*decompress)(void *context, void *into, size_t room, const void *frame, size_t nbytes);
    unsigned version;  /* 0 where there is no libzstd, or too old a one */
} df_zstd_library;

static df_zstd_library df_zstd;

/* Called once, under the import lock. */
static inline void df_zstd_setup(void) {
    void *library = dlopen(DF_ZSTD_FILE, RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
    unsigned (*version)(void) = (unsigned (*)(void))dlsym(library, "ZSTD_versionNumber");
    df_zstd.create = (void *(*)(void))dlsym(library, "ZSTD_createDCtx");
    df_zstd.free = (size_t (*)(void *))dlsym(library, "ZSTD_freeDCtx");
    df_zstd.decompress = (size_t (*)(void *, void *, size_t, const void *, size_t))dlsym(library, "ZSTD_decompressDCtx");
    if (version && df_zstd.create && df_zstd.free && df_zstd.decompress && version() >= DF_ZSTD_OLDEST)
        df_zstd.version = version();
    else
        dlclose(library);
}

#define DF_MOST_WINDOW (128u << 20)

/* Where the blocks of a frame begin, 0 unless it names the raw size, has a checksum and no dictionary, and needs a
 * window that this format allows (RFC 8878, 3.1.1.1). */
static inline u64 df_frame_head(const u8 *frame, u64 nbytes, u64 raw) {
    if (nbytes < 18 || df_load32(frame) != 0xfd2fb528u || (frame[4] & 0x1f) != 4) return 0;
    u32 single = frame[4] >> 5 & 1u;
    const u8 *size = frame + (single ? 5 : 6);
    if (!single && ((u64)(8 + (frame[5] & 7)) << (7 + (frame[5] >> 3))) > DF_MOST_WINDOW) return 0;
    switch (frame[4] >> 6) {
    case 0: return single && size[0] == raw ? 6 : 0;
    case 1: return (u64)(df_load32(size) & 0xffffu) + 256 == raw ? (u64)(size + 2 - frame) : 0;
    case 2: return df_load32(size) == raw ? (u64)(size + 4 - frame) : 0;
    default: return df_load64(size) == raw ? (u64)(size + 8 - frame) : 0;
    }
}

/* Decompress one frame that the index describes; 0 where anything is not as it should be. libzstd bounds every read and
 * write and compares the checksum; here, that the frame is the one that the index means and ends where it should. */
static inline int df_frame_decode(void *context, const u8 *frame, u64 nbytes, u32 checksum, u8 *into, u64 raw) {
    u64 at = df_frame_head(frame, nbytes, raw);
    if (!raw || !at || df_load32(frame + nbytes - 4) != checksum) return 0;
    for (u32 head = 0; !(head & 1u);) {
        if (at + 3 > nbytes - 4) return 0;
        head = (u32)frame[at] | (u32)frame[at + 1] << 8 | (u32)frame[at + 2] << 16;
        at += 3 + ((head & 6u) == 2u ? 1u : head >> 3);
    }
    return at == nbytes - 4 && df_zstd.decompress(context, into, raw, frame, nbytes) == raw;
}

#endif
