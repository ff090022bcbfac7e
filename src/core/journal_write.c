/* Writing the journal. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "core/journal.h"
#include "core/journal_format.h"

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

static void header(zest_buffer *out, const zest_options *options, const zest_params *start) {
    zest_buffer text = {0};
    zest_buffer_format(&text, "fingerprint=%016llx\n", (unsigned long long)zest_params_fingerprint(start));
    zest_buffer_format(&text, "dimension=%llu\n", (unsigned long long)start->dimension);
    for (size_t i = 0; i < start->count; i++)
        zest_buffer_format(&text, "tensor=%s %llu %s\n", zest_dtype_name(start->tensors[i].dtype),
                           (unsigned long long)start->tensors[i].count, start->tensors[i].name);
    zest_options_print(options, ZEST_FOR_TUNER, &text);
    zest_buffer_add(out, ZEST_JOURNAL_MAGIC, ZEST_JOURNAL_MAGIC_SIZE);
    add32(out, ZEST_FORMAT);
    add32(out, (uint32_t)text.size);
    zest_buffer_add(out, text.data, text.size);
    if (!text.failed && !out->failed) add32(out, zest_journal_checksum(out->data, out->size, 0));
    out->failed |= text.failed;
    zest_buffer_free(&text);
}

/* Opens for appending and takes the lock that keeps a second process out. */
static zest_status open_locked(zest_journal_writer *writer, const char *path, int flags, zest_error *error) {
    writer->descriptor = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | flags, 0666);
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

/* ---- A new journal ---- */

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
    zest_status status = writer->path && fresh ? open_locked(writer, fresh, O_CREAT | O_NOFOLLOW, error)
                                               : zest_error_memory(error, path, strlen(path));
    if (!status && access(path, F_OK) == 0) {
        status = zest_error_set(error, ZEST_ERROR_FILE,
                                "%s: there is a journal already; resume it, or choose another place", path);
        if (has_name(writer->descriptor, fresh)) unlink(fresh);
    } else if (!status && !has_name(writer->descriptor, fresh)) {
        status = zest_error_set(error, ZEST_ERROR_FILE, "%s: another process is starting this run", path);
    }
    free(fresh);
    return status;
}

zest_status zest_journal_commit(zest_journal_writer *writer, const zest_options *options,
                                const zest_params *start, zest_error *error) {
    zest_buffer bytes = {0};
    char *fresh = fresh_name(writer->path);
    header(&bytes, options, start);
    zest_status status = ZEST_OK;
    if (bytes.failed || !fresh) status = zest_error_memory(error, "a journal's header", bytes.size);
    if (!status && ftruncate(writer->descriptor, 0))
        status = zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be written", writer->path);
    if (!status)
        status = zest_file_write_all(writer->descriptor, bytes.data, bytes.size, writer->path, error);
    if (!status && (fsync(writer->descriptor) || rename(fresh, writer->path)))
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

/* ---- Going on ---- */

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
    if (status) { /* leave no half record behind; if this fails too, the next resume cuts it off */
        (void)!ftruncate(writer->descriptor, (off_t)writer->size);
        return status;
    }
    writer->size += record->size;
    writer->checksum = checksum;
    double now = zest_clock_now();
    if (now - writer->synced < sync_every) return ZEST_OK;
    writer->synced = now;
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
