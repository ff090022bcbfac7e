/* Reading the journal. */
#include "core/journal.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "core/context.h"
#include "core/journal_format.h"

static const size_t largest_file = (size_t)1 << 40;

zest_tilt_options zest_journal_tilt(const zest_options *options, int format) {
    uint64_t method = zest_options_whole(options, ZEST_OPTION_METHOD);
    zest_tilt_options tilt = {
        .estimator = method == ZEST_CHOICE_ZEST_BC ? ZEST_BIAS_CORRECTED : ZEST_NAIVE,
        .t = method == ZEST_CHOICE_MEZO ? 0 : zest_options_number(options, ZEST_OPTION_T),
        .rho = zest_options_number(options, ZEST_OPTION_RHO),
        .k = (size_t)zest_options_whole(options, ZEST_OPTION_K),
        .format = format,
    };
    /* at t = 0 the denominator is 1 whatever the losses: no reason to pay for it */
    int ball = zest_options_whole(options, ZEST_OPTION_DENOMINATOR) == 1;
    if (ball && tilt.t > 0) tilt.ball_pairs = tilt.k;
    return tilt;
}

static zest_error *sink(const zest_journal *journal) { return zest_ctx_sink(journal->ctx); }

static zest_status damaged(zest_journal *journal, const char *what) {
    return zest_error_set(sink(journal), ZEST_ERROR_FORMAT, "%s: the journal's header is damaged (%s)",
                          journal->path, what);
}

/* "tensor=F32 100 name": all tensors of a run have one type. Keeps the lines for comparison with the
 * parameters. */
static int tensor_line(zest_journal *journal, const char *line) {
    char type[16];
    unsigned long long count;
    size_t old = journal->layout ? strlen(journal->layout) : 0, more = strlen(line);
    if (sscanf(line, "tensor=%15s %llu", type, &count) != 2 || !zest_dtype_find(type, &journal->dtype))
        return 0;
    char *grown = realloc(journal->layout, old + more + 2);
    if (!grown) return 0;
    memcpy(grown + old, line, more);
    memcpy(grown + old + more, "\n", 2);
    journal->layout = grown;
    return 1;
}

static zest_status header_line(zest_journal *journal, char *line) {
    unsigned long long number;
    if (!strncmp(line, "tensor=", 7)) return tensor_line(journal, line) ? ZEST_OK : damaged(journal, line);
    if (sscanf(line, "fingerprint=%llx", &number) == 1) return journal->fingerprint = number, ZEST_OK;
    if (sscanf(line, "dimension=%llu", &number) == 1) return journal->dimension = number, ZEST_OK;
    char *equals = strchr(line, '=');
    if (!equals) return damaged(journal, line);
    *equals = '\0';
    return zest_options_set(&journal->options, ZEST_FOR_TUNER, line, equals + 1, sink(journal));
}

static zest_status read_header(zest_journal *journal) {
    const unsigned char *bytes = (const unsigned char *)journal->bytes.data;
    size_t size = journal->bytes.size;
    if (size < ZEST_JOURNAL_PREFIX || memcmp(bytes, ZEST_JOURNAL_MAGIC, ZEST_JOURNAL_MAGIC_SIZE))
        return zest_error_set(sink(journal), ZEST_ERROR_FORMAT, "%s: not a journal of zest", journal->path);
    uint32_t format = zest_journal_get32(bytes + 8), length = zest_journal_get32(bytes + 12);
    if (format < ZEST_FORMAT_OLDEST || format > ZEST_FORMAT)
        return zest_error_set(
            sink(journal), ZEST_ERROR_FORMAT,
            "%s: has format %u and this zest reads formats %d to %d; use the zest that wrote it",
            journal->path, format, ZEST_FORMAT_OLDEST, ZEST_FORMAT);
    journal->format = (int)format;
    if (length > size - ZEST_JOURNAL_PREFIX || size - ZEST_JOURNAL_PREFIX - length < ZEST_JOURNAL_CHECK)
        return damaged(journal, "cut short");
    size_t covered = ZEST_JOURNAL_PREFIX + (size_t)length;
    journal->checksum = zest_journal_get32(bytes + covered);
    if (journal->checksum != zest_journal_checksum(bytes, covered, 0))
        return damaged(journal, "wrong checksum");
    journal->body = journal->end = covered + ZEST_JOURNAL_CHECK;
    char *text = strndup((const char *)bytes + ZEST_JOURNAL_PREFIX, length), *next = text;
    if (!text) return zest_error_memory(sink(journal), journal->path, length);
    zest_status status = ZEST_OK;
    while (next && *next && !status) status = header_line(journal, strsep(&next, "\n"));
    free(text);
    if (!status && (!journal->layout || !journal->dimension)) status = damaged(journal, "no parameters");
    journal->tilt = zest_journal_tilt(&journal->options, journal->format);
    return status ? status : zest_tilt_check(&journal->tilt, sink(journal));
}

static size_t losses_of(const zest_journal *journal, uint32_t flags) {
    return 2 * (journal->tilt.k + journal->tilt.ball_pairs) + (flags & ZEST_JOURNAL_HAS_CENTER ? 1 : 0);
}

/* The size of the record at `at` if it is whole and good, else 0. */
static size_t good_record(const zest_journal *journal, size_t at, uint64_t step, uint32_t previous) {
    const unsigned char *bytes = (const unsigned char *)journal->bytes.data + at;
    size_t left = journal->bytes.size - at;
    if (left < ZEST_JOURNAL_RECORD_HEAD) return 0;
    uint32_t flags = zest_journal_get32(bytes + 4);
    size_t size = zest_journal_record_size(losses_of(journal, flags));
    if (flags & ~(uint32_t)ZEST_JOURNAL_HAS_CENTER || left < size) return 0;
    if (zest_journal_get32(bytes) != (uint32_t)step) return 0;
    uint32_t checksum = zest_journal_get32(bytes + size - ZEST_JOURNAL_CHECK);
    return checksum == zest_journal_checksum(bytes, size - ZEST_JOURNAL_CHECK, previous) ? size : 0;
}

/* What a kill or a power failure leaves behind the last good record: at most one record in pieces, and blocks
 * that were never written, which read as zeros. */
static int torn(const zest_journal *journal) {
    size_t one = zest_journal_record_size(losses_of(journal, ZEST_JOURNAL_HAS_CENTER));
    for (size_t at = journal->end + one; at < journal->bytes.size; at++)
        if (journal->bytes.data[at]) return 0;
    return 1;
}

static zest_status read_records(zest_journal *journal) {
    size_t room = (journal->bytes.size - journal->body) / zest_journal_record_size(losses_of(journal, 0)) + 1,
           size;
    journal->offsets = malloc(room * sizeof *journal->offsets);
    journal->losses = malloc((losses_of(journal, ZEST_JOURNAL_HAS_CENTER) + 1) * sizeof *journal->losses);
    if (!journal->offsets || !journal->losses) return zest_error_memory(sink(journal), journal->path, room);
    while ((size = good_record(journal, journal->end, journal->steps + 1, journal->checksum))) {
        journal->offsets[journal->steps++] = journal->end;
        journal->end += size;
        journal->checksum = zest_journal_get32((const unsigned char *)journal->bytes.data + journal->end -
                                               ZEST_JOURNAL_CHECK);
    }
    if (torn(journal)) return ZEST_OK;
    return zest_error_set(
        sink(journal), ZEST_ERROR_FORMAT,
        "%s: damaged at byte %zu, in the record of step %llu, with %zu bytes behind; the %llu steps "
        "before it are good: cut the file there (truncate -s %zu) to go on from them",
        journal->path, journal->end, (unsigned long long)journal->steps + 1,
        journal->bytes.size - journal->end, (unsigned long long)journal->steps, journal->end);
}

zest_journal *zest_journal_open(zest_ctx *ctx, const char *path) {
    zest_journal *journal = calloc(1, sizeof *journal);
    if (!journal) return zest_error_memory(zest_ctx_sink(ctx), path, sizeof *journal), NULL;
    journal->ctx = ctx;
    zest_options_init(&journal->options);
    journal->path = strdup(path);
    zest_status status = journal->path ? zest_file_read(path, largest_file, &journal->bytes, sink(journal))
                                       : zest_error_memory(sink(journal), path, strlen(path));
    if (!status) status = read_header(journal);
    if (!status) status = read_records(journal);
    if (!status) return journal;
    zest_journal_close(journal);
    return NULL;
}

void zest_journal_close(zest_journal *journal) {
    if (!journal) return;
    zest_buffer_free(&journal->bytes);
    zest_options_free(&journal->options);
    free(journal->path);
    free(journal->offsets);
    free(journal->losses);
    free(journal->layout);
    free(journal);
}

uint64_t zest_journal_steps(const zest_journal *journal) { return journal->steps; }
uint64_t zest_journal_torn(const zest_journal *journal) { return journal->bytes.size - journal->end; }
uint64_t zest_journal_dimension(const zest_journal *journal) { return journal->dimension; }
int zest_journal_is_f64(const zest_journal *journal) { return journal->dtype == ZEST_DTYPE_F64; }

const char *zest_journal_option(const zest_journal *journal, const char *name) {
    zest_option_id id = zest_option_find(name, ZEST_FOR_TUNER);
    return id == ZEST_OPTION_COUNT ? NULL : zest_options_text(&journal->options, id);
}

zest_status zest_journal_read(zest_journal *journal, uint64_t step, zest_record *record) {
    if (step < 1 || step > journal->steps)
        return zest_error_set(sink(journal), ZEST_ERROR_ARGUMENT, "%s: has steps 1 to %llu, not %llu",
                              journal->path, (unsigned long long)journal->steps, (unsigned long long)step);
    const unsigned char *bytes = (const unsigned char *)journal->bytes.data + journal->offsets[step - 1];
    uint32_t flags = zest_journal_get32(bytes + 4);
    *record = (zest_record){.step = step,
                            .lr = zest_journal_get_real(bytes + 8),
                            .count = losses_of(journal, flags),
                            .losses = journal->losses,
                            .has_center = flags & ZEST_JOURNAL_HAS_CENTER};
    for (size_t i = 0; i < record->count; i++)
        journal->losses[i] = zest_journal_get_real(bytes + ZEST_JOURNAL_RECORD_HEAD + 8 * i);
    return ZEST_OK;
}

zest_status zest_journal_check_start(const zest_journal *journal, const zest_params *start,
                                     zest_error *error) {
    if (start->dimension != journal->dimension || (start->count && start->tensors[0].dtype != journal->dtype))
        return zest_error_set(
            error, ZEST_ERROR_FORMAT, "%s: belongs to %llu parameters of type %s, not to %llu of type %s",
            journal->path, (unsigned long long)journal->dimension, zest_dtype_name(journal->dtype),
            (unsigned long long)start->dimension, zest_dtype_name(start->tensors[0].dtype));
    uint64_t print = zest_params_fingerprint(start);
    if (print != journal->fingerprint)
        return zest_error_set(
            error, ZEST_ERROR_FORMAT,
            "%s: the run started from other values (fingerprint %016llx, these have %016llx); give it "
            "the parameters it started from",
            journal->path, (unsigned long long)journal->fingerprint, (unsigned long long)print);
    return ZEST_OK;
}
