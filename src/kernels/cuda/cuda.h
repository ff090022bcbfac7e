/* What the files of the CUDA backend share: the device, the description of a GEMM, and the functions of each
 * file. Operations run in order in one stream; a second one of low priority perturbs the weights of the next
 * operation. Functions return 0, or non-zero with the device's error set, unless they say otherwise. */
#ifndef ZEST_KERNELS_CUDA_CUDA_H
#define ZEST_KERNELS_CUDA_CUDA_H

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

extern "C" {
#include "kernels/cuda/errors.h"
#include "kernels/cuda/settings.h"
#include "kernels/device.h"
}

/* cuBLASLt is opened at run time, so that the program starts on machines without it. */
struct zest_cublas {
    void *library;
    decltype(&cublasLtCreate) create;
    decltype(&cublasLtDestroy) destroy;
    decltype(&cublasLtMatmul) matmul;
    decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
    decltype(&cublasLtMatmulAlgoCheck) check;
    decltype(&cublasLtMatmulDescInit_internal) desc_init;
    decltype(&cublasLtMatmulDescSetAttribute) desc_set;
    decltype(&cublasLtMatrixLayoutInit_internal) layout_init;
    decltype(&cublasLtMatrixLayoutSetAttribute) layout_set;
    decltype(&cublasLtMatmulPreferenceInit_internal) preference_init;
    decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
    decltype(&cublasLtGetStatusName) status_name;
    decltype(&cublasLtGetStatusString) status_string;
    cublasLtHandle_t handle;
};

/* Layer norm of the rows of a GEMM's output, which are `outputs` elements apart. */
struct zest_gemm_norm {
    int enabled, rms;
    const float *gain, *bias; /* (lanes, outputs) in fp32; NULL: none */
    int64_t lane;             /* lane stride of gain and bias */
    float epsilon;
};

/* out[l] = act(a[l] weight[l]' + bias[l]), or a[l] weight[l]' + bias[l] + residual[l], then norm; l: lane.
 *
 *   a         (lanes, rows, inputs), or (lanes, inputs, rows) with a_transposed
 *   weight    (lanes, outputs, inputs), or (lanes, inputs, outputs) with transposed; lane stride 0: one for all
 *   bias      (lanes, outputs)
 *   residual  (lanes, rows, outputs); may be out
 *   out       (lanes, rows, outputs)
 *
 * The elements of a and weight have the device's compute type, those of bias, residual and out too, or are
 * floats with fp32_output. Strides are in elements: *_stride between rows, *_lane between lanes. */
struct zest_gemm {
    const void *weight, *a, *bias, *residual; /* bias, residual: NULL for none */
    void *out;
    int transposed, batch; /* batch: lanes */
    int a_transposed;
    int fp32_output;
    int split; /* weight and a are bf16, though the compute type is fp32 (gemm_f32.cu) */
    size_t rows, inputs, outputs, a_stride, out_stride, residual_stride;
    int64_t weight_lane, a_lane, out_lane, residual_lane, bias_lane;
    zest_activation activation; /* NONE with a residual */
    zest_gemm_norm norm;
};

/* How GEMMs of about the same sizes are computed: a function of the GPU, cuBLASLt's version and the sizes, unless
 * ZEST_CUDA_TUNE=on. */
struct zest_gemm_plan {
    uint64_t key[8];
    cublasLtMatmulAlgo_t algorithm;
    int found, uses;
    size_t rows, inputs; /* for which the algorithm is known to work */
    int use_sm90;        /* our kernel, not cuBLASLt */
};
enum {
    ZEST_GEMM_PLANS = 256,
    ZEST_CUDA_CUBLAS_WORKSPACE = 48 << 20, /* bytes */
    ZEST_CUDA_ROW_STATS_BYTES = 16 << 20,
};

/* ---- The device ---- */

struct zest_cuda_buffer {
    char *data;
    size_t size;
};

struct zest_cuda_allocation {
    void *data;
    size_t size;
};

/* Perturbed weights, biases, gains or table rows of all lanes for one operation. The prefetch stream fills a
 * slot while the operation before is still running. */
struct zest_cuda_slot {
    zest_cuda_buffer weights, vectors;
    cudaEvent_t ready, consumed; /* recorded by the prefetch stream; by the stream of the operation */
};

/* Linear layers and norms whose perturbed weights exist at once. */
enum { ZEST_CUDA_LINEAR_SLOTS = 2, ZEST_CUDA_NORM_SLOTS = 4 };

struct zest_cuda_ring {
    zest_cuda_slot slots[ZEST_CUDA_NORM_SLOTS];
    unsigned count, next;
};

/* Events around an operation while the profiler is on. */
struct zest_cuda_profile_event {
    cudaEvent_t begin, end;
    zest_profile_part kind;
};

struct zest_cuda {
    zest_device base;
    char name[256];
    int ordinal, sm_count;
    size_t max_shared_bytes; /* of a block */
    size_t memory;           /* of the GPU */
    void *encode_tensormap;  /* the driver's cuTensorMapEncodeTiled; NULL: no TMA, so no kernels for 9.0 */

    cudaStream_t stream, prefetch_stream;
    cudaEvent_t weights_changed; /* recorded in `stream` behind a change that the prefetch stream must see */
    int weights_dirty;           /* there was one since the last record */
    zest_cuda_ring linear_slots, norm_slots;

    zest_cublas cublas;
    zest_cuda_buffer workspace; /* of cuBLASLt */
    zest_gemm_plan *plans;
    size_t plan_next;
    zest_cuda_settings settings;
    zest_cuda_buffer split_weight, split_a; /* gemm_f32.cu */
    zest_cuda_buffer residual_backup;       /* of a residual that a GEMM would overwrite */
    zest_cuda_buffer scratch;               /* of one operation */
    zest_cuda_buffer low_rank;              /* the same, of noise of low rank */

    zest_cuda_buffer row_stats; /* partial row statistics of gemm_sm90.cuh, double-buffered */
    unsigned row_stats_index;   /* the half that was used last, */
    unsigned row_stats_used;    /* and how many of its elements */

    char *pinned; /* host memory of uploads in flight */
    size_t pinned_size, pinned_used;
    cudaEvent_t uploaded; /* recorded behind the last upload from pinned */
    zest_cuda_buffer staged;
    size_t staged_used;

    zest_cuda_allocation *allocations;
    size_t allocation_count, allocation_capacity, bytes_allocated, peak_bytes;

    int profiling;
    zest_cuda_profile_event *profile_events;
    size_t profile_event_count, profile_event_capacity;
};

static inline zest_cuda *zest_cuda_of(zest_device *device) { return (zest_cuda *)device; }
static inline zest_cuda *zest_cuda_of(zest_workspace *scratch) { return (zest_cuda *)scratch->device; }

/* ---- device.cu ---- */

/* Non-zero when the call failed. The device keeps the first error; doing: "copying rows". */
int zest_cuda_failed(zest_cuda *cuda, cudaError_t error, const char *doing);
int zest_cuda_launched(zest_cuda *cuda, const char *doing); /* the same for a kernel that was just launched */
int zest_cuda_no_memory(zest_cuda *cuda, const char *what, size_t bytes); /* of the host; non-zero */
int zest_cuda_unsupported(zest_cuda *cuda, const char *what); /* by the GPU or its libraries; non-zero */
/* Lets a kernel use that much dynamic shared memory; an error when the GPU has less. A block may have 227 KiB
 * on compute capability 9.0, 163 on 8.0, 99 on 8.6, 8.9 and 12.0. */
int zest_cuda_shared(zest_cuda *cuda, const void *kernel, size_t bytes, const char *doing);
/* Grows a buffer. Freeing the old memory waits for the work that uses it. */
int zest_cuda_reserve(zest_cuda *cuda, zest_cuda_buffer *buffer, size_t bytes);

/* ---- profiler.cu ---- */

/* Records events around an operation when the profiler is on. */
size_t zest_cuda_profile_begin(zest_cuda *cuda, zest_profile_part kind);
void zest_cuda_profile_end(zest_cuda *cuda, size_t event);
int zest_cuda_profile(zest_device *device, int on);
int zest_cuda_profile_read(zest_device *device, double seconds[ZEST_PROFILE_PARTS]);
void zest_cuda_profile_close(zest_cuda *cuda);

struct zest_cuda_profile_scope {
    zest_cuda *cuda;
    size_t event;
    zest_cuda_profile_scope(zest_cuda *c, zest_profile_part kind)
        : cuda(c), event(zest_cuda_profile_begin(c, kind)) {}
    ~zest_cuda_profile_scope() { zest_cuda_profile_end(cuda, event); }
};

/* ---- gemm_cublas.cu ---- */

zest_status zest_cuda_cublas_open(zest_cuda *cuda, zest_error *error);
void zest_cuda_cublas_close(zest_cuda *cuda);
int zest_cuda_cublas_failed(zest_cuda *cuda, cublasStatus_t status, const char *doing);
/* Any GEMM: by the backend that suits it, lanes together or one by one. */
int zest_cuda_gemm(zest_cuda *cuda, const zest_gemm *gemm);

/* ---- gemm_select.cu ---- */

/* By cuBLASLt or our kernel, as the sizes say. 0: done, 1: neither can, nothing was done, -1: error. */
int zest_cuda_gemm_select(zest_cuda *cuda, const zest_gemm *gemm);

/* ---- gemm_sm90a.cu ---- */

/* By our kernel for compute capability 9.0. 0: done, 1: it does not suit, nothing was done, -1: error. */
int zest_cuda_gemm_sm90(zest_cuda *cuda, const zest_gemm *gemm);
/* Whether its epilogue would compute the norm. */
int zest_cuda_gemm_sm90_fuses_norm(const zest_cuda *cuda, const zest_gemm *gemm);
/* Called on compute capability 9.0. Without it this kernel and that of attention_sm90a.cu are never used. */
int zest_cuda_gemm_sm90_open(zest_cuda *cuda);

/* ---- gemm_f32.cu ---- */

/* An fp32 GEMM by bf16 products. 0: done, 1: it does not suit, nothing was done, -1: error. */
int zest_cuda_gemm_f32(zest_cuda *cuda, const zest_gemm *gemm);

/* ---- perturb.cu ---- */

/* The directions of a lane group: lane 2p + i is W + scale[p][i] z(seed[p]). */
struct zest_cuda_pairs {
    uint64_t seed[1 + ZEST_PAIRS_MORE];
    float scale[1 + ZEST_PAIRS_MORE][2];
    int count, lanes, signs; /* lanes of a pair: 1 or 2 */
};
zest_cuda_pairs zest_cuda_pairs_of(const zest_perturbation *p);

/* The next slot of a ring, with buffers of at least so many bytes. NULL: out of memory. */
zest_cuda_slot *zest_cuda_slot_next(zest_cuda *cuda, zest_cuda_ring *ring, size_t weights, size_t vectors);
int zest_cuda_ring_open(zest_cuda *cuda, zest_cuda_ring *ring, unsigned count);
void zest_cuda_ring_close(zest_cuda_ring *ring);
/* Around what fills a slot: work in zest_cuda_slot_stream, which may begin when the slot is no longer read, and which is
 * done before what is queued in `stream` next. As often as needed. */
int zest_cuda_slot_begin(zest_cuda *cuda, const zest_cuda_slot *slot);
int zest_cuda_slot_publish(zest_cuda *cuda, const zest_cuda_slot *slot);
cudaStream_t zest_cuda_slot_stream(const zest_cuda *cuda);
/* To be called when the operation that reads the slot is queued. */
int zest_cuda_slot_release(zest_cuda *cuda, zest_cuda_slot *slot);

/* A stored tensor, and where its perturbed copies go: (lanes, count). */
struct zest_cuda_segment {
    const void *from;
    void *to;
    int64_t lane;          /* lane stride of `to`, in elements */
    uint64_t first, count; /* first: number of the tensor's first element in the noise stream */
    unsigned block;        /* first thread block of the launch that works on it */
    unsigned char dtype, out_type, perturbed[2], vectorized; /* vectorized: see zest_cuda_perturb */
    zest_noise_law law;
};
enum { ZEST_CUDA_SEGMENTS = 2 * (1 + ZEST_LINEAR_MORE) };

/* Perturbs all segments in one launch of the prefetch stream. What is queued in `stream` next waits for
 * it. */
int zest_cuda_perturb(zest_cuda *cuda, zest_cuda_slot *slot, zest_cuda_segment *segments, size_t count,
                      const zest_perturbation *p);
zest_cuda_segment zest_cuda_segment_of(const zest_weight *weight, const zest_perturbation *p, void *to,
                                       int64_t lane, zest_compute type);
int zest_cuda_is_perturbed(const zest_weight *weight, const zest_perturbation *p);

/* ---- law_vectors.cu ---- */

/* Of the rows (u) or the columns (a) of a matrix: elements first .. first+count-1 of every vector, (directions, rank,
 * stride). */
struct zest_cuda_law_side {
    float *to;
    uint64_t first;
    size_t count, stride;
};

/* The vectors that noise of low rank is made of. For a forward pass: of the pairs. For an update: of its terms, in the
 * device's memory, with u_j times the term's coefficient and the law's factor, rounded once. */
struct zest_cuda_law_vectors {
    zest_noise_law law;
    zest_cuda_pairs pairs;
    const zest_update_term *terms; /* NULL: pairs */
    unsigned count;                /* directions */
    zest_cuda_law_side side[2];    /* by zest_noise_side */
};
int zest_cuda_fill_law_vectors(zest_cuda *cuda, const zest_cuda_law_vectors *vectors, cudaStream_t stream);

/* A tensor that a kernel over all tensors works on; see tensor_loop.cuh. */
struct zest_cuda_tensor {
    void *data;
    uint64_t first, count;
    uint64_t block; /* first thread block of the launch that works on it */
    int dtype;
};
/* All tensors, in host memory that the caller frees, and the size of the launch. NULL: out of memory. */
zest_cuda_tensor *zest_cuda_tensor_list(const zest_cuda *cuda, const zest_params *params, unsigned *blocks,
                                        unsigned *chunks_per_block);

/* ---- layernorm.cu ---- */

/* Perturbs gain and bias for all lanes, for what is queued next. NULL: an error. */
zest_cuda_slot *zest_cuda_norm_perturb(zest_cuda *cuda, const zest_norm *args, const zest_perturbation *p,
                                       zest_gemm_norm *norm);
/* A separate norm kernel over the output of a GEMM that is queued. */
int zest_cuda_norm_after_gemm(zest_cuda *cuda, const zest_gemm *gemm);

/* ---- linear.cu, linear_lowrank.cu ---- */

/* Sizes, strides, inputs, output and residual of a linear map. */
zest_gemm zest_cuda_linear_shape(const zest_cuda *cuda, const zest_linear *args);
/* Whether any of its weights is perturbed by noise of low rank; such a map. */
int zest_cuda_linear_is_low_rank(const zest_linear *args);
int zest_cuda_linear_low_rank(zest_cuda *cuda, const zest_linear *args, zest_workspace *scratch);

/* ---- update_lowrank.cu ---- */

/* Of one matrix: loop.tensors is its entry, in a launch of so many blocks. terms are in the device's memory. */
struct tensor_loop_params;
int zest_cuda_update_low_rank(zest_cuda *cuda, const zest_tensor *tensor, const tensor_loop_params *loop,
                              unsigned blocks, const zest_update_term *terms, size_t count, float keep);

/* ---- The operations ---- */

int zest_cuda_linear(const zest_linear *args, int threads, zest_workspace *scratch);
int zest_cuda_norm(const zest_norm *args, int threads, zest_workspace *scratch);
int zest_cuda_attention(const zest_attention *args, int threads, zest_workspace *scratch);
/* 0: done, 1: it does not suit, nothing was done, -1: error. */
int zest_cuda_attention_window(zest_cuda *cuda, const zest_attention *args);
int zest_cuda_attention_sm90(zest_cuda *cuda, const zest_attention *args);
int zest_cuda_attention_mma(zest_cuda *cuda, const zest_attention *args);
int zest_cuda_attention_wide(zest_cuda *cuda, const zest_attention *args);
/* The largest head dimension that any of them takes; beyond 256 only attention_wide. */
size_t zest_cuda_attention_max_head_dim(const zest_cuda *cuda);
void zest_cuda_rotary(void *x, size_t rows, size_t stride, size_t heads, size_t head_dim, size_t rotary_dim,
                      const uint32_t *positions, const float *cosines, const float *sines, int threads,
                      zest_workspace *scratch);
void zest_cuda_gate(void *gate, const void *up, size_t count, zest_activation activation, int threads,
                    zest_workspace *scratch);
int zest_cuda_gather(const zest_gather *args, int threads, zest_workspace *scratch);
void zest_cuda_add_scaled(void *out, const void *x, float factor, const void *y, size_t count, int threads,
                          zest_workspace *scratch);
void zest_cuda_soft_cap(float *x, size_t count, float cap, int threads, zest_workspace *scratch);
/* gain (lanes, width), `lane` apart: adds the offset. */
int zest_cuda_offset_gain(zest_cuda *cuda, float *gain, int64_t lane, size_t width, size_t lanes,
                          float offset);
int zest_cuda_copy_rows(zest_device *device, const zest_copy_rows *args);
int zest_cuda_head_rows(zest_device *device, const zest_head_rows *args);
int zest_cuda_label_logits(zest_device *device, const zest_label_logits *args);
int zest_cuda_sum_logits(zest_device *device, const zest_logit_block *block, zest_logit_sum *sums);
int zest_cuda_best_logits(zest_device *device, const zest_logit_block *block, zest_logit_best *best);
int zest_cuda_update(zest_device *device, const zest_params *params, const zest_update_term *terms,
                     size_t count, float keep, uint64_t rounding, int nearest);
int zest_cuda_peak(zest_device *device, zest_device_peak *peak);
/* out = act(out + bias) + residual in place: what the GEMM's own epilogue could not do. */
int zest_cuda_epilogue(zest_cuda *cuda, const zest_gemm *gemm, const void *bias, zest_activation activation,
                       const void *residual);

/* ---- Types ---- */

static inline size_t zest_cuda_element_size(zest_compute type) { return type == ZEST_COMPUTE_F32 ? 4 : 2; }
static inline zest_dtype zest_cuda_dtype(zest_compute type) {
    return type == ZEST_COMPUTE_F32    ? ZEST_DTYPE_F32
           : type == ZEST_COMPUTE_BF16 ? ZEST_DTYPE_BF16
                                       : ZEST_DTYPE_F16;
}
/* Elements from a lane to the next one. */
static inline int64_t zest_cuda_lane_stride(const void *first, const void *second, size_t size) {
    return ((const char *)second - (const char *)first) / (int64_t)size;
}
static inline unsigned zest_cuda_blocks(size_t work, size_t each) {
    size_t blocks = (work + each - 1) / each;
    return (unsigned)(blocks < 0x7fffffff ? blocks : 0x7fffffff);
}

/* Runs code with Element standing for the type of activations in a compute type. */
#define ZEST_CUDA_DISPATCH(compute, Element, ...)    \
    do {                                             \
        if ((compute) == ZEST_COMPUTE_F32) {         \
            typedef float Element;                   \
            __VA_ARGS__;                             \
        } else if ((compute) == ZEST_COMPUTE_BF16) { \
            typedef __nv_bfloat16 Element;           \
            __VA_ARGS__;                             \
        } else {                                     \
            typedef __half Element;                  \
            __VA_ARGS__;                             \
        }                                            \
    } while (0)

#endif
