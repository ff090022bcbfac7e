#include "analysis/slice.h"

#include <stdlib.h>

zest_status zest_slice_measure(zest_slice *slice, zest_slice_loss *loss, void *user, zest_error *error) {
    size_t n = slice->points |= 1, rows = slice->dimensions == 2 ? n : 1;
    slice->places = slice->values = NULL;
    if (n < 3 || slice->dimensions < 1 || slice->dimensions > 2 || !(slice->span > 0))
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "a slice has one or two dimensions, 3 points or more and a span");
    slice->places = malloc(n * sizeof *slice->places);
    slice->values = malloc(n * rows * sizeof *slice->values);
    if (!slice->places || !slice->values)
        return zest_error_memory(error, "a slice", n * rows * sizeof(double));
    /* counted from the middle: the two halves are mirror images, and 0 is 0 */
    double half = (double)(n / 2);
    for (size_t i = 0; i < n; i++) slice->places[i] = slice->span * (((double)i - half) / half);
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < n * rows && !status; i++)
        status =
            loss(user, slice->places[i % n], rows > 1 ? slice->places[i / n] : 0, &slice->values[i], error);
    return status;
}

void zest_slice_free(zest_slice *slice) {
    free(slice->places);
    free(slice->values);
    slice->places = slice->values = NULL;
}
