/* cuBLASLt. The opaque structures hold what was set, as words; an algorithm says which heuristic it is and for what
 * it was asked, since the real library's answer is a function of that. */
#include "tests/cuda/mock/mock.h"

#include <cublasLt.h>
#include <string.h>

enum { DESC_WORDS = sizeof(cublasLtMatmulDescOpaque_t) / 8, LAYOUT_WORDS = 6, CANDIDATES = 6 };
enum { TYPE, ROWS, COLUMNS, STRIDE, BATCH, LANE }; /* of a layout */

static cublasStatus_t fails(const char *what) {
    return mock_call(what) ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
    *handle = (cublasLtHandle_t)1;
    return fails("");
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    (void)handle;
    return CUBLAS_STATUS_SUCCESS;
}
const char *cublasLtGetStatusName(cublasStatus_t status) {
    (void)status;
    return "CUBLAS_STATUS_EXECUTION_FAILED";
}
const char *cublasLtGetStatusString(cublasStatus_t status) {
    (void)status;
    return "an error of the mock";
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t desc, size_t size,
                                               cublasComputeType_t compute, cudaDataType_t scale) {
    memset(desc, 0, size);
    desc->data[0] = (uint64_t)compute << 32 | (uint64_t)scale;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute, const void *value,
                                              size_t size) {
    if ((unsigned)attribute >= DESC_WORDS || size > 8) return CUBLAS_STATUS_INVALID_VALUE;
    desc->data[attribute] = 0;
    memcpy(&desc->data[attribute], value, size);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, size_t size,
                                                 cudaDataType type, uint64_t rows, uint64_t columns,
                                                 int64_t stride) {
    memset(layout, 0, size);
    layout->data[TYPE] = (uint64_t)type, layout->data[ROWS] = rows, layout->data[COLUMNS] = columns;
    layout->data[STRIDE] = (uint64_t)stride, layout->data[BATCH] = 1;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void *value,
                                                size_t size) {
    const int at = attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT ? BATCH : LANE;
    layout->data[at] = 0;
    memcpy(&layout->data[at], value, size);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference, size_t size) {
    memset(preference, 0, size);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t size) {
    uint64_t word = 0;
    memcpy(&word, value, size);
    if (attribute != CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) /* four alignments, of 256 at most */
        preference->data[0] = preference->data[0] << 16 | word;
    else
        preference->data[1] = word;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int *found) {
    (void)handle, (void)c;
    if (fails("")) return CUBLAS_STATUS_EXECUTION_FAILED;
    *found = wanted < CANDIDATES ? wanted : CANDIDATES;
    for (int i = 0; i < *found; i++) {
        memset(&results[i], 0, sizeof results[i]);
        uint64_t *data = results[i].algo.data;
        data[0] = (uint64_t)i, data[1] = a->data[ROWS] << 32 | a->data[COLUMNS];
        data[2] = b->data[ROWS] << 32 | b->data[COLUMNS];
        data[3] = d->data[STRIDE] << 32 | (d->data[BATCH] & 0xffffffff);
        data[4] = preference->data[0];
        data[5] = desc->data[CUBLASLT_MATMUL_DESC_EPILOGUE] << 32 | a->data[TYPE] << 16 | d->data[TYPE];
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algorithm,
                                       cublasLtMatmulHeuristicResult_t *result) {
    (void)handle, (void)desc, (void)a, (void)b, (void)c, (void)d;
    memset(result, 0, sizeof *result);
    result->algo = *algorithm;
    return fails("");
}

static void print_matrix(const char *name, const void *data, cublasLtMatrixLayout_t layout) {
    mock_print(" %s", name);
    mock_print_word((uint64_t)(uintptr_t)data);
    mock_print_bytes(layout->data, 8 * LAYOUT_WORDS);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                              cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t workspace_bytes,
                              cudaStream_t stream) {
    float scale[2];
    (void)handle;
    if (fails("matmul")) return CUBLAS_STATUS_EXECUTION_FAILED;
    memcpy(&scale[0], alpha, 4), memcpy(&scale[1], beta, 4);
    mock_print(" alpha=%g beta=%g desc", (double)scale[0], (double)scale[1]);
    mock_print_bytes(desc->data, sizeof desc->data);
    print_matrix("| A", a, a_layout);
    print_matrix("| B", b, b_layout);
    print_matrix("| C", c, c_layout);
    print_matrix("| D", d, d_layout);
    mock_print(" | algorithm");
    mock_print_bytes(algorithm->data, sizeof algorithm->data);
    mock_print(" | workspace");
    mock_print_word((uint64_t)(uintptr_t)workspace);
    mock_print(" bytes=%zu stream=%lu\n", workspace_bytes, (unsigned long)(uintptr_t)stream);
    return CUBLAS_STATUS_SUCCESS;
}
