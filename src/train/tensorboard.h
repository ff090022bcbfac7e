/* TensorBoard's event files, written without TensorFlow: `tensorboard --logdir RUN` shows the run.
 *
 * A file is a row of records: u64 length, u32 check of the length, the bytes, u32 check of the bytes, all
 * little-endian. A check is the CRC-32C, rotated and shifted so that a check over checks stays sound. The
 * bytes are a protocol buffer of the message Event: wall_time (field 1, double), step (2, varint), then
 * either file_version (3, text; the first record only) or summary (5), here always one value (field 1) of a
 * tag (1, text) and a float (2). Fields that are 0 are left out, as protocol buffers do. */
#ifndef ZEST_TRAIN_TENSORBOARD_H
#define ZEST_TRAIN_TENSORBOARD_H

#include <stdint.h>

#include "base/memory.h"
#include "base/error.h"

typedef struct zest_tensorboard zest_tensorboard;

/* Makes a new file events.out.tfevents.TIME.HOST in the folder; a resumed run gets a further one, which is
 * how TensorBoard wants it. */
zest_status zest_tensorboard_open(const char *folder, zest_tensorboard **events, zest_error *error);
/* wall_time: seconds since 1970. Cheap: records are kept for about a second before they are written. */
zest_status zest_tensorboard_scalar(zest_tensorboard *events, const char *tag, uint64_t step,
                                    double wall_time, double value, zest_error *error);
zest_status zest_tensorboard_flush(zest_tensorboard *events, zest_error *error);
/* Flushes and frees, whatever happens; accepts NULL. */
zest_status zest_tensorboard_close(zest_tensorboard *events, zest_error *error);
const char *zest_tensorboard_path(const zest_tensorboard *events);

/* ---- The parts, for tests and for those who write elsewhere ---- */

uint32_t zest_tensorboard_crc32c(const void *bytes, size_t size);
/* Append one record. */
void zest_tensorboard_encode_version(zest_buffer *out, double wall_time);
void zest_tensorboard_encode_scalar(zest_buffer *out, const char *tag, uint64_t step, double wall_time,
                                    double value);

#endif
