/* Sum bytes with CRC32C (Castagnoli), as RFC 3720 defines it and TFRecord masks it. */

#ifndef DATAFEED_CRC32C_H
#define DATAFEED_CRC32C_H

#include <stddef.h>
#include "load.h"

/* Three runs of DF_LONG or DF_SHORT bytes are summed side by side, as the instruction takes three cycles but one
   can start in each; a sum is then moved over the next run's bytes by tables of the (linear) zero-byte operator. */
#define DF_LONG 1024
#define DF_SHORT 128

static u32 df_bytes[8][256], df_over_long[4][256], df_over_short[4][256];
static int df_has_instruction;

static inline u32 df_crc_by_table(u32 crc, const u8 *p, size_t n) {
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
static inline int df_find_instruction(void) { __builtin_cpu_init(); return __builtin_cpu_supports("sse4.2"); }
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#define DF_INSTRUCTION
#define DF_STEP8(crc, p) __crc32cd((u32)(crc), df_load64(p))
#define DF_STEP1(crc, p) __crc32cb((u32)(crc), *(p))
static inline int df_find_instruction(void) { return 1; }
#else
static inline int df_find_instruction(void) { return 0; }
#endif

#ifdef DF_INSTRUCTION
#define DF_THREE(size, table)                                                                                   \
    for (; n >= 3 * size; n -= 3 * size, p += 3 * size) {                                                       \
        u64 b = 0, c = 0;                                                                                       \
        for (size_t i = 0; i < size; i += 8) {                                                                  \
            a = DF_STEP8(a, p + i);                                                                             \
            b = DF_STEP8(b, p + size + i);                                                                      \
            c = DF_STEP8(c, p + 2 * size + i);                                                                  \
        }                                                                                                       \
        a = df_over(table, (u32)a) ^ b;                                                                         \
        a = df_over(table, (u32)a) ^ c;                                                                         \
    }
DF_INSTRUCTION static inline u32 df_crc_by_instruction(u32 crc, const u8 *p, size_t n) {
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

static inline u32 df_crc_table_only(const u8 *p, size_t n) { return ~df_crc_by_table(~0u, p, n); }

static inline u32 df_mask(u32 crc) { return (crc >> 15 | crc << 17) + 0xa282ead8u; }

static inline void df_fill_over(u32 table[4][256], size_t nbytes) {
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

static inline void df_setup(void) {  /* at import, before any other function */
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

#endif
