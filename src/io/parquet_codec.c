/* The codecs of Parquet pages.
 *
 * Snappy and LZ4 blocks are unpacked here: each is a loop over literals and copies, which is shorter than what it takes
 * to find a library, link it and pack it into three kinds of packages. Deflate and Zstandard are worlds of their own and
 * come from zlib and libzstd, where the build found them. */
#include <string.h>
#ifdef ZEST_ZLIB
#include <zlib.h>
#endif
#ifdef ZEST_ZSTD
#include <zstd.h>
#endif

#include "io/parquet_internal.h"

static const char *const damaged = "its compressed bytes are damaged";

/* ---- Snappy and LZ4 ---- */

typedef struct {
    const unsigned char *at, *end;
    unsigned char *begin, *to, *limit;
} unpacking;

static int copy_literal(unpacking *u, size_t size) {
    if (size > (size_t)(u->end - u->at) || size > (size_t)(u->limit - u->to)) return 0;
    memcpy(u->to, u->at, size);
    u->at += size;
    u->to += size;
    return 1;
}

/* A copy of what was unpacked, from so many bytes back. It may overlap with itself and repeats then. */
static int copy_back(unpacking *u, size_t back, size_t size) {
    if (!back || back > (size_t)(u->to - u->begin) || size > (size_t)(u->limit - u->to)) return 0;
    if (back >= size)
        memcpy(u->to, u->to - back, size);
    else
        for (size_t i = 0; i < size; i++) u->to[i] = u->to[(ptrdiff_t)i - (ptrdiff_t)back];
    u->to += size;
    return 1;
}

/* A number of so many bytes; 0 and *ok = 0 if they are not there. */
static size_t take(unpacking *u, size_t size, int *ok) {
    if (size > (size_t)(u->end - u->at)) return *ok = 0;
    size_t value = (size_t)zest_parquet_little(u->at, size);
    u->at += size;
    return value;
}

static int snappy_element(unpacking *u) {
    unsigned tag = *u->at++;
    size_t size = tag >> 2, back;
    int ok = 1;
    switch (tag & 3) {
    case 0:
        if (size >= 60) size = take(u, size - 59, &ok);
        return ok && copy_literal(u, size + 1);
    case 1: back = (size_t)(tag >> 5) << 8 | take(u, 1, &ok); return ok && copy_back(u, back, (size & 7) + 4);
    case 2: back = take(u, 2, &ok); return ok && copy_back(u, back, size + 1);
    default: back = take(u, 4, &ok); return ok && copy_back(u, back, size + 1);
    }
}

static const char *snappy(unpacking *u) {
    uint64_t size;
    if (!zest_parquet_varint(&u->at, u->end, &size) || size != (size_t)(u->limit - u->begin)) return damaged;
    while (u->at < u->end)
        if (!snappy_element(u)) return damaged;
    return u->to == u->limit ? NULL : damaged;
}

/* A length of four bits, and further bytes as long as they are 255. */
static size_t lz4_length(unpacking *u, size_t length, int *ok) {
    size_t byte = length == 15 ? 255 : 0;
    while (byte == 255 && *ok) length += byte = take(u, 1, ok);
    return length;
}

static const char *lz4(unpacking *u) {
    int ok = 1;
    while (u->at < u->end) {
        unsigned token = *u->at++;
        size_t literal = lz4_length(u, token >> 4, &ok);
        if (!ok || !copy_literal(u, literal)) return damaged;
        if (u->at == u->end) break; /* the last sequence has no copy */
        size_t back = take(u, 2, &ok), size = lz4_length(u, token & 15, &ok) + 4;
        if (!ok || !copy_back(u, back, size)) return damaged;
    }
    return u->to == u->limit ? NULL : damaged;
}

/* ---- Libraries ---- */

#ifdef ZEST_ZLIB
/* A gzip file, which may have several members. */
static const char *gunzip(const unsigned char *in, size_t size, unsigned char *out, size_t out_size) {
    z_stream z = {.next_in = (unsigned char *)(uintptr_t)in, .avail_in = (uInt)size, .next_out = out};
    if (size > INT32_MAX || out_size > INT32_MAX) return damaged;
    z.avail_out = (uInt)out_size;
    if (inflateInit2(&z, 15 + 32) != Z_OK) return "zlib has not enough memory";
    int code;
    do code = inflate(&z, Z_FINISH);
    while (code == Z_STREAM_END && z.avail_in && inflateReset(&z) == Z_OK);
    size_t rest = z.avail_in, missing = z.avail_out;
    inflateEnd(&z);
    if (code == Z_MEM_ERROR) return "zlib has not enough memory";
    return code == Z_STREAM_END && !rest && !missing ? NULL : damaged;
}
#else
static const char *gunzip(const unsigned char *in, size_t size, unsigned char *out, size_t out_size) {
    (void)in, (void)size, (void)out, (void)out_size;
    return "its codec is GZIP, and this zest was built without zlib; install it (Debian: apt-get install "
           "zlib1g-dev) "
           "and build again, or write the file with the codec snappy";
}
#endif

#ifdef ZEST_ZSTD
static const char *unzstd(const unsigned char *in, size_t size, unsigned char *out, size_t out_size) {
    return ZSTD_decompress(out, out_size, in, size) == out_size ? NULL : damaged;
}
#else
static const char *unzstd(const unsigned char *in, size_t size, unsigned char *out, size_t out_size) {
    (void)in, (void)size, (void)out, (void)out_size;
    return "its codec is ZSTD, and this zest was built without libzstd; install it (Debian: apt-get install "
           "libzstd-dev) and build again, or write the file with the codec snappy";
}
#endif

/* ---- By number ---- */

const char *zest_parquet_unpack(int codec, const unsigned char *in, size_t size, unsigned char *out,
                                size_t out_size) {
    unpacking u = {.at = in, .end = in + size, .begin = out, .to = out, .limit = out + out_size};
    switch (codec) {
    case 1: return snappy(&u);
    case 2: return gunzip(in, size, out, out_size);
    case 3: return "its codec is LZO, which zest does not read; write the file with the codec zstd or snappy";
    case 4:
        return "its codec is BROTLI, which zest does not read; write the file with the codec zstd or snappy";
    case 5:
        return "its codec is the old LZ4, which zest does not read; write the file with the codec zstd or "
               "snappy";
    case 6: return unzstd(in, size, out, out_size);
    case 7: return lz4(&u);
    default: return "its codec has a number that is not known";
    }
}
