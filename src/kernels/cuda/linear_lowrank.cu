/* A linear map whose weight is perturbed by noise of low rank, as kernels/cpu/linear_lowrank.c:
 *
 *     x (W + c s sum_j u_j a_j')' = x W' + c s sum_j (x a_j) u_j'
 *
 * One product with the weight as it is stored for the rows of all lanes, in fp32; then the numbers c s (x a_j) of every
 * row; then one pass over the product that adds them times u_j, the bias, activation and residual. Vectors and biases
 * are made in the prefetch stream, in a slot of the linear maps. Several matrices for the same rows are multiplied one
 * after another, since nothing has to be copied for that. Every sum has a fixed order. */
#include "kernels/cuda/dtype.cuh"

enum { THREADS = 256, ROWS = 4 }; /* ROWS: that a thread (a warp) works on, for the same vectors */

struct low_rank {
    const zest_linear *args;
    zest_gemm gemm; /* of args */
    size_t rank, lanes, pairs, inputs_stride, outputs_stride;
    float *over_inputs, *over_outputs; /* (pairs, rank, inputs or outputs) */
    float *bias;                       /* (lanes, outputs); NULL: none */
    int64_t bias_lane;
    float *along;   /* (lanes, rows, rank): c s (x a_j) */
    float *product; /* (lanes, rows, outputs) */
    size_t product_stride;
    int64_t product_lane;
};

/* ---- c s (x a_j) ---- */

struct along_params {
    const void *x;
    const float *a;
    float *out;
    size_t rows, inputs, x_stride, a_stride;
    int64_t x_lane;
    unsigned rank;
    int lanes; /* of a pair */
    float factor, scale[1 + ZEST_PAIRS_MORE][2];
};

template <class T, int WIDTH>
static __device__ __forceinline__ void load_row(const T *from, float out[WIDTH]) {
    if constexpr (WIDTH == 8)
        load8(from, out);
    else
        out[0] = to_float(*from);
}

/* A warp has ROWS rows of a lane; RANKS vectors for each pass over them. */
template <class T, int WIDTH, int RANKS>
static __global__ void __launch_bounds__(THREADS) along_kernel(const __grid_constant__ along_params params) {
    const size_t first = (blockIdx.x * (size_t)(THREADS / 32) + threadIdx.x / 32) * ROWS;
    const unsigned thread = threadIdx.x % 32, pair = blockIdx.y / (unsigned)params.lanes;
    if (first >= params.rows) return; /* all of the warp */
    const T *x = (const T *)params.x + (int64_t)blockIdx.y * params.x_lane;
    const float *a = params.a + (size_t)pair * params.rank * params.a_stride;
    const float scale = params.scale[pair][blockIdx.y % (unsigned)params.lanes];
    for (unsigned j = 0; j < params.rank; j += RANKS) {
        float sum[ROWS][RANKS] = {};
        for (size_t c = (size_t)thread * WIDTH; c < params.inputs; c += 32 * WIDTH) {
            float row[ROWS][WIDTH], side[WIDTH];
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                const size_t m = first + r < params.rows ? first + r : params.rows - 1;
                load_row<T, WIDTH>(x + m * params.x_stride + c, row[r]);
            }
#pragma unroll
            for (int k = 0; k < RANKS; k++) {
                if (j + k >= params.rank) continue;
                load_row<float, WIDTH>(a + (j + k) * params.a_stride + c, side);
#pragma unroll
                for (int r = 0; r < ROWS; r++)
#pragma unroll
                    for (int i = 0; i < WIDTH; i++) sum[r][k] = fmaf(row[r][i], side[i], sum[r][k]);
            }
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int k = 0; k < RANKS; k++) {
                const float dot = warp_sum(sum[r][k]);
                if (!thread && first + r < params.rows && j + k < params.rank)
                    params.out[(blockIdx.y * params.rows + first + r) * params.rank + j + k] =
                        scale * (params.factor * dot);
            }
    }
}

template <class T> static void launch_along(zest_cuda *cuda, const along_params *params, size_t lanes) {
    const dim3 grid(zest_cuda_blocks(params->rows, THREADS / 32 * ROWS), (unsigned)lanes);
    const int vectorized = (params->inputs | params->x_stride | (size_t)params->x_lane) % 8 == 0 &&
                           (uintptr_t)params->x % 16 == 0;
    if (!vectorized)
        along_kernel<T, 1, 4><<<grid, THREADS, 0, cuda->stream>>>(*params);
    else if (params->rank == 1)
        along_kernel<T, 8, 1><<<grid, THREADS, 0, cuda->stream>>>(*params);
    else
        along_kernel<T, 8, 4><<<grid, THREADS, 0, cuda->stream>>>(*params);
}

static int compute_along(zest_cuda *cuda, const low_rank *l) {
    const zest_noise_law *law = &l->args->weight.law;
    const zest_cuda_pairs pairs = zest_cuda_pairs_of(&l->args->perturbation);
    along_params params = {};
    params.x = l->gemm.a, params.a = l->over_inputs, params.out = l->along;
    params.rows = l->gemm.rows, params.inputs = l->gemm.inputs;
    params.x_stride = l->gemm.a_stride, params.x_lane = l->gemm.a_lane, params.a_stride = l->inputs_stride;
    params.rank = (unsigned)l->rank;
    params.lanes = pairs.lanes;
    params.factor = law->factor != 0 ? law->factor : 1.0f;
    for (int p = 0; p < pairs.count; p++)
        params.scale[p][0] = pairs.scale[p][0], params.scale[p][1] = pairs.scale[p][1];
    ZEST_CUDA_DISPATCH(cuda->base.compute, T, launch_along<T>(cuda, &params, l->lanes));
    return zest_cuda_launched(cuda, "multiplying activations with noise");
}

/* ---- act(product + sum_j (...) u_j' + bias) + residual ---- */

struct add_params {
    const float *product, *along, *u, *bias;
    const void *residual;
    void *out;
    size_t rows, outputs, product_stride, u_stride, out_stride, residual_stride;
    int64_t product_lane, bias_lane, out_lane, residual_lane;
    unsigned rank;
    int lanes, activation; /* lanes: of a pair */
};

/* WIDTH columns of ROWS rows for a thread. product may be out: an element is read and written by one thread. */
template <class T, int WIDTH>
static __global__ void __launch_bounds__(THREADS) add_kernel(const __grid_constant__ add_params params) {
    const size_t groups = params.outputs / WIDTH, at = blockIdx.x * (size_t)THREADS + threadIdx.x;
    const size_t first = at / groups * ROWS, n = at % groups * WIDTH;
    if (first >= params.rows) return;
    const unsigned pair = blockIdx.y / (unsigned)params.lanes;
    const int rows = params.rows - first < (size_t)ROWS ? (int)(params.rows - first) : (int)ROWS;
    const int64_t lane = blockIdx.y;
    const float *product = params.product + lane * params.product_lane + first * params.product_stride + n;
    const float *along = params.along + ((size_t)lane * params.rows + first) * params.rank;
    const float *u = params.u + (size_t)pair * params.rank * params.u_stride + n;
    float x[ROWS][WIDTH], side[WIDTH];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        if (r < rows) load_row<float, WIDTH>(product + r * params.product_stride, x[r]);
    for (unsigned j = 0; j < params.rank; j++) {
        load_row<float, WIDTH>(u + j * params.u_stride, side);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (r >= rows) continue;
            const float c = along[r * params.rank + j];
#pragma unroll
            for (int i = 0; i < WIDTH; i++) x[r][i] = fmaf(c, side[i], x[r][i]);
        }
    }
#pragma unroll
    for (int i = 0; i < WIDTH; i++) side[i] = 0;
    if (params.bias) load_row<float, WIDTH>(params.bias + lane * params.bias_lane + n, side);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        if (r >= rows) continue;
        const size_t m = first + r;
        T *out = (T *)params.out + lane * params.out_lane + m * params.out_stride + n;
        float more[WIDTH] = {};
        if (params.residual)
            load_row<T, WIDTH>((const T *)params.residual + lane * params.residual_lane +
                                   m * params.residual_stride + n,
                               more);
#pragma unroll
        for (int i = 0; i < WIDTH; i++) {
            const float y = activate(params.bias ? x[r][i] + side[i] : x[r][i], params.activation);
            x[r][i] = params.residual ? y + more[i] : y;
        }
        if constexpr (WIDTH == 8)
            store8(out, x[r]);
        else
            *out = from_float<T>(x[r][0]);
    }
}

template <class T> static void launch_add(zest_cuda *cuda, const add_params *params, size_t lanes) {
    const size_t row_groups = (params->rows + ROWS - 1) / ROWS;
    size_t all = params->outputs | params->product_stride | (size_t)params->product_lane |
                 params->out_stride | (size_t)params->out_lane;
    uintptr_t address = (uintptr_t)params->product | (uintptr_t)params->out;
    if (params->residual) {
        all |= params->residual_stride | (size_t)params->residual_lane;
        address |= (uintptr_t)params->residual;
    }
    if (all % 8 == 0 && address % 16 == 0) {
        const dim3 grid(zest_cuda_blocks(row_groups * (params->outputs / 8), THREADS), (unsigned)lanes);
        add_kernel<T, 8><<<grid, THREADS, 0, cuda->stream>>>(*params);
    } else {
        const dim3 grid(zest_cuda_blocks(row_groups * params->outputs, THREADS), (unsigned)lanes);
        add_kernel<T, 1><<<grid, THREADS, 0, cuda->stream>>>(*params);
    }
}

static int add_noise(zest_cuda *cuda, const low_rank *l) {
    const zest_gemm *gemm = &l->gemm;
    add_params params = {};
    params.product = l->product, params.along = l->along, params.u = l->over_outputs, params.bias = l->bias;
    params.residual = gemm->residual, params.out = gemm->out;
    params.rows = gemm->rows, params.outputs = gemm->outputs;
    params.product_stride = l->product_stride, params.product_lane = l->product_lane;
    params.u_stride = l->outputs_stride, params.bias_lane = l->bias_lane;
    params.out_stride = gemm->out_stride, params.out_lane = gemm->out_lane;
    params.residual_stride = gemm->residual_stride, params.residual_lane = gemm->residual_lane;
    params.rank = (unsigned)l->rank;
    params.lanes = l->args->perturbation.lanes;
    params.activation = l->args->activation;
    if (gemm->fp32_output)
        launch_add<float>(cuda, &params, l->lanes);
    else
        ZEST_CUDA_DISPATCH(cuda->base.compute, T, launch_add<T>(cuda, &params, l->lanes));
    return zest_cuda_launched(cuda, "adding noise of low rank");
}

/* ---- The map ---- */

static size_t rounded(size_t count) { return (count + 63) / 64 * 64; }

/* The product goes to the output where that is fp32 and is not read again. */
static int reserve(zest_cuda *cuda, low_rank *l) {
    const zest_gemm *gemm = &l->gemm;
    const int in_place = gemm->fp32_output && !gemm->residual;
    const size_t along = rounded(l->lanes * gemm->rows * l->rank),
                 product = in_place ? 0 : l->lanes * gemm->rows * gemm->outputs;
    if (zest_cuda_reserve(cuda, &cuda->low_rank, (along + product) * sizeof(float))) return -1;
    l->along = (float *)(void *)cuda->low_rank.data;
    l->product = in_place ? (float *)gemm->out : l->along + along;
    l->product_stride = in_place ? gemm->out_stride : gemm->outputs;
    l->product_lane = in_place ? gemm->out_lane : (int64_t)(gemm->rows * gemm->outputs);
    return 0;
}

/* The weight in the type that the GEMM reads: as it is stored, or one converted copy for all lanes. */
static int take_weight(zest_cuda *cuda, low_rank *l, zest_cuda_slot *slot, int direct) {
    zest_perturbation none = {};
    none.lanes = 1;
    const zest_compute type = cuda->base.compute;
    l->gemm.weight = direct ? l->args->weight.data : slot->weights.data;
    l->gemm.weight_lane = 0;
    if (direct) return 0;
    zest_cuda_segment segment = zest_cuda_segment_of(&l->args->weight, &none, slot->weights.data, 0, type);
    return zest_cuda_perturb(cuda, slot, &segment, 1, &none);
}

static int draw(zest_cuda *cuda, low_rank *l, zest_cuda_slot *slot) {
    const zest_weight *weight = &l->args->weight;
    const zest_noise_law *law = &weight->law;
    zest_cuda_law_vectors vectors = {};
    const int inputs_are_rows = l->args->transposed;
    vectors.law = *law;
    vectors.pairs = zest_cuda_pairs_of(&l->args->perturbation);
    vectors.count = (unsigned)l->pairs;
    vectors.side[ZEST_NOISE_ROWS] = {inputs_are_rows ? l->over_inputs : l->over_outputs,
                                     (weight->first - law->first) / law->columns, weight->rows,
                                     inputs_are_rows ? l->inputs_stride : l->outputs_stride};
    vectors.side[ZEST_NOISE_COLUMNS] = {inputs_are_rows ? l->over_outputs : l->over_inputs, 0,
                                        weight->columns,
                                        inputs_are_rows ? l->outputs_stride : l->inputs_stride};
    zest_cuda_profile_scope profile(cuda, ZEST_PROFILE_PERTURB);
    return zest_cuda_slot_begin(cuda, slot) ||
           zest_cuda_fill_law_vectors(cuda, &vectors, zest_cuda_slot_stream(cuda)) ||
           zest_cuda_slot_publish(cuda, slot);
}

static zest_cuda_slot *prepare(zest_cuda *cuda, low_rank *l) {
    const zest_weight *weight = &l->args->weight, *bias = &l->args->bias;
    const zest_perturbation *p = &l->args->perturbation;
    const int direct = weight->dtype == zest_cuda_dtype(cuda->base.compute);
    const size_t bias_lane = bias->data ? rounded(l->gemm.outputs) : 0, biases = l->lanes * bias_lane;
    const size_t inputs = l->pairs * l->rank * l->inputs_stride,
                 outputs = l->pairs * l->rank * l->outputs_stride;
    zest_cuda_slot *slot = zest_cuda_slot_next(
        cuda, &cuda->linear_slots, direct ? 0 : weight->rows * weight->columns * cuda->base.element_size,
        (biases + inputs + outputs) * sizeof(float));
    if (!slot) return NULL;
    float *floats = (float *)(void *)slot->vectors.data;
    l->bias = bias->data ? floats : NULL;
    l->bias_lane = (int64_t)bias_lane;
    l->over_inputs = floats + biases;
    l->over_outputs = l->over_inputs + inputs;
    if (take_weight(cuda, l, slot, direct) || draw(cuda, l, slot)) return NULL;
    if (!l->bias) return slot;
    zest_cuda_segment segment = zest_cuda_segment_of(bias, p, l->bias, l->bias_lane, ZEST_COMPUTE_F32);
    return zest_cuda_perturb(cuda, slot, &segment, 1, p) ? NULL : slot;
}

/* One product for the rows of all lanes, side by side where they lie so. */
static int multiply(zest_cuda *cuda, const low_rank *l) {
    zest_gemm gemm = l->gemm;
    gemm.bias = gemm.residual = NULL;
    gemm.activation = ZEST_ACT_NONE;
    gemm.norm = {};
    gemm.fp32_output = 1;
    gemm.out = l->product;
    gemm.out_stride = gemm.residual_stride = l->product_stride;
    gemm.out_lane = l->product_lane;
    gemm.residual_lane = gemm.bias_lane = 0;
    if (gemm.batch > 1 && gemm.a_lane == (int64_t)(gemm.rows * gemm.a_stride) &&
        gemm.out_lane == (int64_t)(gemm.rows * gemm.out_stride)) {
        gemm.rows *= (size_t)gemm.batch;
        gemm.batch = 1;
        gemm.a_lane = gemm.out_lane = 0;
    }
    return zest_cuda_gemm(cuda, &gemm);
}

static int norm_results(zest_cuda *cuda, low_rank *l) {
    if (!l->args->norm) return 0;
    zest_cuda_slot *slot = zest_cuda_norm_perturb(cuda, l->args->norm, &l->args->perturbation, &l->gemm.norm);
    return !slot || zest_cuda_norm_after_gemm(cuda, &l->gemm) || zest_cuda_slot_release(cuda, slot);
}

static int run(zest_cuda *cuda, const zest_linear *args) {
    low_rank l = {};
    l.args = args;
    l.gemm = zest_cuda_linear_shape(cuda, args);
    l.rank = args->weight.law.rank;
    l.lanes = zest_perturbation_lanes(&args->perturbation);
    l.pairs = 1 + args->perturbation.more_count;
    l.inputs_stride = rounded(l.gemm.inputs);
    l.outputs_stride = rounded(l.gemm.outputs);
    if (reserve(cuda, &l)) return -1;
    zest_cuda_slot *slot = prepare(cuda, &l);
    if (!slot || multiply(cuda, &l)) return -1;
    {
        zest_cuda_profile_scope profile(cuda, ZEST_PROFILE_ELEMENTWISE);
        if (compute_along(cuda, &l) || add_noise(cuda, &l)) return -1;
    }
    return zest_cuda_slot_release(cuda, slot) || norm_results(cuda, &l) ? -1 : 0;
}

/* ---- Several matrices ---- */

int zest_cuda_linear_is_low_rank(const zest_linear *args) {
    const zest_perturbation *p = &args->perturbation;
    int found = args->weight.law.rank && zest_cuda_is_perturbed(&args->weight, p);
    for (size_t i = 0; i < args->more_count; i++)
        found |= args->more[i].weight.law.rank && zest_cuda_is_perturbed(&args->more[i].weight, p);
    return found;
}

/* x + count elements of `size` bytes. */
static void *moved(const void *x, size_t count, size_t size) {
    return x ? (char *)(uintptr_t)x + count * size : NULL;
}

/* One after another, each by its own law: its outputs lie in columns of their own. */
static int run_parts(zest_cuda *cuda, const zest_linear *args, zest_workspace *scratch) {
    const size_t size = args->fp32_output ? sizeof(float) : cuda->base.element_size;
    size_t at = 0;
    for (size_t i = 0; i <= args->more_count; i++) {
        zest_linear part = *args;
        part.more = NULL, part.more_count = 0;
        if (i) part.weight = args->more[i - 1].weight, part.bias = args->more[i - 1].bias;
        for (int l = 0; l < 2; l++) {
            part.out[l] = moved(args->out[l], at, size);
            part.residual[l] = moved(args->residual[l], at, size);
        }
        if (zest_cuda_linear(&part, 1, scratch)) return -1;
        at += part.weight.rows;
    }
    return 0;
}

int zest_cuda_linear_low_rank(zest_cuda *cuda, const zest_linear *args, zest_workspace *scratch) {
    if (args->a_transposed || (args->more_count && (args->transposed || args->norm)))
        return zest_cuda_unsupported(cuda, "this product has no noise of low rank");
    return args->more_count ? run_parts(cuda, args, scratch) : run(cuda, args);
}
