/* The journal: an append-only file from which a run can be rebuilt bit for bit.
 *
 *   header   8 bytes "zestJNL\n"; u32 format; u32 length of the text; the text; u32 checksum of all before it
 *            text, one line each:  fingerprint=HEX   dimension=N   tensor=TYPE COUNT NAME
 *            and then every tuner option
 *   record   u32 step; u32 flags; f64 lr; f64 losses[]; u32 checksum        (100 bytes for k = 5)
 *
 * Numbers are little-endian. flags bit 0: f(x) follows the pairs' losses. How many pairs there are follows
 * from the options. A record's checksum (XXH32) is seeded with the one before it, so records can neither be
 * lost nor change places unnoticed. Losses are kept in fp64 as measured: the coefficients are computed from
 * them again. */
#ifndef ZEST_OPTIM_JOURNAL_H
#define ZEST_OPTIM_JOURNAL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <xxhash.h>

#include "base/memory.h"
#include "base/option.h"
#include "optim/step.h"
#include "io/tensor.h"

/* ---- Reading ---- */

struct zest_journal {
    zest_ctx *ctx;
    char *path;
    zest_buffer bytes;
    size_t body;       /* where the first record starts */
    size_t end;        /* of the last good record */
    uint32_t checksum; /* of the last good record, or of the header */
    uint64_t steps;
    size_t *offsets; /* of each record */
    double *losses;  /* of one record */
    int format;      /* ZEST_FORMAT of the version that wrote it */
    zest_options options;
    zest_tilt_options tilt;
    uint64_t fingerprint, dimension;
    zest_dtype dtype; /* of the first tensor */
    size_t tensors;   /* lines of tensors in the header */
};

/* The pairs of a run with these options, and the tilt that goes with them. format: that of the run's journal,
 * ZEST_FORMAT for a new run. */
zest_tilt_options zest_journal_tilt(const zest_options *options, int format);

/* Whether the header has a line for this option. Without one, a run of a zeroth-order method has the default. */
int zest_journal_states(const zest_journal *journal, zest_option_id id);

/* The checksum of the record of a step, which depends on the header and on all records before it; 0: of the header.
 * A checkpoint keeps it, so that it can be told from one of another run. */
uint32_t zest_journal_checksum_at(const zest_journal *journal, uint64_t step);

/* Compares parameters at their starting point with what the journal was started from. */
zest_status zest_journal_check_start(const zest_journal *journal, const zest_params *start,
                                     zest_error *error);

/* The format in which a run with these options is written: the oldest that can say what they do. */
int zest_journal_format(const zest_options *options);

/* Tells a step what it has to know of the recorded steps up to `at` to go on from there (zest_step_memory). */
zest_status zest_journal_recall(zest_journal *journal, uint64_t at, zest_step *step, zest_error *error);

/* Takes the parameters from the run's starting point to the state after `step` steps, where they are. */
zest_status zest_journal_replay(zest_journal *journal, uint64_t step, const zest_step_storage *storage);

/* ---- Writing ---- */

typedef struct {
    int descriptor;
    char *path;
    uint32_t checksum;
    uint64_t size; /* of the file up to the last whole record */
    double synced; /* when */
    zest_buffer record;
} zest_journal_writer;

/* A new journal in two steps, so that what belongs to it can be written in between. reserve takes the lock,
 * in PATH.new, and refuses where there is a journal or where another process is starting one. commit writes
 * the header and gives the file its name: from then on there is a run. */
zest_status zest_journal_reserve(zest_journal_writer *writer, const char *path, zest_error *error);
zest_status zest_journal_commit(zest_journal_writer *writer, const zest_options *options,
                                const zest_params *start, zest_error *error);
/* Both at once. */
zest_status zest_journal_create(zest_journal_writer *writer, const char *path, const zest_options *options,
                                const zest_params *start, zest_error *error);
/* Continues after the last good record of an opened journal, cutting off a torn tail. */
zest_status zest_journal_continue(zest_journal_writer *writer, const zest_journal *journal,
                                  zest_error *error);
/* step counts from 1. When it fails (a full disk), the file ends with the record before. */
zest_status zest_journal_append(zest_journal_writer *writer, uint64_t step, double lr, const double *losses,
                                size_t count, int has_center, zest_error *error);
/* Returns when all records are on disk: before a checkpoint that must not be ahead of them. */
zest_status zest_journal_sync(zest_journal_writer *writer, zest_error *error);
void zest_journal_finish(
    zest_journal_writer *writer); /* syncs and closes; a zeroed writer with descriptor -1 is fine */

/* The bytes of the journal, shared by its reader and its writer. */

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
