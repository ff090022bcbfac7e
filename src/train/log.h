/* log.jsonl: the log of a training run, one JSON object a line.
 *
 *   {"kind":"start","time":..,"zest":"..","options":{..},"model":{..},"task":{..},"train":n,"dev":n,"test":n,
 *    "resumed_at":step}                                                     each session begins with one
 *   {"kind":"step","step":n,"loss":x,"lr":x,"ess":x,"spread":x,"slope":x,"curvature":x,"t":x,"scale":x,"norm":x,
 *    "dropped":n,"seconds":s,"tokens":n,"passes":n}
 *   {"kind":"eval","step":n,"part":"dev","loss":x,..,"value":x,"low":x,"high":x,"n":n,"best":true,"seconds":s}
 *   {"kind":"end","reason":"..","step":n,"best_step":n,"dev":{..},"test":{..},"seconds":s,"peak_bytes":n,
 *    "device_peak_bytes":n}
 *
 * Zeroth-order steps have ess, spread and its parts, first-order ones norm; t is that of
 * t=auto, scale of step-length and max-step; evaluations on plain text have perplexity.
 * Numbers have 17 digits, so they come back as they were; one that is not finite is null. The log is for
 * people and their tools: the journal, not the log, is what a run resumes from. */
#ifndef ZEST_TRAIN_LOG_H
#define ZEST_TRAIN_LOG_H

#include <stdint.h>

#include "base/error.h"
#include "base/memory.h"

typedef struct {
    const char *name, *value;
} zest_log_option;

/* A text that is not known may be NULL. */
typedef struct {
    double time; /* seconds since 1970 */
    const char *version;
    const zest_log_option *options;
    size_t option_count;
    struct {
        const char *family, *weights, *compute, *device;
        uint64_t parameters, trained;
    } model;
    struct {
        const char *name, *metric;
        uint64_t classes; /* 0: none */
    } task;
    uint64_t train, dev, test; /* examples */
    int resumed;
    uint64_t resumed_at; /* the step after which a resumed session goes on */
} zest_log_start;

typedef struct {
    uint64_t step;
    double loss;             /* mean of the 2k losses; first order: of the batch */
    double lr;               /* of this step */
    double ess;              /* effective sample size of the tilt weights: of the k pairs; NaN: none */
    double spread;           /* standard deviation of the 2k losses; NaN: none */
    double slope, curvature; /* its parts (zest_tilt_report); NaN: none, or an older log */
    double t, scale;         /* with t=auto; with step-length or max-step (zest_tilt_report); else NaN */
    double norm;             /* of the gradient; NaN: none */
    uint64_t dropped;        /* pairs left out because a loss was not finite */
    double seconds;          /* since the start of the run, over all its sessions */
    uint64_t tokens;         /* of the batch */
    uint64_t passes;         /* of the batch through the model: 2k lanes, or gradients; 0: an older log */
} zest_log_step;

/* A metric that was not computed is NaN and left out of the line. */
typedef struct {
    uint64_t step;
    char part[16]; /* "dev", "test"; "" for an evaluation that was not made */
    double loss, accuracy, f1, em, perplexity;
    double value, low, high; /* by the task's metric, with its 95 % interval */
    uint64_t n;              /* examples */
    int best;                /* the best of its part so far */
    double seconds;
} zest_log_eval;

typedef struct {
    const char *reason;
    uint64_t step, best_step;
    zest_log_eval dev, test; /* at the best step */
    double seconds;
    uint64_t peak_bytes;        /* 0: not known */
    uint64_t device_peak_bytes; /* of a device's memory; 0: none */
} zest_log_end;

/* An evaluation with all numbers unknown. */
zest_log_eval zest_log_eval_none(void);

/* ---- Writing ---- */

typedef struct zest_log_writer zest_log_writer;

/* Before a run is resumed: drops what the log says about steps beyond `step`, and a torn last line. The file
 * is cut, replaced as a whole, or left alone; one that is not there is fine. *seconds (or NULL) is where the
 * run's clock stood. */
zest_status zest_log_continue(const char *path, uint64_t step, double *seconds, zest_error *error);
/* Appends to the file, which is made when it is not there. */
zest_status zest_log_open(const char *path, zest_log_writer **writer, zest_error *error);
/* Steps are kept for about a second before they are written, the others are written at once. */
zest_status zest_log_write_start(zest_log_writer *writer, const zest_log_start *start, zest_error *error);
zest_status zest_log_write_step(zest_log_writer *writer, const zest_log_step *step, zest_error *error);
zest_status zest_log_write_eval(zest_log_writer *writer, const zest_log_eval *eval, zest_error *error);
zest_status zest_log_write_end(zest_log_writer *writer, const zest_log_end *end, zest_error *error);
/* The same, and on disk when it returns. */
zest_status zest_log_sync(zest_log_writer *writer, zest_error *error);
/* Flushes and frees, whatever happens; accepts NULL. */
zest_status zest_log_close(zest_log_writer *writer, zest_error *error);

/* ---- Reading ---- */

/* A whole log. Steps ascend: a session that goes over steps again replaces what was said about them. */
typedef struct {
    zest_log_start *starts; /* one a session */
    zest_log_step *steps;
    zest_log_eval *evals;
    zest_log_end *end; /* NULL: the last session has not ended, or was killed */
    size_t start_count, step_count, eval_count;
    size_t other; /* lines of kinds that this version does not know */
    size_t bad;   /* lines that could not be understood, and were passed over */
    int torn;     /* the last line is not complete */
    void *owned;  /* the texts */
} zest_log;

/* Reads what can be read: torn and strange lines are counted, not refused. A file without a start line is no
 * log: ZEST_ERROR_FORMAT. */
zest_status zest_log_read(const char *path, zest_log *log, zest_error *error);
/* A run has far more steps than other lines: without them a log of millions is read in seconds. */
typedef enum { ZEST_LOG_ALL, ZEST_LOG_WITHOUT_STEPS } zest_log_parts;
zest_status zest_log_read_parts(const char *path, zest_log_parts parts, zest_log *log, zest_error *error);
void zest_log_free(zest_log *log); /* accepts one that is {0} */
/* The value of an option in the last session, or NULL. */
const char *zest_log_find_option(const zest_log *log, const char *name);

/* ---- tensorboard.c ----
 *
 * TensorBoard's event files, written without TensorFlow: `tensorboard --logdir RUN` shows the run.
 *
 * A file is a row of records: u64 length, u32 check of the length, the bytes, u32 check of the bytes, all
 * little-endian. A check is the CRC-32C, rotated and shifted so that a check over checks stays sound. The
 * bytes are a protocol buffer of the message Event: wall_time (field 1, double), step (2, varint), then
 * either file_version (3, text; the first record only) or summary (5), here always one value (field 1) of a
 * tag (1, text) and a float (2). Fields that are 0 are left out, as protocol buffers do. */

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

/* The parts, for tests. */

uint32_t zest_tensorboard_crc32c(const void *bytes, size_t size);
/* Append one record. */
void zest_tensorboard_encode_version(zest_buffer *out, double wall_time);
void zest_tensorboard_encode_scalar(zest_buffer *out, const char *tag, uint64_t step, double wall_time,
                                    double value);

#endif
