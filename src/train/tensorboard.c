/* TensorBoard event files: see log.h. */
#include "train/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

enum { PENDING_MOST = 1 << 16, SAME_SECOND = 1000 };
static const double PENDING_SECONDS = 1;

struct zest_tensorboard {
    int descriptor;
    char *path;
    zest_buffer pending;
    double flushed; /* when, by zest_clock_now */
};

/* ---- Records ---- */

/* Castagnoli's polynomial, reflected; half a byte at a time is fast enough for records of fifty bytes. */
uint32_t zest_tensorboard_crc32c(const void *bytes, size_t size) {
    static const uint32_t table[16] = {0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
                                       0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                       0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};
    const unsigned char *next = bytes;
    uint32_t crc = 0xffffffff;
    while (size--) {
        crc ^= *next++;
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

static void add_little_endian(zest_buffer *out, uint64_t value, int bytes) {
    unsigned char encoded[8];
    for (int i = 0; i < bytes; i++) encoded[i] = (unsigned char)(value >> 8 * i);
    zest_buffer_add(out, encoded, (size_t)bytes);
}

static void add_check(zest_buffer *out, const void *bytes, size_t size) {
    uint32_t const crc = zest_tensorboard_crc32c(bytes, size);
    add_little_endian(out, (crc >> 15 | crc << 17) + 0xa282ead8u, 4);
}

static void add_record(zest_buffer *out, const zest_buffer *event) {
    unsigned char length[8];
    out->failed |= event->failed;
    if (out->failed) return;
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)((uint64_t)event->size >> 8 * i);
    zest_buffer_add(out, length, sizeof length);
    add_check(out, length, sizeof length);
    zest_buffer_add(out, event->data, event->size);
    add_check(out, event->data, event->size);
}

/* ---- Messages ---- */

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

static void add_varint(zest_buffer *out, uint64_t value) {
    unsigned char encoded[10];
    size_t used = 0;
    for (; value >= 128; value >>= 7) encoded[used++] = (unsigned char)(value | 128);
    encoded[used++] = (unsigned char)value;
    zest_buffer_add(out, encoded, used);
}

static void add_key(zest_buffer *out, unsigned field, unsigned wire) { add_varint(out, field << 3 | wire); }

static void add_bytes(zest_buffer *out, unsigned field, const void *bytes, size_t size) {
    add_key(out, field, WIRE_BYTES);
    add_varint(out, size);
    zest_buffer_add(out, bytes, size);
}

static void add_message(zest_buffer *out, unsigned field, zest_buffer *message) {
    out->failed |= message->failed;
    if (!out->failed) add_bytes(out, field, message->data, message->size);
    zest_buffer_free(message);
}

static void add_wall_time(zest_buffer *out, double wall_time) {
    uint64_t bits;
    memcpy(&bits, &wall_time, sizeof bits);
    if (!bits) return;
    add_key(out, 1, WIRE_64);
    add_little_endian(out, bits, 8);
}

void zest_tensorboard_encode_version(zest_buffer *out, double wall_time) {
    static const char version[] = "brain.Event:2";
    zest_buffer event = {0};
    add_wall_time(&event, wall_time);
    add_bytes(&event, 3, version, sizeof version - 1);
    add_record(out, &event);
    zest_buffer_free(&event);
}

void zest_tensorboard_encode_scalar(zest_buffer *out, const char *tag, uint64_t step, double wall_time,
                                    double value) {
    zest_buffer event = {0}, summary = {0}, entry = {0};
    float const narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    add_bytes(&entry, 1, tag, strlen(tag));
    add_key(&entry, 2, WIRE_32); /* one of several kinds of value: written even when it is 0 */
    add_little_endian(&entry, bits, 4);
    add_message(&summary, 1, &entry);
    add_wall_time(&event, wall_time);
    if (step) add_key(&event, 2, WIRE_VARINT), add_varint(&event, step);
    add_message(&event, 5, &summary);
    add_record(out, &event);
    zest_buffer_free(&event);
}

/* ---- Files ---- */

/* A file that was not there before: two sessions may begin within a second. TensorBoard reads files in the
 * order of their names, so a later one gets a longer name. */
static int create(const char *folder, const char *host, long long seconds, char **path) {
    size_t const size = strlen(folder) + strlen(host) + 64;
    *path = malloc(size);
    for (int i = 0; *path && i < SAME_SECOND; i++) {
        int used = snprintf(*path, size, "%s/events.out.tfevents.%010lld.%s", folder, seconds, host);
        if (i && used > 0) snprintf(*path + used, size - (size_t)used, ".%03d", i);
        int descriptor = open(*path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
        if (descriptor >= 0 || errno != EEXIST) return descriptor;
    }
    return -1;
}

zest_status zest_tensorboard_open(const char *folder, zest_tensorboard **events, zest_error *error) {
    char host[256] = "";
    struct timespec now = {0};
    *events = calloc(1, sizeof **events);
    if (!*events) return zest_error_memory(error, "an event file", sizeof **events);
    if (gethostname(host, sizeof host - 1) || !*host || strchr(host, '/')) strcpy(host, "localhost");
    clock_gettime(CLOCK_REALTIME, &now);
    (*events)->descriptor = create(folder, host, (long long)now.tv_sec, &(*events)->path);
    if ((*events)->descriptor < 0) {
        zest_status const status =
            (*events)->path ? zest_error_set_errno(error, ZEST_ERROR_FILE,
                                                   "%s: no event file can be made in this folder", folder)
                            : zest_error_memory(error, "the name of an event file", strlen(folder));
        free((*events)->path);
        free(*events);
        *events = NULL;
        return status;
    }
    zest_tensorboard_encode_version(&(*events)->pending, (double)now.tv_sec + 1e-9 * (double)now.tv_nsec);
    zest_status const status = zest_tensorboard_flush(*events, error);
    if (status) zest_tensorboard_close(*events, NULL), *events = NULL;
    return status;
}

zest_status zest_tensorboard_scalar(zest_tensorboard *events, const char *tag, uint64_t step,
                                    double wall_time, double value, zest_error *error) {
    zest_tensorboard_encode_scalar(&events->pending, tag, step, wall_time, value);
    if (events->pending.failed || events->pending.size >= PENDING_MOST ||
        zest_clock_now() - events->flushed >= PENDING_SECONDS)
        return zest_tensorboard_flush(events, error);
    return ZEST_OK;
}

zest_status zest_tensorboard_flush(zest_tensorboard *events, zest_error *error) {
    zest_status status = ZEST_OK;
    if (events->pending.failed)
        status = zest_error_memory(error, events->path, events->pending.size);
    else if (events->pending.size)
        status = zest_file_write_all(events->descriptor, events->pending.data, events->pending.size,
                                     events->path, error);
    events->pending.size = 0; /* once is enough: half a record must not be written again */
    events->pending.failed = 0;
    events->flushed = zest_clock_now();
    return status;
}

zest_status zest_tensorboard_close(zest_tensorboard *events, zest_error *error) {
    if (!events) return ZEST_OK;
    zest_status status = zest_tensorboard_flush(events, error);
    if (close(events->descriptor) && !status)
        status = zest_error_set_errno(error, ZEST_ERROR_FILE, "%s: cannot be written", events->path);
    zest_buffer_free(&events->pending);
    free(events->path);
    free(events);
    return status;
}

const char *zest_tensorboard_path(const zest_tensorboard *events) { return events->path; }
