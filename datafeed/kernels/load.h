/* Read little-endian integers wherever they stand. */

#ifndef DATAFEED_LOAD_H
#define DATAFEED_LOAD_H

#include <stdint.h>
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

#endif
