/* TensorBoard's event files, written without TensorFlow: `tensorboard --logdir RUN` shows the run.
 *
 * A file is a row of records: u64 length, u32 check of the length, the bytes, u32 check of the bytes, all
 * little-endian. A check is the CRC-32C, rotated and shifted so that a check over checks stays sound. The
 * bytes are a protocol buffer of the message Event: wall_time (field 1, double), step (2, varint), then
 * either file_version (3, text; the first record only) or summary (5), here always one value (field 1) of a
 * tag (1, text) and a float (2). Fields that are 0 are left out, as protocol buffers do. */
#ifndef ZEST_RUN_EVENTS_H
#define ZEST_RUN_EVENTS_H

#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

typedef struct zest_events zest_events;

/* Makes a new file events.out.tfevents.TIME.HOST in the folder; a resumed run gets a further one, which is
 * how TensorBoard wants it. */
zest_status zest_events_open(const char *folder, zest_events **events, zest_error *error);
/* wall_time: seconds since 1970. Cheap: records are kept for about a second before they are written. */
zest_status zest_events_scalar(zest_events *events, const char *tag, uint64_t step, double wall_time,
                               double value, zest_error *error);
zest_status zest_events_flush(zest_events *events, zest_error *error);
/* Flushes and frees, whatever happens; accepts NULL. */
zest_status zest_events_close(zest_events *events, zest_error *error);
const char *zest_events_path(const zest_events *events);

/* ---- The parts, for tests and for those who write elsewhere ---- */

uint32_t zest_events_crc32c(const void *bytes, size_t size);
/* Append one record. */
void zest_events_encode_version(zest_buffer *out, double wall_time);
void zest_events_encode_scalar(zest_buffer *out, const char *tag, uint64_t step, double wall_time,
                               double value);

#endif
