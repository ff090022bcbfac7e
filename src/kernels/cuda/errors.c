/* From the name of a CUDA or cuBLAS error to a status, a message and advice. */
#include "kernels/cuda/errors.h"

#include <string.h>

/* Advice by error code. Codes that are not listed get the last row's. */
static const struct {
    const char *name;
    zest_status status;
    const char *advice;
} causes[] = {
    {"cudaErrorMemoryAllocation", ZEST_ERROR_MEMORY,
     "use a smaller batch or fewer live pairs (--live), or end other programs on the GPU (nvidia-smi lists "
     "them)"},
    {"CUBLAS_STATUS_ALLOC_FAILED", ZEST_ERROR_MEMORY,
     "use a smaller batch or fewer live pairs (--live), or end other programs on the GPU (nvidia-smi lists "
     "them)"},
    {"cudaErrorNoDevice", ZEST_ERROR_DEVICE,
     "check with nvidia-smi that the driver sees a GPU and that CUDA_VISIBLE_DEVICES does not hide it, or "
     "use "
     "--device cpu"},
    {"cudaErrorInsufficientDriver", ZEST_ERROR_DEVICE,
     "install an NVIDIA driver that is as new as the CUDA toolkit of the build, or use --device cpu"},
    {"cudaErrorDevicesUnavailable", ZEST_ERROR_DEVICE,
     "another program may hold the GPU in exclusive mode: see nvidia-smi, and run again when it has ended"},
    {"cudaErrorSystemNotReady", ZEST_ERROR_DEVICE,
     "the driver's services are not running (nvidia-fabricmanager on machines with NVSwitch): start them"},
    {"cudaErrorSystemDriverMismatch", ZEST_ERROR_DEVICE,
     "the driver's kernel module and its library differ in version, as after an update: restart the machine"},
    {"cudaErrorMpsConnectionFailed", ZEST_ERROR_DEVICE,
     "the MPS daemon does not answer: restart nvidia-cuda-mps-control, or unset CUDA_MPS_PIPE_DIRECTORY"},
    {"cudaErrorMpsRpcFailure", ZEST_ERROR_DEVICE,
     "another process under MPS may have failed and taken this one along: run again with --resume"},
    {"cudaErrorECCUncorrectable", ZEST_ERROR_DEVICE,
     "the GPU's memory is faulty: see nvidia-smi -q -d ECC, and reset or replace the GPU"},
    {"cudaErrorLaunchTimeout", ZEST_ERROR_DEVICE,
     "a GPU that drives a display ends long kernels: use a smaller batch, or a GPU without a display"},
    {"cudaErrorIllegalAddress", ZEST_ERROR_DEVICE,
     "this is a defect of zest or of the driver: please report it, with the output under compute-sanitizer; "
     "kernels run later than they are queued, and CUDA_LAUNCH_BLOCKING=1 shows which one failed"},
    {"cudaErrorMisalignedAddress", ZEST_ERROR_DEVICE,
     "this is a defect of zest or of the driver: please report it, with the output under compute-sanitizer; "
     "kernels run later than they are queued, and CUDA_LAUNCH_BLOCKING=1 shows which one failed"},
    {"cudaErrorLaunchFailure", ZEST_ERROR_DEVICE,
     "a kernel crashed, or the GPU fell off the bus: see dmesg for Xid messages, and report it if there are "
     "none"},
    {"CUBLAS_STATUS_NOT_INITIALIZED", ZEST_ERROR_DEVICE,
     "cuBLAS does not suit the driver or finds no memory: check both with nvidia-smi, or name another "
     "libcublasLt.so in ZEST_CUBLASLT"},
    {"CUBLAS_STATUS_ARCH_MISMATCH", ZEST_ERROR_DEVICE,
     "this cuBLAS does not support the GPU: name a newer libcublasLt.so in ZEST_CUBLASLT"},
    {NULL, ZEST_ERROR_DEVICE, "check the GPU with nvidia-smi and run again; --device cpu does without it"},
};

zest_status zest_cuda_error_set(zest_error *error, const zest_cuda_failure *f) {
    size_t i = 0;
    while (causes[i].name && strcmp(causes[i].name, f->name)) i++;
    int has_gpu = f->gpu && *f->gpu, has_text = f->text && *f->text && strcmp(f->text, f->name);
    return zest_error_set(error, causes[i].status, "%s%s failed while %s: %s%s%s%s; %s",
                          has_gpu ? "the GPU " : "CUDA", has_gpu ? f->gpu : "", f->doing, f->name,
                          has_text ? " (" : "", has_text ? f->text : "", has_text ? ")" : "",
                          causes[i].advice);
}

static double mib(size_t bytes) { return (double)bytes / 1048576; }

zest_status zest_cuda_error_memory(zest_error *error, size_t wanted, size_t free_bytes, size_t total,
                                   size_t allocated, size_t limit) {
    static const char advice[] = "use a smaller batch or fewer live pairs (--live)";
    if (limit && wanted > limit - (allocated < limit ? allocated : limit))
        return zest_error_set(
            error, ZEST_ERROR_MEMORY,
            "out of GPU memory: %.1f MiB wanted, and %.1f of the %.1f MiB that ZEST_CUDA_MEMORY "
            "allows are in use; raise it, or %s",
            mib(wanted), mib(allocated), mib(limit), advice);
    return zest_error_set(error, ZEST_ERROR_MEMORY,
                          "out of GPU memory: %.1f MiB wanted, %.1f of %.1f MiB are free; %s", mib(wanted),
                          mib(free_bytes), mib(total), advice);
}

zest_status zest_cuda_error_gpu(const char *gpu, int major, int minor, zest_cuda_code code,
                                const char *built_for, zest_error *error) {
    if (major < 8)
        return zest_error_set(
            error, ZEST_ERROR_ARGUMENT,
            "the GPU %s is too old: it has compute capability %d.%d, the kernels need 8.0 or "
            "newer; use --device cpu",
            gpu, major, minor);
    if (code == ZEST_CUDA_CODE_MISSING)
        return zest_error_set(
            error, ZEST_ERROR_ARGUMENT,
            "this program has no code for the GPU %s of compute capability %d.%d: it was built "
            "for %s; build it again with: make CUDA_ARCH=sm_%d%d",
            gpu, major, minor, built_for, major, minor);
    if (code == ZEST_CUDA_CODE_NEWER_PTX)
        return zest_error_set(
            error, ZEST_ERROR_ARGUMENT,
            "the driver is older than the CUDA that this program was built with (for %s), and "
            "cannot compile it for the GPU %s of compute capability %d.%d; build it again with: "
            "make CUDA_ARCH=sm_%d%d, or update the driver",
            built_for, gpu, major, minor, major, minor);
    return ZEST_OK;
}
