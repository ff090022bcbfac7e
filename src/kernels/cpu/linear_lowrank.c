/* A linear map whose weight is perturbed by noise of low rank (rng/noise_law.h):
 *
 *     x (W + c s sum_j u_j a_j')' = x W' + c s sum_j (x a_j) u_j'
 *
 * So both lanes of a pair share the product with W, which is packed once and without noise, and the noise of a matrix of
 * m rows and n columns costs r (m + n) random numbers. A matrix that is stored inputs x outputs has u and a in each
 * other's place. Sums over the inputs are in eight running sums in fp32, added up pairwise: a row depends on its own
 * inputs alone, whatever the number of threads. */
#include <string.h>

#include "kernels/cpu/linear_lowrank.h"
#include "kernels/cpu/ops_cpu.h"

typedef struct {
    const zest_linear *job;
    size_t inputs, outputs, rank, lanes;
    float *over_inputs, *over_outputs; /* (rank, inputs), (rank, outputs) */
    float *bias[2];                    /* (outputs): as the lanes see it */
    float *sums[2];                    /* (rows, outputs) */
    float *ones;                       /* (rows, outputs), where there is an activation */
} low_rank;

int zest_linear_is_low_rank(const zest_linear *job) {
    return job->weight.law.rank && !job->more_count && !job->a_transposed &&
           zest_weight_needs_noise(&job->weight, &job->perturbation);
}

static int reserve(low_rank *l, zest_workspace *own) {
    size_t product = zest_scratch_round(l->job->rows * l->outputs * sizeof(float)) / sizeof(float);
    size_t vector = zest_scratch_round(l->outputs * sizeof(float)) / sizeof(float);
    size_t inputs = zest_scratch_round(l->rank * l->inputs * sizeof(float)) / sizeof(float);
    size_t buffers = l->lanes + (l->job->activation != ZEST_ACT_NONE);
    if (zest_scratch_reserve(own, (inputs + (l->rank + 2) * vector + buffers * product) * sizeof(float)))
        return -1;
    l->over_inputs = own->data;
    l->over_outputs = l->over_inputs + inputs;
    l->bias[0] = l->over_outputs + l->rank * vector;
    l->bias[1] = l->bias[0] + vector;
    l->sums[0] = l->bias[1] + vector;
    l->sums[1] = l->sums[0] + product;
    l->ones = l->sums[0] + l->lanes * product;
    return 0;
}

static void draw(low_rank *l, const zest_noise *noise) {
    const zest_weight *weight = &l->job->weight;
    const zest_noise_law *law = &weight->law;
    const zest_perturbation *p = &l->job->perturbation;
    uint64_t first = (weight->first - law->first) / law->columns; /* of some rows of a matrix */
    for (size_t j = 0; j < l->rank; j++) {
        float *rows = l->job->transposed ? l->over_inputs + j * l->inputs : l->over_outputs + j * l->outputs;
        float *columns =
            l->job->transposed ? l->over_outputs + j * l->outputs : l->over_inputs + j * l->inputs;
        noise->vector(law, p->signs, ZEST_NOISE_ROWS, j, rows, p->seed, first, weight->rows);
        noise->vector(law, p->signs, ZEST_NOISE_COLUMNS, j, columns, p->seed, 0, weight->columns);
    }
    if (!l->job->bias.data) return;
    const zest_weight *bias = &l->job->bias;
    (void)zest_dtype_to_float(bias->dtype, bias->data, l->outputs, l->bias[1]);
    zest_weight_noise(bias, p, noise, 0, l->outputs, l->bias[0]);
    for (size_t n = 0; n < l->outputs; n++) {
        float z = l->bias[0][n], b = l->bias[1][n];
        l->bias[0][n] = zest_weight_is_perturbed(bias, p, 0) ? b + p->scale[0] * z : b;
        if (l->lanes > 1) l->bias[1][n] = zest_weight_is_perturbed(bias, p, 1) ? b + p->scale[1] * z : b;
    }
}

static float dot(const float *x, const float *a, size_t count) {
    float sums[8] = {0};
    size_t whole = count / 8 * 8;
    for (size_t i = 0; i < whole; i += 8)
        for (size_t s = 0; s < 8; s++) sums[s] += x[i + s] * a[i + s];
    for (size_t i = whole; i < count; i++) sums[i - whole] += x[i] * a[i];
    for (size_t half = 4; half; half /= 2)
        for (size_t s = 0; s < half; s++) sums[s] += sums[s + half];
    return sums[0];
}

/* Row m of lane i: the noise's part and the bias, added to the product. */
static void add_noise(const low_rank *l, size_t i, size_t m) {
    const zest_linear *job = l->job;
    float *sum = l->sums[i] + m * l->outputs,
          factor = job->weight.law.factor != 0 ? job->weight.law.factor : 1;
    for (size_t j = 0; j < l->rank; j++) {
        float along =
            dot((const float *)job->a[i] + m * job->a_stride, l->over_inputs + j * l->inputs, l->inputs);
        float c = job->perturbation.scale[i] * (factor * along);
        const float *u = l->over_outputs + j * l->outputs;
        for (size_t n = 0; n < l->outputs; n++) sum[n] += c * u[n];
    }
    for (size_t n = 0; job->bias.data && n < l->outputs; n++) sum[n] += l->bias[i][n];
}

static void finish(const low_rank *l, size_t i, size_t m) {
    const zest_linear *job = l->job;
    const float *sum = l->sums[i] + m * l->outputs;
    const float *residual =
        job->residual[i] ? (const float *)job->residual[i] + m * job->residual_stride : NULL;
    float *out = (float *)job->out[i] + m * job->out_stride;
    for (size_t n = 0; n < l->outputs; n++) out[n] = residual ? sum[n] + residual[n] : sum[n];
}

int zest_linear_low_rank(const zest_ops *operations, const zest_linear *job, int threads,
                         zest_workspace *scratch, zest_workspace *own) {
    low_rank l = {.job = job,
                  .inputs = job->transposed ? job->weight.rows : job->weight.columns,
                  .outputs = job->transposed ? job->weight.columns : job->weight.rows,
                  .rank = job->weight.law.rank,
                  .lanes = (size_t)job->perturbation.lanes};
    if (!job->rows || !l.outputs) return 0;
    if (reserve(&l, own)) return -1;
    draw(&l, zest_noise_for(operations->cpu));
    zest_linear product = *job;
    product.weight.frozen = 1;
    product.bias = (zest_weight){0};
    product.activation = ZEST_ACT_NONE;
    for (size_t i = 0; i < 2; i++) product.out[i] = l.sums[i < l.lanes ? i : 0], product.residual[i] = NULL;
    product.out_stride = l.outputs;
    if (operations->linear(&product, threads, scratch)) return -1;
    size_t all = l.lanes * job->rows;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t i = 0; i < all; i++) add_noise(&l, i / job->rows, i % job->rows);
    if (job->activation != ZEST_ACT_NONE) {
        for (size_t i = 0; i < job->rows * l.outputs; i++) l.ones[i] = 1;
        for (size_t i = 0; i < l.lanes; i++)
            operations->gate(l.sums[i], l.ones, job->rows * l.outputs, job->activation, threads, scratch);
    }
#pragma omp parallel for num_threads(threads) schedule(static)
    for (size_t i = 0; i < all; i++) finish(&l, i / job->rows, i % job->rows);
    return 0;
}
