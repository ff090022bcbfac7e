/* zest bench descent: many steps of a shape with random weights on one batch. Its loss falls if lanes, tilt
 * and update work together at that size. */
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "cli/bench.h"
#include "cli/bench_step.h"
#include "cli/output.h"

/* The loss of the weights themselves. */
static zest_status loss_now(zest_bench_job *b, double *loss, zest_error *error) {
    zest_model_lane itself = {.direction = {.gain = 1}, .scale = 0};
    return zest_model_losses(b->runner, &itself, 1, &b->work.objective, b->losses, loss, NULL, error);
}

static zest_status descend(const zest_options *options, zest_bench_job *b, double *first, double *last,
                           double *seconds, zest_error *error) {
    uint64_t steps = zest_options_whole(options, ZEST_OPTION_STEPS);
    int json = (int)zest_options_whole(options, ZEST_OPTION_JSON);
    zest_bench_times times = {0};
    zest_status status = loss_now(b, first, error);
    *last = *first;
    double began = zest_clock_now();
    for (uint64_t i = 0; i < steps && !status; i++) {
        status = zest_bench_take_step(b, i, &times, error);
        if (status || ((i + 1) % (steps / 10 + 1) && i + 1 < steps)) continue;
        status = loss_now(b, last, error);
        if (!status && !json) printf("step %5llu  loss %.4f\n", (unsigned long long)i + 1, *last);
    }
    *seconds = zest_clock_now() - began;
    return status;
}

int zest_bench_descent(const zest_options *options, zest_cpu cpu) {
    zest_error error = {0};
    zest_bench_job b = {.lr = zest_options_number(options, ZEST_OPTION_LR)};
    double first = NAN, last = NAN, seconds = 0;
    zest_status status = zest_bench_prepare(&b, options, zest_forward_for(cpu), cpu, &error);
    if (!status) status = descend(options, &b, &first, &last, &seconds, &error);
    int code = ZEST_EXIT_OK;
    if (status)
        code = zest_output_fail(status, error.message);
    else if (zest_options_whole(options, ZEST_OPTION_JSON))
        code = zest_output_json(json_pack("{s:s, s:s, s:I, s:o, s:o, s:f}", "bench", "descent", "shape",
                                          zest_options_text(options, ZEST_OPTION_SHAPE), "steps",
                                          (json_int_t)zest_options_whole(options, ZEST_OPTION_STEPS),
                                          "first_loss", zest_output_real(first), "last_loss",
                                          zest_output_real(last), "seconds", seconds));
    else
        printf("loss %.4f at the start, %.4f at the end; %.1f s\n", first, last, seconds);
    zest_bench_discard(&b);
    return code;
}
