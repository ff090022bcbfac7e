/* The operations of a forward pass over lanes, as tables of functions. Each backend fills one; the plain C one
 * (cpu/ops_plain.c) is the reference that every other is tested against.
 *
 * The tokens of all sequences of a batch are packed one after the other, without padding: activations are
 * (tokens, width), row-major. Every row of a result depends on its own row (attention: its own sequence)
 * alone and is summed in one fixed order, so a result does not depend on the other sequences, the number of
 * threads or the other lanes, bit for bit.
 *
 * Weights are never perturbed in memory. An operation gets the weight as stored, the direction and the scale,
 * and computes w + c z (c = scale·gain, rounded to float; z from the element's number) as it reads the
 * weights. A pair of lanes, +c and -c, shares one draw of noise.
 *
 * A table whose `device` is not NULL works in a device's memory (kernels/device.h): every pointer of a job is
 * one of the device's, operations are queued and run in order. Results there agree with the reference within
 * a tolerance, not bit for bit; noise and update stay bit-identical.
 *
 * Activations are void *, because their dtype is the table's: fp32 on the CPU and on a device that computes in
 * fp32, else bf16 or fp16 (the device's element_size says how many bytes). Strides count elements. What is
 * fp32 everywhere is float *. */
#ifndef ZEST_KERNELS_OPS_H
#define ZEST_KERNELS_OPS_H

#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"
#include "io/tensor.h"
#include "rng/noise.h"

/* A stored tensor of one or two dimensions: F32, F16 or BF16. */
typedef struct {
    const void *data; /* NULL: absent (no bias, say) */
    zest_dtype dtype;
    size_t rows, columns; /* a vector has one row */
    uint64_t first;       /* noise number of element (0,0); the others follow row-major */
    int frozen;           /* never perturbed */
    zest_noise_law law;   /* of the noise of the tensor that it is, or is a part of */
    /* 0: elements of dtype. Else a zest_gguf_type that zest_quantized_takes: rows of its blocks, outputs × inputs,
     * never perturbed, on the CPU alone. */
    int block_type;
} zest_weight;

/* Bytes of so many elements, which are whole blocks. */
size_t zest_weight_bytes(const zest_weight *weight, size_t elements);
/* Whether linear and gather take weights in blocks of this zest_gguf_type. */
int zest_quantized_takes(int type);

/* What the lanes of one call share: a direction and up to two scales. Lane l sees w + scale[l] z. */
typedef struct zest_perturbation {
    uint64_t seed;
    int signs;      /* z are signs instead of normals */
    float scale[2]; /* gain included; a pair has scale[1] = -scale[0]; 0: the weights as they are */
    int lanes;      /* 1 or 2 */
    /* Devices only: further pairs of the same call, with z of the same distribution and no scale of 0. Lane l of
     * the call belongs to pair l/2; lanes are equally far apart. */
    const struct zest_perturbation *more;
    size_t more_count; /* at most ZEST_PAIRS_MORE */
} zest_perturbation;
enum { ZEST_PAIRS_MORE = 7 };

static inline size_t zest_perturbation_lanes(const zest_perturbation *p) {
    return (size_t)p->lanes * (1 + p->more_count);
}

typedef enum {
    ZEST_ACT_NONE,
    ZEST_ACT_RELU,
    ZEST_ACT_GELU /* erf */,
    ZEST_ACT_GELU_TANH,
    ZEST_ACT_SILU
} zest_activation;
typedef enum {
    ZEST_COMPUTE_F32,
    ZEST_COMPUTE_BF16, /* operands rounded to bf16, sums in fp32 */
    ZEST_COMPUTE_F16   /* the same with fp16; devices only */
} zest_compute;

/* out = (x - mean)/sqrt(var + eps) g + b, or with rms x/sqrt(mean x^2 + eps) g; g and b perturbed. */
typedef struct {
    zest_weight gain, bias;
    int rms;
    float epsilon;
    zest_perturbation perturbation;
    const void *x[2]; /* (rows, width), or (rows, heads, width) with gaps between rows */
    void *out[2];     /* the same */
    size_t rows, width;
    /* 0: rows without gaps. Else a row has this many vectors side by side, each with a norm of its own and all
     * with the same gain and bias (queries or keys), and strides lead to the next row. */
    size_t heads, x_stride, out_stride;
    float gain_offset; /* the gain is this more than what is stored (and perturbed) */
} zest_norm;

/* How many vectors get a norm, and where vector i begins. */
static inline size_t zest_norm_vectors(size_t rows, size_t heads) { return heads ? rows * heads : rows; }
static inline size_t zest_norm_offset(size_t i, size_t heads, size_t stride, size_t width) {
    return heads ? i / heads * stride + i % heads * width : i * width;
}

/* Further matrices for the same inputs, whose outputs follow those of the first; with `transposed` matrices for
 * further inputs, which follow those of the first. Devices only. */
typedef struct {
    zest_weight weight, bias;
} zest_linear_part;

/* out[l] = act(a[l] W_l^T + b_l) (+ residual[l]) for every lane l; W is outputs × inputs, or inputs × outputs
 * when `transposed` (GPT-2). act is applied before the residual. residual may be NULL, or equal to out for
 * addition in place. `a_transposed`: a is stored as (inputs, rows) with a_stride from an input to the next;
 * so a product of two matrices that share their rows (a gradient) needs no copy. */
typedef struct {
    zest_weight weight, bias;
    int transposed;
    zest_perturbation perturbation;
    const void *a[2]; /* (rows, inputs) */
    size_t rows, a_stride;
    int a_transposed;
    void *out[2]; /* (rows, outputs) */
    size_t out_stride;
    const void *residual[2]; /* (rows, outputs) */
    size_t residual_stride;
    zest_activation activation;
    zest_compute compute;
    const zest_linear_part *more;
    size_t more_count; /* at most ZEST_LINEAR_MORE */
    int fp32_output;   /* a device's results and residuals are fp32 whatever the compute */
    /* Devices only: a norm that is applied to the results in place; their rows have no gaps then. Its x, out, rows
     * and perturbation are ignored. With a residual, without an activation. */
    const zest_norm *norm;
} zest_linear;
enum { ZEST_LINEAR_MORE = 2 };

/* An embedding table, and which of its rows the result takes. */
typedef struct {
    zest_weight table;
    const uint32_t *ids;
    /* Devices only, and not of a job's first table: ids are all from first_row .. first_row + row_count-1;
     * row_count 0: not known. */
    size_t first_row, row_count;
} zest_gather_part;

/* out[l][i] (+)= row ids[i] of the first table, then += those of the further ones, all perturbed. The tables
 * have the same width; only those rows are touched. */
typedef struct {
    const zest_gather_part *parts;
    size_t part_count; /* 1 .. ZEST_GATHER_PARTS */
    zest_perturbation perturbation;
    void *out[2]; /* (count, columns of the tables) */
    size_t count;
    int add;
} zest_gather;
enum { ZEST_GATHER_PARTS = 3 };

/* Whether a device perturbs these rows of a further table once, as floats, instead of for every token. */
static inline int zest_gather_perturbs_once(size_t row_count, size_t count) {
    return row_count && row_count <= count / 2;
}

/* Softmax attention within each sequence. Query row i of a sequence stands at key past + i and sees keys 0 .. past+i
 * (causal) or all. past = keys - queries; where every query sees all keys there may be more queries than keys. With a
 * window it sees of these only the keys less than `window` away from its own. Rows of queries, keys and values have the
 * given strides; heads side by side, group = heads/kv_heads queries share a key head. A soft cap makes cap tanh(s/cap)
 * of a score s. */
typedef struct {
    const void *q;     /* (rows, heads, head_dim) */
    const void *k, *v; /* (keys, kv_heads, head_dim) */
    void *out;         /* (rows, heads, head_dim) */
    size_t q_stride, kv_stride, out_stride;
    const uint32_t *q_start, *kv_start; /* sequences+1 offsets each: rows of the packed run */
    size_t sequences, heads, kv_heads, head_dim;
    int causal;
    float scale;
    zest_compute compute;
    const uint32_t *kv_end; /* of each sequence, or NULL: its keys end where the next one's begin */
    /* Devices only. */
    size_t max_queries;                      /* queries of the longest sequence */
    size_t lanes, q_lane, kv_lane, out_lane; /* lanes at once, and how far apart they are */
    size_t rows, kv_rows;                    /* that q, and k and v, have in a lane; 0: not known */
    size_t window;                           /* 0: none */
    float soft_cap;                          /* of the scaled scores; 0: none */
} zest_attention;

/* The keys that a query sees which stands at key `at`, out of `keys`: from the first to before the end. */
static inline size_t zest_attention_first_key(const zest_attention *job, size_t at) {
    return job->window && at >= job->window ? at - job->window + 1 : 0;
}
static inline size_t zest_attention_end_key(const zest_attention *job, size_t at, size_t keys) {
    if (job->causal) return at + 1;
    return job->window && at + job->window < keys ? at + job->window : keys;
}

/* Keys of a sequence, where the host can read the tables. */
static inline size_t zest_attention_keys(const zest_attention *job, size_t sequence) {
    return (job->kv_end ? job->kv_end[sequence] : job->kv_start[sequence + 1]) - job->kv_start[sequence];
}

/* Scratch memory: the caller owns it and passes it to every call; it grows to what an operation needs. A device
 * has its own. */
typedef struct zest_device zest_device;
typedef struct {
    void *data;
    size_t size;
    zest_device *device; /* that the table's operations run on; NULL: the CPU */
} zest_workspace;

typedef struct {
    zest_cpu cpu;
    /* 0 on success; non-zero: out of memory, or the device failed. threads: how many to use, at least 1. */
    int (*linear)(const zest_linear *job, int threads, zest_workspace *scratch);
    int (*norm)(const zest_norm *job, int threads, zest_workspace *scratch);
    int (*attention)(const zest_attention *job, int threads, zest_workspace *scratch);
    /* Rotary positions in place, on the first rotary_dim elements of `heads` heads of every row. Pairs (i, i +
     * rotary_dim/2); angle position·base^(-2i/rotary_dim), from tables of cosines and sines [positions][rotary_dim/2].
     */
    void (*rotary)(void *x, size_t rows, size_t stride, size_t heads, size_t head_dim, size_t rotary_dim,
                   const uint32_t *positions, const float *cosines, const float *sines, int threads,
                   zest_workspace *scratch);
    /* gate = act(gate)·up, element by element. */
    void (*gate)(void *gate, const void *up, size_t count, zest_activation activation, int threads,
                 zest_workspace *scratch);
    int (*gather)(const zest_gather *job, int threads, zest_workspace *scratch);
    /* out = factor·x (+ y, which may be NULL), element by element. out may be x or y. */
    void (*add_scaled)(void *out, const void *x, float factor, const void *y, size_t count, int threads,
                       zest_workspace *scratch);
    /* x = cap tanh(x/cap), floats on a device too. */
    void (*soft_cap)(float *x, size_t count, float cap, int threads, zest_workspace *scratch);
    const struct zest_device_table *device; /* NULL: the CPU */
} zest_ops;

/* out[l][i] = row ids[i] of one table. */
static inline int zest_ops_gather_rows(const zest_ops *operations, const zest_weight *table,
                                       const zest_perturbation *p, const uint32_t *ids, size_t count,
                                       void *const out[2], int threads, zest_workspace *scratch) {
    zest_gather_part part = {.table = *table, .ids = ids};
    zest_gather job = {
        .parts = &part, .part_count = 1, .perturbation = *p, .out = {out[0], out[1]}, .count = count};
    return operations->gather(&job, threads, scratch);
}

const zest_ops *zest_ops_for(zest_cpu cpu);

extern const zest_ops zest_ops_plain, zest_ops_avx2, zest_ops_avx512;

/* Operations on vectors of weights, for updates. All are element-wise or sum in a fixed order, so results do not
 * depend on the backend. */

typedef struct {
    zest_cpu cpu;
    const zest_noise *noise;
    /* out = fma(c, v, x); out may be x */
    void (*fma_f32)(float *out, const float *x, float c, const float *v, size_t count);
    void (*fma_f64)(double *out, const double *x, double c, const float *v, size_t count);
    /* x = c x */
    void (*scale_f32)(float *x, float c, size_t count);
    void (*scale_f64)(double *x, double c, size_t count);
    /* 16-bit weights to float, and back by stochastic rounding: the 16 random bits of an element decide
     * whether it goes up, with the probability that makes the mean right. A value that needs no rounding is
     * kept as it is; what is beyond the largest finite number becomes that. */
    void (*load_bf16)(float *out, const uint16_t *x, size_t count);
    void (*load_f16)(float *out, const uint16_t *x, size_t count);
    void (*store_bf16)(uint16_t *out, const float *x, const uint16_t *random, size_t count);
    void (*store_f16)(uint16_t *out, const float *x, const uint16_t *random, size_t count);
    /* sum of v_i^2 in fp64: eight running sums, element i in sum i % 8, added up pairwise at the end */
    double (*square_sum)(const float *v, size_t count);
} zest_vector_ops;

const zest_vector_ops *zest_vector_ops_for(zest_cpu cpu);

extern const zest_vector_ops zest_vector_ops_plain, zest_vector_ops_avx2, zest_vector_ops_avx512;

/* The peak of a CPU (the roofline's flat part): multiply-adds a second of its best instructions when all operands
 * are in registers. Benchmarks report a fraction of the peak of the same run, since clocks and other load
 * change. */

/* Floating-point operations a second (a multiply-add counts as two) of so many threads at once, best of some
 * rounds of a few milliseconds each. Random operands: power, and so the clock, depends on the data. */
double zest_peak_measure(zest_cpu cpu, zest_compute compute, int threads);

/* One round, for each instruction set: multiply-adds in registers, `loops` times; returns the operations done. `data`
 * holds 1024 random floats; `sink` keeps the compiler from removing the work. */
typedef double zest_peak_round(long loops, const float *data, float *sink);
zest_peak_round zest_peak_plain, zest_peak_avx2, zest_peak_avx512, zest_peak_avx512bf16, zest_peak_amx;

#endif
