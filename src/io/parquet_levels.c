/* Parquet's packed integers: runs and groups (levels, indices of dictionaries, booleans), and differences. */
#include "io/parquet_internal.h"

/* width bits, from the lowest bit of each byte up; as many bytes as that takes must be there. width ≤ 64. */
static uint64_t bits_at(const unsigned char *bytes, uint64_t bit, unsigned width) {
    if (!width) return 0;
    const unsigned char *at = bytes + bit / 8;
    unsigned skip = (unsigned)(bit % 8), size = (skip + width + 7) / 8; /* at most nine bytes */
    uint64_t value = zest_parquet_little(at, size < 8 ? size : 8) >> skip;
    if (size > 8) value |= (uint64_t)at[8] << (64 - skip);
    return width < 64 ? value & (((uint64_t)1 << width) - 1) : value;
}

/* ---- Runs and groups ---- */

static int next_run(zest_parquet_runs *r) {
    uint64_t header;
    if (!zest_parquet_varint(&r->at, r->end, &header)) return 0;
    size_t rest = (size_t)(r->end - r->at), size = (r->width + 7) / 8;
    if (header & 1) { /* groups of eight numbers; the bytes of the last ones may be missing */
        uint64_t groups = header >> 1;
        if (groups > UINT64_MAX / 8 || (r->width && groups > rest / r->width)) {
            r->packed = rest * 8 / (r->width ? r->width : 1);
            r->bits = r->at;
            r->at = r->end;
        } else {
            r->packed = groups * 8;
            r->bits = r->at;
            r->at += groups * r->width;
        }
        r->bit = 0;
        return 1;
    }
    if (size > rest) return 0;
    r->run = header >> 1;
    r->value = (uint32_t)zest_parquet_little(r->at, size);
    r->at += size;
    return r->width == 32 || r->value >> r->width == 0;
}

int zest_parquet_runs_next(zest_parquet_runs *r, uint32_t *value) {
    while (!r->run && !r->packed)
        if (!next_run(r)) return 0;
    if (r->run) {
        r->run--;
        *value = r->value;
    } else {
        r->packed--;
        *value = (uint32_t)bits_at(r->bits, r->bit, r->width);
        r->bit += r->width;
    }
    return 1;
}

/* ---- Differences: blocks of parts, each part with a width of its own ---- */

int zest_parquet_delta_begin(zest_parquet_delta *d, const unsigned char *at, const unsigned char *end) {
    uint64_t minis, first;
    *d = (zest_parquet_delta){.at = at, .end = end, .first = 1};
    if (!zest_parquet_varint(&d->at, end, &d->block) || !zest_parquet_varint(&d->at, end, &minis) ||
        !zest_parquet_varint(&d->at, end, &d->left) || !zest_parquet_varint(&d->at, end, &first))
        return 0;
    if (!minis || minis > 1024 || !d->block || d->block > 1 << 24 || d->block % minis || d->left > INT64_MAX)
        return 0;
    d->minis = (unsigned)minis;
    d->value = (uint64_t)zest_parquet_unzigzag(first);
    return d->block / minis % 8 == 0; /* so a part is whole bytes */
}

static int next_block(zest_parquet_delta *d) {
    uint64_t step;
    if (!zest_parquet_varint(&d->at, d->end, &step) || (size_t)(d->end - d->at) < d->minis) return 0;
    d->step = (uint64_t)zest_parquet_unzigzag(step);
    d->widths = d->at;
    d->at += d->minis;
    d->mini = 0;
    d->block_left = d->block;
    return 1;
}

static int next_mini(zest_parquet_delta *d) {
    if (!d->block_left && !next_block(d)) return 0;
    uint64_t count = d->block / d->minis;
    d->width = d->widths[d->mini++];
    if (d->width > 64) return 0;
    uint64_t size = count / 8 * d->width, rest = (uint64_t)(d->end - d->at);
    /* behind the last number, the bytes of a part may be missing */
    uint64_t needed = d->left < count ? (d->left * d->width + 7) / 8 : size;
    if (needed > rest) return 0;
    d->bits = d->at;
    d->bit = 0;
    d->at += size < rest ? size : rest;
    d->mini_left = count;
    d->block_left -= count;
    return 1;
}

int zest_parquet_delta_next(zest_parquet_delta *d, int64_t *value) {
    if (!d->left) return 0;
    if (!d->first) {
        if (!d->mini_left && !next_mini(d)) return 0;
        d->mini_left--;
        d->value += d->step + bits_at(d->bits, d->bit, d->width);
        d->bit += d->width;
    }
    d->first = 0;
    d->left--;
    *value = (int64_t)d->value;
    return 1;
}

const unsigned char *zest_parquet_delta_end(const zest_parquet_delta *from) {
    zest_parquet_delta d = *from; /* at its begin */
    if (d.left) d.left--;
    while (d.left) {
        if (!next_mini(&d)) return NULL;
        d.left -= d.left < d.mini_left ? d.left : d.mini_left;
    }
    return d.at;
}
