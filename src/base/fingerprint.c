#include "base/fingerprint.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

enum { BLOCK = 1 << 16 };

zest_fingerprint zest_fingerprint_of(const void *bytes, size_t size) {
    return (zest_fingerprint){size, XXH3_64bits(bytes ? bytes : "", size)};
}

/* Hashes a file block by block: the same as XXH3 of its bytes at once. */
static zest_status hash_blocks(int descriptor, const char *path, size_t most, XXH3_state_t *state,
                               zest_error *error) {
    char block[BLOCK];
    for (size_t left = most; left;) {
        ssize_t got = read(descriptor, block, left < sizeof block ? left : sizeof block);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be read", path);
        if (!got) break;
        XXH3_64bits_update(state, block, (size_t)got);
        left -= (size_t)got;
    }
    return ZEST_OK;
}

zest_status zest_fingerprint_file(const char *path, size_t most, zest_fingerprint *print, zest_error *error) {
    struct stat info;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0 || fstat(descriptor, &info)) {
        zest_status status = zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be opened", path);
        if (descriptor >= 0) close(descriptor);
        return status;
    }
    XXH3_state_t *state = XXH3_createState();
    zest_status status =
        state ? ZEST_OK : zest_error_memory(error, "a fingerprint", sizeof(zest_fingerprint));
    if (!status) {
        XXH3_64bits_reset(state);
        status = hash_blocks(descriptor, path, most, state, error);
    }
    if (!status) *print = (zest_fingerprint){(uint64_t)info.st_size, XXH3_64bits_digest(state)};
    XXH3_freeState(state);
    close(descriptor);
    return status;
}

int zest_fingerprint_same(zest_fingerprint a, zest_fingerprint b) {
    return a.bytes == b.bytes && a.hash == b.hash;
}
