/* SHA-1 and SHA-256 (FIPS 180-4), computed incrementally, to verify downloads (git identifies small files
 * by SHA-1); and fingerprints of files. */
#ifndef ZEST_BASE_HASH_H
#define ZEST_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef enum { ZEST_SHA_1, ZEST_SHA_256 } zest_sha_kind;

enum { ZEST_SHA_1_DIGITS = 40, ZEST_SHA_256_DIGITS = 64, ZEST_SHA_HEX_SIZE = ZEST_SHA_256_DIGITS + 1 };

typedef struct {
    zest_sha_kind kind;
    uint32_t state[8];
    uint64_t length;         /* bytes so far */
    unsigned char block[64]; /* the last length % 64 of them */
} zest_sha;

void zest_sha_begin(zest_sha *sha, zest_sha_kind kind);
void zest_sha_add(zest_sha *sha, const void *bytes, size_t size);
/* Ends the message; hex gets 40 or 64 lower-case digits and a NUL. */
void zest_sha_end(zest_sha *sha, char hex[ZEST_SHA_HEX_SIZE]);

/* ---- Fingerprints, to detect that a file has changed. XXH3: detects accidents, not attacks ---- */

typedef struct {
    uint64_t bytes; /* size of the whole file */
    uint64_t hash;  /* XXH3 of the hashed bytes */
} zest_fingerprint;

zest_fingerprint zest_fingerprint_of(const void *bytes, size_t size);
/* Of a file: its size, and the hash of at most its first `max_bytes` bytes. */
zest_status zest_fingerprint_file(const char *path, size_t max_bytes, zest_fingerprint *print,
                                  zest_error *error);
int zest_fingerprint_same(zest_fingerprint a, zest_fingerprint b);

#endif
