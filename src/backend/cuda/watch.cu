/* Clocks around the operations of a pass. Events are only recorded, nobody waits. */
#include <stdlib.h>

#include "backend/cuda/cuda.h"

size_t zest_cuda_begin(zest_cuda *cuda, zest_device_time kind) {
    if (!cuda->watching) return 0;
    if (cuda->mark_count == cuda->mark_room) {
        size_t room = 2 * cuda->mark_room + 256;
        zest_cuda_mark *grown = (zest_cuda_mark *)realloc(cuda->marks, room * sizeof *grown);
        if (!grown) return 0;
        cuda->marks = grown;
        for (size_t i = cuda->mark_room; i < room; i++) {
            if (zest_cuda_failed(cuda, cudaEventCreate(&grown[i].begin), "making an event") ||
                zest_cuda_failed(cuda, cudaEventCreate(&grown[i].end), "making an event"))
                return 0;
            cuda->mark_room = i + 1;
        }
    }
    zest_cuda_mark *mark = &cuda->marks[cuda->mark_count++];
    mark->kind = kind;
    (void)zest_cuda_failed(cuda, cudaEventRecord(mark->begin, cuda->stream), "starting a clock");
    return cuda->mark_count;
}

void zest_cuda_end(zest_cuda *cuda, size_t mark) {
    if (cuda->watching && mark)
        (void)zest_cuda_failed(cuda, cudaEventRecord(cuda->marks[mark - 1].end, cuda->stream),
                               "stopping a clock");
}

int zest_cuda_watch(zest_device *device, int on) {
    zest_cuda *cuda = zest_cuda_of(device);
    cuda->watching = on;
    cuda->mark_count = 0;
    return 0;
}

int zest_cuda_times(zest_device *device, double seconds[ZEST_TIME_COUNT]) {
    zest_cuda *cuda = zest_cuda_of(device);
    for (int i = 0; i < ZEST_TIME_COUNT; i++) seconds[i] = 0;
    if (zest_cuda_failed(cuda, cudaStreamSynchronize(cuda->stream), "waiting for the GPU")) return -1;
    for (size_t i = 0; i < cuda->mark_count; i++) {
        float milliseconds = 0;
        if (zest_cuda_failed(cuda,
                             cudaEventElapsedTime(&milliseconds, cuda->marks[i].begin, cuda->marks[i].end),
                             "reading a clock"))
            return -1;
        seconds[cuda->marks[i].kind] += 1e-3 * (double)milliseconds;
    }
    return 0;
}

void zest_cuda_forget_marks(zest_cuda *cuda) {
    for (size_t i = 0; i < cuda->mark_room; i++) {
        (void)cudaEventDestroy(cuda->marks[i].begin);
        (void)cudaEventDestroy(cuda->marks[i].end);
    }
    free(cuda->marks);
}
