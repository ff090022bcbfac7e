/* The bytes of the journal, shared by its reader and its writer. */
#ifndef ZEST_CORE_JOURNAL_FORMAT_H
#define ZEST_CORE_JOURNAL_FORMAT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <xxhash.h>

#define ZEST_JOURNAL_MAGIC "zestJNL\n"
enum {
    ZEST_JOURNAL_MAGIC_SIZE = 8,
    ZEST_JOURNAL_PREFIX = 16,
    ZEST_JOURNAL_RECORD_HEAD = 16,
    ZEST_JOURNAL_CHECK = 4
};
enum { ZEST_JOURNAL_HAS_CENTER = 1 };

static inline void zest_journal_put32(unsigned char *at, uint32_t value) {
    for (int i = 0; i < 4; i++) at[i] = (unsigned char)(value >> (8 * i));
}

static inline uint32_t zest_journal_get32(const unsigned char *at) {
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static inline void zest_journal_put_real(unsigned char *at, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    zest_journal_put32(at, (uint32_t)bits);
    zest_journal_put32(at + 4, (uint32_t)(bits >> 32));
}

static inline double zest_journal_get_real(const unsigned char *at) {
    uint64_t bits = zest_journal_get32(at) | (uint64_t)zest_journal_get32(at + 4) << 32;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline size_t zest_journal_record_size(size_t losses) {
    return ZEST_JOURNAL_RECORD_HEAD + 8 * losses + ZEST_JOURNAL_CHECK;
}

static inline uint32_t zest_journal_checksum(const void *bytes, size_t size, uint32_t previous) {
    return XXH32(bytes, size, previous);
}

#endif
