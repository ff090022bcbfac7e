/* Fingerprints of files: has this one changed since? XXH3, which finds accidents, not attackers. */
#ifndef ZEST_BASE_FINGERPRINT_H
#define ZEST_BASE_FINGERPRINT_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct {
    uint64_t bytes; /* size of the whole file */
    uint64_t hash;  /* XXH3 of what was hashed */
} zest_fingerprint;

zest_fingerprint zest_fingerprint_of(const void *bytes, size_t size);
/* Of a file: its size, and the hash of at most its first `most` bytes. */
zest_status zest_fingerprint_file(const char *path, size_t most, zest_fingerprint *print, zest_error *error);
int zest_fingerprint_same(zest_fingerprint a, zest_fingerprint b);

#endif
