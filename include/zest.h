/* zest: zeroth-order optimisation of the average or the tilted loss around x (MeZO, ZEST).
 *
 * This header is the whole interface for functions of a vector, and its manual. It compiles as C11 and as C++.
 * zest_lm.h goes on with language models, zest_theory.h with the theory of the tilt.
 *
 *     step:  2k losses f(x ± rho·v_i)  ->  tilt  ->  k coefficients  ->  x += sum c_i·v_i  ->  journal record
 *
 * Words of its own, used throughout:
 *   direction  v(seed): d random numbers that are never stored, only computed again.
 *   lane       one perturbed copy of x, written as (direction, scale): x + scale·v.
 *   tilt       the rule that turns 2k losses into k coefficients. t = 0 is MeZO, t > 0 is ZEST.
 *   journal    an append-only file of a run's options and losses, from which it can be rebuilt bit for bit.
 *   run        one optimisation from start to stop, over all its sessions.
 *   replay     computing x at any step of a run from its start and its journal, without evaluating a loss.
 *
 * A ladder of four rungs; stop climbing where you have what you need:
 *   1. zest_minimize_f32/f64        one call
 *   2. zest_tuner                   options by name, stop criteria, callbacks, journal, resume
 *   3. zest_tuner_ask / _tell       you own the loop and evaluate the lanes wherever you like
 *   4. zest_direction, zest_tilt    the parts, for a method of your own
 *
 * Promises: the library never prints, never exits, keeps no process-wide state and draws no unseeded random
 * number. Evaluation never writes x. The same options, seed and losses give the same bits for any number of
 * threads and on any CPU that zest supports (fp32 and fp64 arithmetic of IEEE 754; no libm function decides a
 * bit of x). What is not promised: that two versions of zest with different ZEST_FORMAT give the same x.
 *
 * Threads: one zest_ctx, and everything made from it, belongs to one thread at a time; contexts are
 * independent. zest_lanes_read_* and all functions on const objects may be called from many threads at once.
 * Every *_free function accepts NULL.
 */
#ifndef ZEST_H
#define ZEST_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define ZEST_API
#else
#define ZEST_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define ZEST_VERSION "0.2.0"
/* Of noise, tilt, update and journal: raised whenever the same run would give other bits.
 * 1: release 0.1.0.  2: the tilt keeps its digits when losses are large (optim/tilt.c).  3: with t=auto, step-length,
 * max-step or momentum; journals of other runs are still written in format 2.
 * Journals from ZEST_FORMAT_OLDEST on are read, replayed and continued by the rules of their own format. */
#define ZEST_FORMAT 3
#define ZEST_FORMAT_OLDEST 1

ZEST_API const char *zest_version(void); /* of the library that is linked, e.g. "0.1.0" */

/* ---- Status ------------------------------------------------------------------------------------------- */

typedef enum {
    ZEST_OK = 0,
    ZEST_ERROR_ARGUMENT,  /* a value is out of range, unknown or missing */
    ZEST_ERROR_MEMORY,    /* an allocation failed */
    ZEST_ERROR_FILE,      /* a file could not be opened, read or written */
    ZEST_ERROR_FORMAT,    /* a file is damaged, or does not belong to this run */
    ZEST_ERROR_STATE,     /* calls in the wrong order */
    ZEST_ERROR_OBJECTIVE, /* the objective gave up, or answered nothing usable for too long */
    ZEST_ERROR_DEVICE, /* a GPU, its driver or its libraries failed; GPU memory that ran out is ZEST_ERROR_MEMORY */
} zest_status;

ZEST_API const char *zest_status_name(zest_status status); /* "ok", "bad argument", ... */

/* ---- Context: keeps the message of the last error ----------------------------------------------------- */

typedef struct zest_ctx zest_ctx;

/* NULL when memory is short or when the environment variable ZEST_CPU names no known instruction set
 * (it may be amx, avx512bf16, avx512, avx2 or plain, to use no more than that; only bf16 arithmetic
 * depends on it). */
ZEST_API zest_ctx *zest_ctx_new(void);
ZEST_API void zest_ctx_free(zest_ctx *ctx);
ZEST_API const char *zest_ctx_error(const zest_ctx *ctx); /* what was wrong, where, what to do; "" at first */
ZEST_API zest_status zest_ctx_status(const zest_ctx *ctx); /* of that error: for functions that return NULL */
ZEST_API const char *zest_ctx_cpu(const zest_ctx *ctx);    /* instruction set in use: "amx" ... "plain" */

/* ---- Rung 4: directions ------------------------------------------------------------------------------- */

typedef enum {
    ZEST_GAUSSIAN,   /* N(0, I) */
    ZEST_SPHERE,     /* uniform on the sphere of radius sqrt(d) */
    ZEST_BALL,       /* uniform in the ball of radius sqrt(d) */
    ZEST_RADEMACHER, /* independent signs, +1 or -1 */
} zest_distribution;

/* v_i = gain·z_i, where z is made from (seed, i) alone: standard normals, or signs. The gain is 1, or what
 * puts the whole vector (all d elements, whatever tensors they belong to) on the sphere or into the ball. */
typedef struct {
    uint64_t seed;
    uint64_t dimension; /* d */
    double gain;
    zest_distribution distribution;
} zest_direction;

/* The seed of a direction of a run. Injective in (step, index): no two directions of a run share a seed as
 * long as step < 2^40 and index < 2^24. */
ZEST_API uint64_t zest_seed(uint64_t run, uint64_t step, uint64_t index);

/* Fills *direction. Sphere and ball take one sweep over all d elements to find the norm; the others take
 * none. */
ZEST_API zest_status zest_direction_init(zest_ctx *ctx, zest_direction *direction,
                                         zest_distribution distribution, uint64_t seed, uint64_t dimension);

/* Elements first .. first+count-1 of v. Any slice gives the same bits as the whole. */
ZEST_API zest_status zest_direction_read(zest_ctx *ctx, const zest_direction *direction, uint64_t first,
                                         size_t count, float *out);

/* ---- Rung 4: the tilt --------------------------------------------------------------------------------- */

typedef enum {
    ZEST_NAIVE,          /* ratio of sample means, bias O(1/k) */
    ZEST_BIAS_CORRECTED, /* its first-order correction, bias O(1/k^2) */
} zest_estimator;

typedef struct {
    zest_estimator estimator;
    double t;          /* tilt, >= 0; 0 is MeZO with the mean over k */
    double rho;        /* scale of the perturbation, > 0 */
    size_t k;          /* pairs in the numerator, >= 1 */
    size_t ball_pairs; /* 0: numerator and denominator share the k pairs; else extra pairs drawn in the ball
                        * for the denominator (the exact ball form of Theorem 3.1) */
    int format;        /* 0: ZEST_FORMAT; else the format of the journal whose steps are taken again */
} zest_tilt_options;

typedef struct {
    double mean;   /* mean of the finite numerator losses: estimates E f(x + rho v) */
    double tilted; /* (1/t) log mean exp(t f): estimates F_t(x); the mean when t = 0 */
    double lowest, highest;
    double spread; /* standard deviation of those losses */
    double slope;  /* its two parts, of pairs with the losses b_i +- a_i: the root mean square of the a_i, */
    double curvature;  /* and the standard deviation of the b_i */
    double effective;  /* effective sample size, 1 / sum b_i^2, from 1 (one pair decides) to k (all equal) */
    double saturation; /* sum |w_i| of the naive weights: 0 for equal losses, 1 when the step cannot grow
                          further */
    size_t dropped;    /* pairs with a loss that is not finite; they do not contribute */
    size_t flipped;    /* bias-corrected weights whose sign is opposite to the naive one */
    double t;          /* the tilt of the step: t, or what t=auto chose */
    double scale;      /* what step-length and max-step multiplied the coefficients with; 1 without them */
} zest_tilt_report;

/* losses: f(x+rho v_0), f(x-rho v_0), f(x+rho v_1), ... for the k pairs, then likewise for the ball pairs.
 * coefficients: k numbers with gradient estimate = sum coefficients[i]·v_i. report may be NULL.
 * Never overflows, whatever t·f. When every pair is dropped the coefficients are 0 and dropped equals k. */
ZEST_API zest_status zest_tilt(zest_ctx *ctx, const zest_tilt_options *options, const double *losses,
                               double *coefficients, zest_tilt_report *report);

/* ---- Options: one table ------------------------------------------------------------------------------- */

typedef struct {
    const char *name;     /* "rho" */
    const char *kind;     /* "real", "count", "seed", "choice", "text", "list", "flag" */
    const char *fallback; /* default, as text */
    const char *help;
    char values[96]; /* range or choices, in words; "" when anything goes */
} zest_option;

/* The i-th option that a tuner takes, 0 <= i; returns 0 past the last. */
ZEST_API int zest_tuner_option(size_t i, zest_option *option);

/* ---- Rungs 2 and 3: the tuner ------------------------------------------------------------------------- */

typedef struct zest_tuner zest_tuner;

/* The lanes of one step. Valid until the next call on the tuner. */
typedef struct zest_lanes zest_lanes;

ZEST_API size_t zest_lanes_count(const zest_lanes *lanes);
ZEST_API size_t zest_lanes_dimension(const zest_lanes *lanes);
/* Elements first .. first+count-1 of lane i: x + scale·v, made on the fly. Thread-safe. The f32 form is for
 * tuners over float, the f64 form for tuners over double. */
ZEST_API zest_status zest_lanes_read_f32(const zest_lanes *lanes, size_t i, size_t first, size_t count,
                                         float *out);
ZEST_API zest_status zest_lanes_read_f64(const zest_lanes *lanes, size_t i, size_t first, size_t count,
                                         double *out);
/* What lane i is. Either pointer may be NULL. Scale 0 is x itself. */
ZEST_API zest_status zest_lanes_describe(const zest_lanes *lanes, size_t i, zest_direction *direction,
                                         double *scale);

/* Objectives. A loss that is not finite drops its pair. The vector forms are called for one point at a time,
 * in one thread, and cost the tuner one further vector; the lanes form gets all points of a step at once, may
 * evaluate them in parallel and costs nothing beside x. It returns 0, or anything else to end the run with
 * ZEST_ERROR_OBJECTIVE; the step in flight then leaves no trace. */
typedef double (*zest_objective_f32)(const float *x, size_t n, void *user);
typedef double (*zest_objective_f64)(const double *x, size_t n, void *user);
typedef int (*zest_objective_lanes)(const zest_lanes *lanes, double *losses, void *user);

/* x (n elements, the caller's memory) is the starting point; every step updates it in place. */
ZEST_API zest_tuner *zest_tuner_new_f32(zest_ctx *ctx, float *x, size_t n);
ZEST_API zest_tuner *zest_tuner_new_f64(zest_ctx *ctx, double *x, size_t n);
ZEST_API void zest_tuner_free(zest_tuner *tuner);

/* Options by name; see zest_tuner_option, or `zest minimize --help`. All may be set before the first step;
 * lr, the stop criteria and threads at any time. */
ZEST_API zest_status zest_tuner_set(zest_tuner *tuner, const char *name, const char *value);
/* "name=value name=value ...", or lines "name = value". Those before one that is refused stay set. */
ZEST_API zest_status zest_tuner_set_all(zest_tuner *tuner, const char *text);
ZEST_API zest_status zest_tuner_set_number(zest_tuner *tuner, const char *name, double value);
ZEST_API const char *zest_tuner_get(const zest_tuner *tuner, const char *name); /* NULL: no such option */

ZEST_API zest_status zest_tuner_objective_f32(zest_tuner *tuner, zest_objective_f32 f, void *user);
ZEST_API zest_status zest_tuner_objective_f64(zest_tuner *tuner, zest_objective_f64 f, void *user);
ZEST_API zest_status zest_tuner_objective_lanes(zest_tuner *tuner, zest_objective_lanes f, void *user);

/* Keeps a journal at path. start: writes a new one (a file that exists is refused). resume: x must hold the
 * starting point of the journal's run; takes the options from it, brings x to its last step and goes on from
 * there. */
ZEST_API zest_status zest_tuner_start_journal(zest_tuner *tuner, const char *path);
ZEST_API zest_status zest_tuner_resume_journal(zest_tuner *tuner, const char *path);

typedef struct {
    uint64_t step;        /* steps done, this one included */
    uint64_t evaluations; /* losses asked for so far */
    double lr;
    double loss; /* f(x) before the step if eval-every asked for it, else tilt.mean */
    zest_tilt_report tilt;
} zest_step_report;

/* One step: ask, evaluate, tell. report may be NULL. */
ZEST_API zest_status zest_tuner_step(zest_tuner *tuner, zest_step_report *report);

/* The same in two halves. losses[i] is the loss of lane i. */
ZEST_API zest_status zest_tuner_ask(zest_tuner *tuner, const zest_lanes **lanes);
ZEST_API zest_status zest_tuner_tell(zest_tuner *tuner, const double *losses, zest_step_report *report);

typedef enum {
    ZEST_STOP_NONE = 0,
    ZEST_STOP_STEPS,
    ZEST_STOP_EVALUATIONS,
    ZEST_STOP_TIME,
    ZEST_STOP_TARGET,
    ZEST_STOP_STAGNATION,
    ZEST_STOP_CALLBACK, /* on_step returned non-zero, or zest_tuner_stop was called */
} zest_stop;

ZEST_API const char *zest_stop_name(zest_stop stop);

typedef struct {
    zest_stop stop;
    uint64_t steps, evaluations;
    uint64_t dropped_pairs; /* over the whole run */
    double loss;            /* f at the final x, unperturbed */
    double best;            /* smallest step loss of the run, and when it was seen */
    uint64_t best_step;
    double seconds;
} zest_result;

/* Steps until a stop criterion holds, then evaluates f at the final x once. result may be NULL. */
ZEST_API zest_status zest_tuner_run(zest_tuner *tuner, zest_result *result);
/* Called after every step of run; non-zero stops. */
ZEST_API void zest_tuner_on_step(zest_tuner *tuner, int (*on_step)(const zest_step_report *, void *),
                                 void *user);
/* Asks run to end after the step in flight. May be called from a signal handler, another thread, or a
 * callback. */
ZEST_API void zest_tuner_stop(zest_tuner *tuner);

/* ---- Rung 1: one call --------------------------------------------------------------------------------- */

/* options: "name=value name=value ...", or NULL for the defaults. */
ZEST_API zest_status zest_minimize_f32(zest_ctx *ctx, zest_objective_f32 f, void *user, float *x, size_t n,
                                       const char *options, zest_result *result);
ZEST_API zest_status zest_minimize_f64(zest_ctx *ctx, zest_objective_f64 f, void *user, double *x, size_t n,
                                       const char *options, zest_result *result);

/* ---- Journal: read and replay ------------------------------------------------------------------------- */

typedef struct zest_journal zest_journal;

/* Opens for reading. A torn tail (a record cut short by a kill) is left out and reported by
 * zest_journal_torn; a damaged header or a damaged record with good ones behind it is an error that names the
 * place. */
ZEST_API zest_journal *zest_journal_open(zest_ctx *ctx, const char *path);
ZEST_API void zest_journal_close(zest_journal *journal);
ZEST_API uint64_t zest_journal_steps(const zest_journal *journal);
ZEST_API uint64_t zest_journal_torn(const zest_journal *journal); /* bytes after the last good record */
ZEST_API const char *zest_journal_option(const zest_journal *journal,
                                         const char *name); /* NULL: not recorded */
ZEST_API uint64_t zest_journal_dimension(const zest_journal *journal);
ZEST_API int zest_journal_is_f64(const zest_journal *journal);

typedef struct {
    uint64_t step; /* 1 for the first */
    double lr;
    size_t count;         /* losses in this record: 2k, then the ball pairs', then f(x) if it was evaluated */
    const double *losses; /* valid until the next read or close */
    int has_center;       /* the last loss is f(x) */
} zest_record;

/* step: 1 .. zest_journal_steps. */
ZEST_API zest_status zest_journal_read(zest_journal *journal, uint64_t step, zest_record *record);
/* Takes x from the start of the run to the state after `step` steps. x must hold the run's starting point:
 * its fingerprint is compared with the journal's. */
ZEST_API zest_status zest_journal_replay_f32(zest_journal *journal, uint64_t step, float *x, size_t n);
ZEST_API zest_status zest_journal_replay_f64(zest_journal *journal, uint64_t step, double *x, size_t n);

#ifdef __cplusplus
}
#endif
#endif
