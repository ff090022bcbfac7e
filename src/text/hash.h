/* Hashes for tables in memory; nothing of them is ever stored. */
#ifndef ZEST_TEXT_HASH_H
#define ZEST_TEXT_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Tables are at most half full, so nothing lies this far from its own slot by chance. A file that was made to
 * collide is refused, and a search never takes more steps than this. */
enum { ZEST_HASH_REACH = 4096 };

static inline uint64_t zest_hash_mix(uint64_t x) {
    x *= 0x9E3779B97F4A7C15u;
    return x ^ x >> 32;
}

static inline uint64_t zest_hash(const char *bytes, size_t size) {
    uint64_t hash = size, word;
    for (; size >= 8; bytes += 8, size -= 8) {
        memcpy(&word, bytes, 8);
        hash = zest_hash_mix(hash ^ word);
    }
    word = 0;
    for (size_t i = 0; i < size; i++) word = word << 8 | (unsigned char)bytes[i];
    return zest_hash_mix(zest_hash_mix(hash ^ word) + size);
}

#endif
