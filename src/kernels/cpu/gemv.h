/* The product for a few rows, as in generation: no weight is packed. Included by gemm.h, whose epilogue it shares. The
 * sums are the same chains of multiply-adds, so the bits are those that any number of rows gives.
 *
 * Vectors hold outputs, but a stored row holds inputs: squares of weights are transposed in registers, which takes
 * less time than to read them from memory. bf16 weights are transposed two by two, so that there are half as many
 * squares. */
#ifndef ZEST_KERNELS_CPU_GEMV_H
#define ZEST_KERNELS_CPU_GEMV_H

enum {
    GEMV_ROWS = 4, /* at most: with more, packed weights are read often enough */
    GEMV_OUTPUTS =
        WIDTH /* of a panel. Two groups hide the latency of the chains, but read twice the streams: slower */
};

#define GEMV_INLINE static inline __attribute__((always_inline))

typedef struct {
    const zest_linear *job;
    size_t inputs, outputs;
    const float *a; /* rows as pack_row leaves them, a_floats apart */
    size_t a_floats;
    int bf16;
} gemv_plan;

/* What is known where a kernel is called, so that the compiler makes one for each. */
typedef struct {
    int rows, bf16;
    zest_dtype dtype;
} gemv_kind;

static int gemv_takes(const zest_linear *job) {
    return job->rows && job->rows <= GEMV_ROWS && job->weight.rows >= GEMV_OUTPUTS &&
           job->perturbation.lanes == 1 && !job->transposed && !job->a_transposed &&
           !zest_weight_needs_noise(&job->weight, &job->perturbation);
}

/* A vector of inputs: pairs where they are stored as bf16, or where bf16 is multiplied in pairs; else floats. */
GEMV_INLINE vec gemv_load(gemv_kind kind, const char *inputs, size_t left) {
    float padded[WIDTH] = {0};
    if (kind.dtype == ZEST_DTYPE_BF16) {
        if (left >= 2 * WIDTH) return v_load((const float *)inputs);
        memcpy(padded, inputs, left * sizeof(uint16_t));
        return v_load(padded);
    }
#if PAIRS
    vec high = v_set(0.0f);
    if (left > WIDTH)
        high = widen_part(kind.dtype, inputs + WIDTH * zest_dtype_size(kind.dtype), left - WIDTH);
    return v_pairs(widen_part(kind.dtype, inputs, left), high);
#else
    vec w = widen_part(kind.dtype, inputs, left);
    return kind.bf16 ? v_round_bf16(w) : w;
#endif
}

/* Sums of a group over a square: row i of t is a step of all its outputs, or two. a: the steps of every row. */
GEMV_INLINE void gemv_multiply(gemv_kind kind, const gemv_plan *p, const float *a, size_t steps,
                               const vec t[WIDTH], vec *sum) {
    const int split = !PAIRS && kind.dtype == ZEST_DTYPE_BF16, swap = !PAIRS && kind.bf16;
#pragma GCC unroll 16
    for (size_t i = 0; i < WIDTH; i++) {
        if ((split ? 2 * i : i) >= steps) break;
        if (split) {
            vec first = swap ? v_high_bf16(t[i]) : v_low_bf16(t[i]);
            vec second = swap ? v_low_bf16(t[i]) : v_high_bf16(t[i]);
#pragma GCC unroll 4
            for (int r = 0; r < kind.rows; r++) {
                const float *x = a + (size_t)r * p->a_floats + 2 * i;
                sum[r] = v_fma(v_set(x[0]), first, sum[r]);
                if (2 * i + 1 < steps) sum[r] = v_fma(v_set(x[1]), second, sum[r]);
            }
        } else {
#pragma GCC unroll 4
            for (int r = 0; r < kind.rows; r++)
                sum[r] = TILE_MULTIPLY(v_set(a[(size_t)r * p->a_floats + i]), t[swap ? i ^ 1 : i], sum[r]);
        }
    }
}

/* The sums of GEMV_OUTPUTS outputs from n on, (rows, GEMV_OUTPUTS). Rows of weights follow each other, and the panel
 * after this one is fetched from memory meanwhile. */
GEMV_INLINE void gemv_panel(gemv_kind kind, const gemv_plan *p, size_t n, float *c) {
    const size_t square = WIDTH * (PAIRS || kind.dtype == ZEST_DTYPE_BF16 ? 2 : 1);
    const size_t size = zest_dtype_size(kind.dtype), row_bytes = p->inputs * size;
    const char *weights = (const char *)p->job->weight.data + n * row_bytes;
    uintptr_t next = (uintptr_t)weights + GEMV_OUTPUTS * row_bytes;
    vec sum[GEMV_ROWS], t[WIDTH];
#pragma GCC unroll 4
    for (int r = 0; r < kind.rows; r++) sum[r] = v_set(0.0f);
    for (size_t k = 0; k < p->inputs; k += square) {
        size_t left = p->inputs - k, steps = left / STEP_INPUTS + left % STEP_INPUTS;
        const float *a = p->a + k / STEP_INPUTS;
        if (kind.bf16 && !PAIRS) steps += steps % 2; /* pairs are whole */
#pragma GCC unroll 16
        for (size_t r = 0; r < WIDTH; r++) {
            t[r] = gemv_load(kind, weights + r * row_bytes + k * size, left);
            __builtin_prefetch((const void *)(next + r * square * size), 0, 3);
        }
        next += WIDTH * square * size;
        v_transpose(t);
        if (left >= square) /* a constant number of steps */
            gemv_multiply(kind, p, a, square / STEP_INPUTS, t, sum);
        else
            gemv_multiply(kind, p, a, steps, t, sum);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kind.rows; r++) v_store(c + r * GEMV_OUTPUTS, sum[r]);
}

/* An output panel, to the results. The last one begins earlier where it would not be full. */
static void gemv_run(const gemv_plan *p, size_t panel) {
    const zest_linear *job = p->job;
    const size_t n = panel + GEMV_OUTPUTS <= p->outputs ? panel : p->outputs - GEMV_OUTPUTS;
    float c[GEMV_ROWS * GEMV_OUTPUTS + WIDTH], bias[GEMV_OUTPUTS] = {0};
#define GEMV_CASE(count, type)                                \
    case count:                                               \
        if (p->bf16)                                          \
            gemv_panel((gemv_kind){count, 1, type}, p, n, c); \
        else                                                  \
            gemv_panel((gemv_kind){count, 0, type}, p, n, c); \
        break
#define GEMV_CASES(type)    \
    switch (job->rows) {    \
        GEMV_CASE(1, type); \
        GEMV_CASE(2, type); \
        GEMV_CASE(3, type); \
        GEMV_CASE(4, type); \
    }                       \
    break
    switch (job->weight.dtype) {
    case ZEST_DTYPE_F16: GEMV_CASES(ZEST_DTYPE_F16);
    case ZEST_DTYPE_BF16: GEMV_CASES(ZEST_DTYPE_BF16);
    default: GEMV_CASES(ZEST_DTYPE_F32);
    }
#undef GEMV_CASES
#undef GEMV_CASE
    linear_plan plan = {.job = job, .panel = GEMV_OUTPUTS};
    linear_part part = {.rows = job->rows, .n = panel, .outputs = n + GEMV_OUTPUTS - panel};
    if (job->bias.data)
        weight_values(&job->bias, &job->perturbation, panel, part.outputs, (float *const[2]){bias, NULL});
    epilogue(&plan, &part, 0, 0, job->rows, c + (panel - n), bias);
}

static int gemv(const zest_linear *job, int threads, zest_workspace *scratch) {
    gemv_plan p = {.job = job,
                   .inputs = job->weight.columns,
                   .outputs = job->weight.rows,
                   .bf16 = job->compute == ZEST_COMPUTE_BF16};
    p.a_floats = round_up(p.inputs, LINE_INPUTS) / STEP_INPUTS;
    if (zest_scratch_reserve(scratch, job->rows * p.a_floats * sizeof(float))) return -1;
    float *a = scratch->data;
    for (size_t m = 0; m < job->rows; m++)
        pack_row((const float *)job->a[0] + m * job->a_stride, p.inputs, p.bf16, a + m * p.a_floats, LINE);
    p.a = a;
    threads = useful_threads(threads, (double)job->rows * (double)p.inputs * (double)p.outputs);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t n = 0; n < p.outputs; n += GEMV_OUTPUTS) gemv_run(&p, n);
    return 0;
}

#endif
