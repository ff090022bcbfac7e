/* The journal: reading, writing, replay of a vector. See journal.h for the format. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "optim/journal.h"
#include "base/file.h"
#include "base/text.h"
#include "optim/context.h"
#include "optim/directions.h"
#include "base/clock.h"
#include "optim/step.h"

static const size_t largest_file = (size_t)1 << 40;

zest_tilt_options zest_journal_tilt(const zest_options *options, int format) {
    uint64_t method = zest_options_whole(options, ZEST_OPTION_METHOD);
    zest_tilt_options tilt = {
        .estimator = method == ZEST_CHOICE_ZEST_BC ? ZEST_BIAS_CORRECTED : ZEST_NAIVE,
        .t = method == ZEST_CHOICE_MEZO ? 0 : zest_options_number(options, ZEST_OPTION_T), /* 0: auto */
        .rho = zest_options_number(options, ZEST_OPTION_RHO),
        .k = (size_t)zest_options_whole(options, ZEST_OPTION_K),
        .format = format,
    };
    /* at t = 0 the denominator is 1 whatever the losses: its pairs need not be evaluated */
    size_t examples = zest_directions_of(options).examples;
    if (examples) tilt.k *= examples;
    int ball = zest_options_whole(options, ZEST_OPTION_DENOMINATOR) == ZEST_CHOICE_BALL;
    if (ball && (tilt.t > 0 || zest_options_auto_t(options))) tilt.ball_pairs = tilt.k;
    return tilt;
}

/* Options that format 3 has and format 2 has not. */
static int is_newer(zest_option_id id) {
    return id == ZEST_OPTION_STEP_LENGTH || id == ZEST_OPTION_MAX_STEP || id == ZEST_OPTION_MOMENTUM ||
           id == ZEST_OPTION_MOMENTUM_STEPS || id == ZEST_OPTION_DIRECTIONS || id == ZEST_OPTION_SCALES ||
           id == ZEST_OPTION_TILT_SCOPE || id == ZEST_OPTION_COVARIANCE;
}

int zest_journal_format(const zest_options *options) {
    int newer = zest_options_auto_t(options);
    for (int id = 0; id < ZEST_OPTION_COUNT; id++)
        if (is_newer((zest_option_id)id))
            newer |= strcmp(zest_options_text(options, (zest_option_id)id),
                            zest_option_row_at((zest_option_id)id)->fallback) != 0;
    return newer && !zest_options_first_order(options) ? 3 : 2;
}

int zest_journal_states(const zest_journal *journal, zest_option_id id) {
    return (zest_option_row_at(id)->users & ZEST_FOR_TUNER) && (journal->format > 2 || !is_newer(id));
}

/* ---- Reading ---- */

static zest_error *sink(const zest_journal *journal) { return zest_ctx_sink(journal->ctx); }

static zest_status damaged(zest_journal *journal, const char *what) {
    return zest_error_set(sink(journal), ZEST_ERROR_FORMAT, "%s: the journal's header is damaged (%s)",
                          journal->path, what);
}

/* "tensor=F32 100 name". The first one's type stands for all in messages; the fingerprint covers every type. */
static int tensor_line(zest_journal *journal, const char *line) {
    char type[16];
    unsigned long long count;
    zest_dtype dtype;
    if (sscanf(line, "tensor=%15s %llu", type, &count) != 2 || !zest_dtype_find(type, &dtype)) return 0;
    if (!journal->tensors++) journal->dtype = dtype;
    return 1;
}

static zest_status header_line(zest_journal *journal, char *line) {
    unsigned long long number;
    if (!strncmp(line, "tensor=", 7)) return tensor_line(journal, line) ? ZEST_OK : damaged(journal, line);
    if (sscanf(line, "fingerprint=%llx", &number) == 1) return journal->fingerprint = number, ZEST_OK;
    if (!strncmp(line, "dimension=", 10)) {
        int64_t dimension;
        if (!zest_integer_parse(line + 10, 1, INT64_MAX, &dimension)) return damaged(journal, line);
        return journal->dimension = (uint64_t)dimension, ZEST_OK;
    }
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
    if (!status && (!journal->tensors || !journal->dimension)) status = damaged(journal, "no parameters");
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

/* Is what follows the last good record what a kill or a power failure leaves? At most one torn record, and blocks that
 * were never written, which read as zeros. */
static int is_torn(const zest_journal *journal) {
    size_t one = zest_journal_record_size(losses_of(journal, ZEST_JOURNAL_HAS_CENTER));
    for (size_t at = journal->end + one; at < journal->bytes.size; at++)
        if (journal->bytes.data[at]) return 0;
    return 1;
}

static zest_status read_records(zest_journal *journal) {
    size_t capacity =
               (journal->bytes.size - journal->body) / zest_journal_record_size(losses_of(journal, 0)) + 1,
           size;
    journal->offsets = malloc(capacity * sizeof *journal->offsets);
    journal->losses = malloc((losses_of(journal, ZEST_JOURNAL_HAS_CENTER) + 1) * sizeof *journal->losses);
    if (!journal->offsets || !journal->losses)
        return zest_error_memory(sink(journal), journal->path, capacity);
    while ((size = good_record(journal, journal->end, journal->steps + 1, journal->checksum))) {
        journal->offsets[journal->steps++] = journal->end;
        journal->end += size;
        journal->checksum = zest_journal_get32((const unsigned char *)journal->bytes.data + journal->end -
                                               ZEST_JOURNAL_CHECK);
    }
    if (is_torn(journal)) return ZEST_OK;
    return zest_error_set(
        sink(journal), ZEST_ERROR_FORMAT,
        "%s: damaged at byte %zu, in the record of step %llu, with %zu bytes after it; the %llu steps "
        "before it are good: cut the file there (truncate -s %zu) to continue from them",
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
    free(journal);
}

uint64_t zest_journal_steps(const zest_journal *journal) { return journal->steps; }
uint64_t zest_journal_torn(const zest_journal *journal) { return journal->bytes.size - journal->end; }
uint64_t zest_journal_dimension(const zest_journal *journal) { return journal->dimension; }
int zest_journal_is_f64(const zest_journal *journal) { return journal->dtype == ZEST_DTYPE_F64; }

uint32_t zest_journal_checksum_at(const zest_journal *journal, uint64_t step) {
    size_t end = !step ? journal->body : step < journal->steps ? journal->offsets[step] : journal->end;
    return zest_journal_get32((const unsigned char *)journal->bytes.data + end - ZEST_JOURNAL_CHECK);
}

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

/* ---- Writing ---- */

/* A kill loses nothing that was written; a power failure at most what was written in this many seconds. */
static const double sync_every = 1.0;

static void add32(zest_buffer *out, uint32_t value) {
    unsigned char bytes[4];
    zest_journal_put32(bytes, value);
    zest_buffer_add(out, bytes, sizeof bytes);
}

static void add_real(zest_buffer *out, double value) {
    unsigned char bytes[8];
    zest_journal_put_real(bytes, value);
    zest_buffer_add(out, bytes, sizeof bytes);
}

static void add_header(zest_buffer *out, const zest_options *options, const zest_params *start) {
    zest_buffer text = {0};
    zest_buffer_format(&text, "fingerprint=%016llx\n", (unsigned long long)zest_params_fingerprint(start));
    zest_buffer_format(&text, "dimension=%llu\n", (unsigned long long)start->dimension);
    for (size_t i = 0; i < start->count; i++)
        zest_buffer_format(&text, "tensor=%s %llu %s\n", zest_dtype_name(start->tensors[i].dtype),
                           (unsigned long long)start->tensors[i].count, start->tensors[i].name);
    int format = zest_journal_format(options);
    for (int id = 0; id < ZEST_OPTION_COUNT; id++)
        if (zest_option_row_at((zest_option_id)id)->users & ZEST_FOR_TUNER &&
            (format > 2 || !is_newer((zest_option_id)id)))
            zest_buffer_format(&text, "%s=%s\n", zest_option_row_at((zest_option_id)id)->name,
                               zest_options_text(options, (zest_option_id)id));
    zest_buffer_add(out, ZEST_JOURNAL_MAGIC, ZEST_JOURNAL_MAGIC_SIZE);
    add32(out, (uint32_t)format);
    add32(out, (uint32_t)text.size);
    zest_buffer_add(out, text.data, text.size);
    if (!text.failed && !out->failed) add32(out, zest_journal_checksum(out->data, out->size, 0));
    out->failed |= text.failed;
    zest_buffer_free(&text);
}

/* Opens for appending, through no link, and takes the lock that keeps a second process out. */
static zest_status open_locked(zest_journal_writer *writer, const char *path, int flags, zest_error *error) {
    zest_status status = zest_file_refuse_link(path, error);
    if (status) return status;
    writer->descriptor = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | flags, 0666);
    if (writer->descriptor < 0)
        return zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be opened", path);
    if (flock(writer->descriptor, LOCK_EX | LOCK_NB))
        return errno == EWOULDBLOCK
                   ? zest_error_set(error, ZEST_ERROR_FILE, "%s: another process is running this run",
                                    writer->path)
                   : zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be locked", path);
    writer->synced = zest_clock_now();
    return ZEST_OK;
}

/* "PATH.new", to be freed. */
static char *fresh_name(const char *path) {
    size_t size = strlen(path) + 5;
    char *name = malloc(size);
    if (name) snprintf(name, size, "%s.new", path);
    return name;
}

/* The lock is worth something only while the locked file still has the name: another process may have given
 * it the journal's in between. */
static int has_name(int descriptor, const char *name) {
    struct stat mine, there;
    return !fstat(descriptor, &mine) && !stat(name, &there) && mine.st_dev == there.st_dev &&
           mine.st_ino == there.st_ino;
}

zest_status zest_journal_reserve(zest_journal_writer *writer, const char *path, zest_error *error) {
    *writer = (zest_journal_writer){.descriptor = -1, .path = strdup(path)};
    char *fresh = fresh_name(path);
    zest_status status = writer->path && fresh ? open_locked(writer, fresh, O_CREAT, error)
                                               : zest_error_memory(error, path, strlen(path));
    int exists = !status && !access(path, F_OK), missing = !exists && errno == ENOENT;
    if (exists) {
        status = zest_error_set(error, ZEST_ERROR_FILE,
                                "%s: there is a journal already; resume it, or choose another folder", path);
        if (has_name(writer->descriptor, fresh)) unlink(fresh);
    } else if (!status && !missing) {
        status = zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be looked for", path);
    } else if (!status && !has_name(writer->descriptor, fresh)) {
        status = zest_error_set(error, ZEST_ERROR_FILE, "%s: another process is starting this run", path);
    }
    free(fresh);
    return status;
}

/* Gives the file its name. A journal that is there is never replaced, where the file system can tell. */
static int rename_new(const char *from, const char *to) {
#ifdef RENAME_NOREPLACE
    if (!renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE)) return 0;
    if (errno != EINVAL && errno != ENOSYS) return -1;
#endif
    return rename(from, to);
}

zest_status zest_journal_commit(zest_journal_writer *writer, const zest_options *options,
                                const zest_params *start, zest_error *error) {
    zest_buffer bytes = {0};
    char *fresh = fresh_name(writer->path);
    add_header(&bytes, options, start);
    zest_status status = ZEST_OK;
    if (bytes.failed || !fresh) status = zest_error_memory(error, "a journal's header", bytes.size);
    if (!status && ftruncate(writer->descriptor, 0))
        status = zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be written", writer->path);
    if (!status)
        status = zest_file_write_all(writer->descriptor, bytes.data, bytes.size, writer->path, error);
    if (!status && (fsync(writer->descriptor) || rename_new(fresh, writer->path)))
        status = zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be written", writer->path);
    if (!status) {
        zest_file_sync_folder_of(writer->path);
        writer->size = bytes.size;
        writer->checksum = zest_journal_get32((unsigned char *)bytes.data + bytes.size - ZEST_JOURNAL_CHECK);
    }
    free(fresh);
    zest_buffer_free(&bytes);
    return status;
}

zest_status zest_journal_create(zest_journal_writer *writer, const char *path, const zest_options *options,
                                const zest_params *start, zest_error *error) {
    zest_status status = zest_journal_reserve(writer, path, error);
    return status ? status : zest_journal_commit(writer, options, start, error);
}

zest_status zest_journal_continue(zest_journal_writer *writer, const zest_journal *journal,
                                  zest_error *error) {
    *writer = (zest_journal_writer){
        .descriptor = -1, .path = strdup(journal->path), .size = journal->end, .checksum = journal->checksum};
    zest_status status = writer->path ? open_locked(writer, journal->path, 0, error)
                                      : zest_error_memory(error, journal->path, strlen(journal->path));
    struct stat info;
    if (!status && (fstat(writer->descriptor, &info) || (uint64_t)info.st_size != journal->bytes.size))
        return zest_error_set(error, ZEST_ERROR_FILE, "%s: it changed while it was being read; try again",
                              journal->path);
    if (!status && journal->end < journal->bytes.size && ftruncate(writer->descriptor, (off_t)journal->end))
        return zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: its torn tail cannot be cut off",
                                    journal->path);
    return status;
}

zest_status zest_journal_append(zest_journal_writer *writer, uint64_t step, double lr, const double *losses,
                                size_t count, int has_center, zest_error *error) {
    zest_buffer *record = &writer->record;
    record->size = 0;
    add32(record, (uint32_t)step);
    add32(record, has_center ? ZEST_JOURNAL_HAS_CENTER : 0);
    add_real(record, lr);
    for (size_t i = 0; i < count; i++) add_real(record, losses[i]);
    if (record->failed) return zest_error_memory(error, "a journal record", zest_journal_record_size(count));
    uint32_t checksum = zest_journal_checksum(record->data, record->size, writer->checksum);
    add32(record, checksum);
    if (record->failed) return zest_error_memory(error, "a journal record", zest_journal_record_size(count));
    zest_status status =
        zest_file_write_all(writer->descriptor, record->data, record->size, writer->path, error);
    if (status) { /* remove the half record; if this fails too, the next resume cuts it off */
        (void)!ftruncate(writer->descriptor, (off_t)writer->size);
        return status;
    }
    writer->size += record->size;
    writer->checksum = checksum;
    return zest_clock_now() - writer->synced < sync_every ? ZEST_OK : zest_journal_sync(writer, error);
}

zest_status zest_journal_sync(zest_journal_writer *writer, zest_error *error) {
    writer->synced = zest_clock_now();
    if (fdatasync(writer->descriptor) && errno != EINVAL && errno != EROFS)
        return zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be written to disk", writer->path);
    return ZEST_OK;
}

void zest_journal_finish(zest_journal_writer *writer) {
    if (writer->descriptor >= 0) {
        fdatasync(writer->descriptor);
        close(writer->descriptor);
    }
    free(writer->path);
    zest_buffer_free(&writer->record);
    *writer = (zest_journal_writer){.descriptor = -1};
}

/* ---- Replay: from the starting point and the recorded losses to x at any step ---- */

zest_status zest_journal_recall(zest_journal *journal, uint64_t at, zest_step *step, zest_error *error) {
    uint64_t memory = zest_step_memory(step), first = at > memory ? at - memory : 0;
    zest_status status = ZEST_OK;
    zest_step_forget(step);
    for (uint64_t s = memory ? first : at; s < at && !status; s++) {
        zest_record record;
        status = zest_journal_read(journal, s + 1, &record);
        if (status) return zest_error_set(error, status, "%s", zest_ctx_error(journal->ctx));
        status = zest_step_recall(step, &record, journal->dimension, error);
    }
    return status;
}

zest_status zest_journal_replay(zest_journal *journal, uint64_t step, const zest_step_storage *storage) {
    zest_error *error = zest_ctx_sink(journal->ctx);
    if (step > journal->steps)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "%s: has %llu steps, not %llu", journal->path,
                              (unsigned long long)journal->steps, (unsigned long long)step);
    zest_status status = zest_journal_check_start(journal, storage->params, error);
    if (status) return status;
    zest_step taken;
    status = zest_step_init(&taken, journal->ctx->ops, &journal->options, journal->format, error);
    for (uint64_t s = 1; s <= step && !status; s++) {
        zest_record record;
        zest_tilt_report report;
        status = zest_journal_read(journal, s, &record);
        if (!status) status = zest_step_replay(&taken, &record, storage, &report, error);
    }
    zest_step_free(&taken);
    return status;
}

static zest_status replay_vector(zest_journal *journal, uint64_t step, zest_dtype dtype, void *x, size_t n) {
    zest_tensor tensor = {"x", dtype, 0, n, x, {0}};
    return zest_journal_replay(journal, step, &(zest_step_storage){.params = &(zest_params){&tensor, 1, n}});
}

zest_status zest_journal_replay_f32(zest_journal *journal, uint64_t step, float *x, size_t n) {
    return replay_vector(journal, step, ZEST_DTYPE_F32, x, n);
}

zest_status zest_journal_replay_f64(zest_journal *journal, uint64_t step, double *x, size_t n) {
    return replay_vector(journal, step, ZEST_DTYPE_F64, x, n);
}
