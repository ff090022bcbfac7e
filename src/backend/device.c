#include "backend/device.h"

zest_status zest_device_open(zest_device_kind kind, zest_compute compute, zest_device **device,
                             zest_error *error) {
    *device = NULL;
    if (kind != ZEST_DEVICE_CUDA)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "the CPU is not opened as a device");
#ifdef ZEST_CUDA
    return zest_cuda_open(compute, device, error);
#else
    (void)compute;
    return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                          "this zest was built without CUDA: install nvcc and run 'make CUDA=on', or use "
                          "--device cpu");
#endif
}

void zest_device_close(zest_device *device) {
    if (device) device->operations->device->close(device);
}
