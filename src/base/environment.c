/* The table of environment variables, and the functions that read them. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/environment.h"

static const zest_environment_variable variables[] = {
    [ZEST_ENVIRONMENT_CPU] =
        {"ZEST_CPU", "plain|avx2|avx512|avx512bf16|amx", "what the CPU has",
         "The highest instruction set that may be used. Only the results of bf16 arithmetic depend on it.",
         "users"},
    [ZEST_ENVIRONMENT_CUDA_MEMORY] = {"ZEST_CUDA_MEMORY", "MIB", "no limit",
                                      "The maximum GPU memory that a process allocates.", "users"},
    [ZEST_ENVIRONMENT_CUDA_TUNE] =
        {"ZEST_CUDA_TUNE", "off|on", "off",
         "Whether GEMM algorithms are timed and the fastest is used. Then the same command does not give the "
         "same journal.",
         "users"},
    [ZEST_ENVIRONMENT_CUBLASLT] = {"ZEST_CUBLASLT", "FILE", "libcublasLt.so as the loader finds it",
                                   "The cuBLASLt library to open. No other is tried.", "users"},
    [ZEST_ENVIRONMENT_CUDA_GEMM] =
        {"ZEST_CUDA_GEMM", "auto|cublas|sm90", "auto",
         "GEMM backend: chosen by the sizes, cuBLASLt, or zest's kernel for compute capability 9.0 where the "
         "operands allow it.",
         "tests"},
    [ZEST_ENVIRONMENT_CUDA_NORM] =
        {"ZEST_CUDA_NORM", "fused|separate|fallback", "fused",
         "Layer norm after a GEMM: in its epilogue, in a kernel of its own, or in the kernel for rows "
         "whose blocks waited too long.",
         "tests"},
    [ZEST_ENVIRONMENT_CUDA_F32] = {"ZEST_CUDA_F32", "bf16x6|fp32", "bf16x6",
                                   "fp32 GEMMs: six bf16 products on tensor cores, or fp32 arithmetic.",
                                   "tests"},
    {"HF_HOME", "FOLDER", "~/.cache/huggingface", "Where the token and pulled models are.", "users"},
    {"HF_HUB_CACHE", "FOLDER", "hub in HF_HOME", "Where pulled models are. Also read: HUGGINGFACE_HUB_CACHE.",
     "users"},
    {"HF_TOKEN", "TOKEN", "the file token in HF_HOME",
     "The token for gated and private models. Also read: HUGGING_FACE_HUB_TOKEN.", "users"},
    {"HF_TOKEN_PATH", "FILE", "token in HF_HOME", "The file of the token.", "users"},
    {"HF_ENDPOINT", "URL", "https://huggingface.co", "The server that models are pulled from.", "users"},
    {"HF_HUB_OFFLINE", "1", "0", "1: nothing is pulled. Also read: TRANSFORMERS_OFFLINE.", "users"},
    {"HF_HUB_DOWNLOAD_TIMEOUT", "SECONDS", "30", "How long a download may stall.", "users"},
    {"XDG_CACHE_HOME", "FOLDER", "~/.cache", "The parent of HF_HOME's default.", "users"},
    {"SSL_CERT_FILE", "FILE", "the system's", "Certificates that servers are checked with.", "users"},
    {"OMP_WAIT_POLICY", "active|passive", "unset",
     "If this or GOMP_SPINCOUNT is set, zest does not change how OpenMP threads wait; otherwise they spin "
     "only briefly.",
     "users"},
    {"CUDA_VISIBLE_DEVICES", "LIST", "all",
     "The GPUs that zest may use. A run uses the first; of several ranks on a machine each takes one "
     "in turn.",
     "users"},
    {"OMPI_COMM_WORLD_RANK", "NUMBER", "unset",
     "Set by mpirun: the process is one of several ranks. Also read: OMPI_COMM_WORLD_SIZE, PMI_RANK, "
     "PMI_SIZE, PMIX_RANK, SLURM_STEP_NUM_TASKS.",
     "users"},
    {"TMPDIR", "FOLDER", "/tmp", "Where ranks keep the files that --broadcast sends them, while they run.",
     "users"},
    {"CUDA_MPS_PIPE_DIRECTORY", "FOLDER", "/tmp/nvidia-mps",
     "Where zest sweep looks for NVIDIA's MPS daemon.", "users"},
};
enum { COUNT = sizeof variables / sizeof *variables };

const zest_environment_variable *zest_environment_at(int i) {
    return i >= 0 && i < COUNT ? &variables[i] : NULL;
}

const char *zest_environment_text(zest_environment_id id) {
    const char *value = getenv(variables[id].name);
    return value && *value ? value : NULL;
}

/* "a|b|c" as "a, b or c". */
static void list_words(const char *words, char *list, size_t size) {
    size_t used = 0;
    for (; *words && used + 5 < size; words++) {
        if (*words != '|')
            list[used++] = *words;
        else
            used += (size_t)snprintf(list + used, size - used, "%s", strchr(words + 1, '|') ? ", " : " or ");
    }
    list[used] = '\0';
}

zest_status zest_environment_choice(zest_environment_id id, int *choice, zest_error *error) {
    const zest_environment_variable *v = &variables[id];
    const char *value = zest_environment_text(id), *word = v->values;
    if (!value) return ZEST_OK;
    for (int i = 0; word; i++) {
        size_t length = strcspn(word, "|");
        if (strlen(value) == length && !memcmp(value, word, length)) {
            *choice = i;
            return ZEST_OK;
        }
        word = word[length] ? word + length + 1 : NULL;
    }
    char allowed[256];
    list_words(v->values, allowed, sizeof allowed);
    return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                          "the environment variable %s is '%.64s', but may only be %s", v->name, value,
                          allowed);
}

zest_status zest_environment_number(zest_environment_id id, uint64_t low, uint64_t high, uint64_t *number,
                                    zest_error *error) {
    const char *value = zest_environment_text(id);
    if (!value) return ZEST_OK;
    char *end = NULL;
    errno = 0;
    uint64_t found = strtoull(value, &end, 10);
    /* strtoull accepts signs and blanks */
    if (*value < '0' || *value > '9' || *end || errno || found < low || found > high)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "the environment variable %s is '%.64s', but must be an integer from %" PRIu64
                              " to %" PRIu64,
                              variables[id].name, value, low, high);
    *number = found;
    return ZEST_OK;
}
