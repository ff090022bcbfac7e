/* What the files of the CUDA backend share. One device object: a stream in which everything runs in order,
 * one beside it that makes the lanes' weights ahead of the products, cuBLASLt, and memory. C headers are
 * included inside extern "C". */
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

/* Of the rows of a product's result, which have no gaps then. */
struct zest_gemm_norm {
    int there, rms;
    const float *gain, *bias; /* NULL: none */
    int64_t lane;             /* between those of the lanes */
    float epsilon;
};

/* D[b] = act(A[b] W[b]' + bias[b]) or A[b] W[b]' + bias[b] + residual[b], then norm; rows of D are rows of A;
 * all types but `out` are the compute's. */
struct zest_gemm {
    const void *weight, *a, *bias, *residual; /* bias, residual: NULL for none */
    void *out;
    int transposed, batch;
    int a_transposed;  /* a is inputs × rows */
    int fp32_output;   /* out, bias and residual are floats */
    int split;         /* weight and a are bf16, though the compute is f32 */
    int deterministic; /* the algorithm follows from the sizes alone */
    size_t rows, inputs, outputs, a_stride, out_stride, residual_stride;
    int64_t weight_lane, a_lane, out_lane, residual_lane, bias_lane; /* elements */
    zest_activation activation;                                      /* NONE with a residual */
    zest_gemm_norm norm;
};

struct zest_gemm_plan {
    uint64_t key[8];
    cublasLtMatmulAlgo_t algorithm;
    int found, uses;
    size_t rows, inputs; /* for which the algorithm is known to be good */
    int own;             /* our kernel's, not cuBLASLt's */
};
enum { ZEST_GEMM_PLANS = 256, ZEST_CUDA_WORKSPACE = 48 << 20, ZEST_CUDA_PARTS = 16 << 20 };

struct zest_cuda_room {
    char *data;
    size_t size;
};

struct zest_cuda_block {
    void *data;
    size_t size;
};

/* Weights, biases, gains and rows of tables as the lanes of one operation see them. Some operations' worth
 * exist at once, so that they can be made ahead. */
struct zest_cuda_slot {
    zest_cuda_room weights, vectors;
    cudaEvent_t made, used; /* by the stream beside; by the operation */
};

/* Linear layers and norms whose perturbed weights exist at once. */
enum { ZEST_CUDA_LINEAR_SLOTS = 2, ZEST_CUDA_NORM_SLOTS = 4 };

struct zest_cuda_ring {
    zest_cuda_slot slots[ZEST_CUDA_NORM_SLOTS];
    unsigned count, next;
};

struct zest_cuda_mark { /* an operation of a watched pass */
    cudaEvent_t begin, end;
    zest_profile_part kind;
};

struct zest_cuda {
    zest_device base;
    char name[256];
    int number, processors;
    size_t shared_most;   /* bytes of shared memory that a block may have */
    void *describe_tiles; /* the driver's cuTensorMapEncodeTiled; NULL: no tiles */
    cudaStream_t stream, beside;
    cudaEvent_t changed; /* behind what the stream beside has to wait for */
    int has_changed;
    zest_cublas cublas;
    zest_cuda_room workspace; /* of cuBLASLt */
    zest_cuda_room parts;     /* of rows, for gemm_sm90.cuh: two rooms of them, */
    unsigned parts_turn;      /* the one that was used last, */
    unsigned parts_used;      /* and how many of it */
    zest_cuda_ring linears, norms;
    zest_cuda_room aside;   /* a residual that a product would overwrite */
    zest_cuda_room scratch; /* of one operation */
    zest_gemm_plan *plans;
    size_t plan_next;
    zest_cuda_settings settings;
    zest_cuda_room split_weight, split_a;

    char *pinned; /* on the host, for uploads in flight */
    size_t pinned_size, pinned_used;
    cudaEvent_t uploaded; /* behind the last upload out of pinned */
    zest_cuda_room staged;
    size_t staged_used;

    zest_cuda_block *blocks;
    size_t block_count, block_room, held, peak;

    int watching;
    zest_cuda_mark *marks;
    size_t mark_count, mark_room;
};

static inline zest_cuda *zest_cuda_of(zest_device *device) { return (zest_cuda *)device; }
static inline zest_cuda *zest_cuda_of(zest_workspace *scratch) { return (zest_cuda *)scratch->device; }

/* ---- device.cu ---- */

/* Non-zero when the call failed. The device keeps the first error; doing: "copying rows". */
int zest_cuda_failed(zest_cuda *cuda, cudaError_t error, const char *doing);
int zest_cuda_launched(zest_cuda *cuda, const char *doing); /* the same for a kernel that was just launched */
int zest_cuda_no_memory(zest_cuda *cuda, const char *what, size_t bytes); /* of the host; non-zero */
int zest_cuda_unsupported(zest_cuda *cuda, const char *what); /* by the GPU or its libraries; non-zero */
/* Lets a kernel have that much shared memory, of which GPUs have different amounts (9.0: 227 KiB a block, 8.0: 163,
 * 8.6, 8.9 and 12.0: 99). Non-zero when this one has less. */
int zest_cuda_shared(zest_cuda *cuda, const void *kernel, size_t bytes, const char *doing);
/* Grows a room; work that is queued may still use the old one, so this waits when it has to. */
int zest_cuda_reserve(zest_cuda *cuda, zest_cuda_room *room, size_t bytes);
/* Around an operation, when a pass is watched. */
size_t zest_cuda_begin(zest_cuda *cuda, zest_profile_part kind);
void zest_cuda_end(zest_cuda *cuda, size_t mark);
int zest_cuda_watch(zest_device *device, int on);
int zest_cuda_times(zest_device *device, double seconds[ZEST_PROFILE_PARTS]);
void zest_cuda_forget_marks(zest_cuda *cuda);

struct zest_cuda_watch_one {
    zest_cuda *cuda;
    size_t mark;
    zest_cuda_watch_one(zest_cuda *c, zest_profile_part kind) : cuda(c), mark(zest_cuda_begin(c, kind)) {}
    ~zest_cuda_watch_one() { zest_cuda_end(cuda, mark); }
};

/* ---- gemm_cublas.cu ---- */

zest_status zest_cuda_cublas_open(zest_cuda *cuda, zest_error *error);
void zest_cuda_cublas_close(zest_cuda *cuda);
int zest_cuda_cublas_failed(zest_cuda *cuda, cublasStatus_t status, const char *what);
int zest_cuda_gemm(zest_cuda *cuda, const zest_gemm *job);

/* ---- gemm_select.cu ---- */

/* 0 when done, 1 when there is nothing for it, -1 on error. */
int zest_cuda_multiply(zest_cuda *cuda, const zest_gemm *job);

/* ---- gemm_sm90a.cu ---- */

/* The same by our own kernel; 1: not for this job or this GPU, nothing has been done. */
int zest_cuda_multiply_hopper(zest_cuda *cuda, const zest_gemm *job);
/* Whether it would do the job's norm. */
int zest_cuda_hopper_norms(const zest_cuda *cuda, const zest_gemm *job);
/* For GPUs of compute capability 9.0; not called: every job is refused, here and in
 * attention_sm90a.cu. */
int zest_cuda_hopper_open(zest_cuda *cuda);

/* ---- gemm_f32.cu ---- */

/* The same for an fp32 product; 1: not for this job, nothing has been done. */
int zest_cuda_multiply_split(zest_cuda *cuda, const zest_gemm *job);

/* ---- perturb.cu ---- */

/* The directions of a call. */
struct zest_cuda_pairs {
    uint64_t seed[1 + ZEST_PAIRS_MORE];
    float scale[1 + ZEST_PAIRS_MORE][2];
    int count, lanes, signs; /* lanes of a pair: 1 or 2 */
};
zest_cuda_pairs zest_cuda_pairs_of(const zest_perturbation *p);

/* The next slot of a ring, with that much room. NULL: there is none. */
zest_cuda_slot *zest_cuda_slot_next(zest_cuda *cuda, zest_cuda_ring *ring, size_t weights, size_t vectors);
int zest_cuda_ring_open(zest_cuda *cuda, zest_cuda_ring *ring, unsigned count);
void zest_cuda_ring_close(zest_cuda_ring *ring);
/* The operation that reads the slot is queued. */
int zest_cuda_slot_used(zest_cuda *cuda, zest_cuda_slot *slot);

/* A stored tensor, and where the lanes' versions of it go. */
struct zest_cuda_segment {
    const void *from;
    void *to;
    int64_t lane; /* elements between the lanes */
    uint64_t first, count;
    unsigned block;                            /* of the launch that begins it */
    unsigned char dtype, type, moves[2], fast; /* fast: zest_cuda_make's */
};
enum { ZEST_CUDA_SEGMENTS = 2 * (1 + ZEST_LINEAR_MORE) };

/* Makes all of them in one launch; what is queued next finds them there. */
int zest_cuda_make(zest_cuda *cuda, zest_cuda_slot *slot, zest_cuda_segment *segments, size_t count,
                   const zest_perturbation *p);
zest_cuda_segment zest_cuda_segment_of(const zest_weight *weight, const zest_perturbation *p, void *to,
                                       int64_t lane, zest_compute type);
int zest_cuda_moves(const zest_weight *weight, const zest_perturbation *p);

/* ---- perturb.cu ---- */

/* A tensor that a sweep goes over; see tensor_loop.cuh. */
struct zest_cuda_swept {
    void *data;
    uint64_t first, count;
    uint64_t block; /* of the launch that begins it */
    int dtype;
};
/* All of them, on the host and to be freed, and how the launch is to be; NULL: no memory. */
zest_cuda_swept *zest_cuda_sweep_plan(const zest_cuda *cuda, const zest_params *params, unsigned *blocks,
                                      unsigned *turns);

/* ---- layernorm.cu ---- */

/* The lanes' gains and biases, for what is queued next; NULL: they could not be made. */
zest_cuda_slot *zest_cuda_norm_vectors(zest_cuda *cuda, const zest_norm *job, const zest_perturbation *p,
                                       zest_gemm_norm *norm);
/* The norm of a product's result, which has been made. */
int zest_cuda_norm_result(zest_cuda *cuda, const zest_gemm *done);

/* ---- The operations ---- */

int zest_cuda_linear(const zest_linear *job, int threads, zest_workspace *scratch);
int zest_cuda_norm(const zest_norm *job, int threads, zest_workspace *scratch);
int zest_cuda_attention(const zest_attention *job, int threads, zest_workspace *scratch);
/* 1: not for this job, nothing has been done. */
int zest_cuda_attention_hopper(zest_cuda *cuda, const zest_attention *job);
int zest_cuda_attention_mma(zest_cuda *cuda, const zest_attention *job);
int zest_cuda_attention_wide(zest_cuda *cuda, const zest_attention *job);
/* The largest head that the latter, or any of them, takes. */
size_t zest_cuda_attention_widest(const zest_cuda *cuda);
void zest_cuda_rotary(void *x, size_t rows, size_t stride, size_t heads, size_t head_size,
                      const uint32_t *positions, const float *cosines, const float *sines, int threads,
                      zest_workspace *scratch);
void zest_cuda_gate(void *gate, const void *up, size_t count, zest_activation activation, int threads,
                    zest_workspace *scratch);
int zest_cuda_gather(const zest_gather *job, int threads, zest_workspace *scratch);
int zest_cuda_copy_rows(zest_device *device, const zest_copy_rows *job);
int zest_cuda_head_rows(zest_device *device, const zest_head_rows *job);
int zest_cuda_words(zest_device *device, const zest_label_logits *job);
int zest_cuda_sum_logits(zest_device *device, const zest_logit_block *block, zest_logit_sum *sums);
int zest_cuda_best_logits(zest_device *device, const zest_logit_block *block, zest_logit_best *best);
int zest_cuda_update(zest_device *device, const zest_params *params, const zest_update_term *terms,
                     size_t count, float keep, uint64_t rounding, int nearest);
int zest_cuda_ceiling(zest_device *device, zest_device_peak *ceiling);
/* x = act(x + bias) + residual in place, for what a product does not take along. Lanes are `lane` elements
 * apart. */
int zest_cuda_finish(zest_cuda *cuda, const zest_gemm *job, const void *bias, zest_activation activation,
                     const void *residual);

/* ---- Types ---- */

static inline size_t zest_cuda_size(zest_compute type) { return type == ZEST_COMPUTE_F32 ? 4 : 2; }
static inline zest_dtype zest_cuda_stored_as(zest_compute type) {
    return type == ZEST_COMPUTE_F32    ? ZEST_DTYPE_F32
           : type == ZEST_COMPUTE_BF16 ? ZEST_DTYPE_BF16
                                       : ZEST_DTYPE_F16;
}
/* Elements from a lane to the next. */
static inline int64_t zest_cuda_apart(const void *first, const void *second, size_t size) {
    return ((const char *)second - (const char *)first) / (int64_t)size;
}
static inline unsigned zest_cuda_blocks(size_t work, size_t each) {
    size_t blocks = (work + each - 1) / each;
    return (unsigned)(blocks < 0x7fffffff ? blocks : 0x7fffffff);
}

/* Does something with Cell standing for the type of a compute's activations. */
#define ZEST_CUDA_TYPED(compute, Cell, ...)          \
    do {                                             \
        if ((compute) == ZEST_COMPUTE_F32) {         \
            typedef float Cell;                      \
            __VA_ARGS__;                             \
        } else if ((compute) == ZEST_COMPUTE_BF16) { \
            typedef __nv_bfloat16 Cell;              \
            __VA_ARGS__;                             \
        } else {                                     \
            typedef __half Cell;                     \
            __VA_ARGS__;                             \
        }                                            \
    } while (0)

#endif
