/* Runs by gradients on a GPU: near the CPU's, bit for bit the same after a stop or a kill, and readable on
 * the CPU; and sharpness by gradients there. Skipped without a GPU. */
#include <math.h>

#include "lab/sharpness/sharpness_internal.h"
#include "kernels/device.h"
#include "lab/sharpness/sharpness.h"
#include "train/checkpoint.h"
#include "tests/device.h"
#include "tests/training.h"

#define BASE                                                                                          \
    "task=examples/reviews/reviews.task shots=16 batch=16 seed=13 steps=6 eval-every=4 save-every=2 " \
    "threads=2 "
#define THERE "device=cuda "

static const char *const methods[] = {
    BASE "method=sgd lr=0.05 weights=f32 ",
    BASE "method=sgd lr=0.05 momentum=0.9 clip=1 ",
    BASE "method=adamw lr=1e-3 weight-decay=0.1 weights=f32 schedule=linear warmup=2 dropout=0.1 ",
    BASE "method=adamw lr=1e-3 compute=bf16 recompute=yes ",
    BASE "method=sam lr=0.05 radius=0.05 weights=f32 ",
    BASE "method=esam lr=0.05 k=2 weights=f32 ",
    BASE "method=tsam lr=0.05 k=2 t=5 momentum=0.5 weights=f32 ",
    BASE "method=tsam lr=0.05 k=2 t=5 ascent=0.05 weights=f32 freeze=*embeddings* ",
};
enum { METHODS = sizeof methods / sizeof *methods };

/* Of the losses of a few steps, which wander off as the roundings differ: bf16 operands, stochastic rounding
 * of moved bf16 weights alike. */
static double tolerance_of(const char *options) {
    return strstr(options, "bf16") || !strstr(options, "weights=f32") ? 0.03 : 2e-4;
}

static const char *with(const char *options, const char *more) {
    static char buffer[4][700];
    static int next;
    char *out = buffer[next++ % 4];
    snprintf(out, 700, "%s%s", options, more);
    return out;
}

static int near(double a, double b, double tolerance) { return fabs(a - b) <= tolerance * fmax(1, fabs(b)); }

/* ---- Training ---- */

static void the_cpus_losses_within_rounding(void **state) {
    (void)state;
    need_device();
    int bad = 0;
    for (int m = 0; m < METHODS; m++) {
        zest_trainer_result cpu, gpu;
        zest_log x, y;
        double tolerance = tolerance_of(methods[m]);
        test_remove(temp_path("cpu"));
        test_remove(temp_path("gpu"));
        assert_fine(training_run(methods[m], temp_path("cpu"), NULL, &cpu, error));
        assert_fine(training_run(with(methods[m], THERE), temp_path("gpu"), NULL, &gpu, error));
        assert_fine(zest_log_read(temp_path("cpu/log.jsonl"), &x, error));
        assert_fine(zest_log_read(temp_path("gpu/log.jsonl"), &y, error));
        assert_int_equal(x.step_count, y.step_count);
        for (size_t i = 0; i < x.step_count; i++) {
            int good = near(y.steps[i].loss, x.steps[i].loss, tolerance) &&
                       near(y.steps[i].norm, x.steps[i].norm, 20 * tolerance);
            if (!good || getenv("ZEST_VERBOSE"))
                printf("method %d, step %zu: loss %.7f and %.7f, norm %.6f and %.6f%s\n", m, i + 1,
                       x.steps[i].loss, y.steps[i].loss, x.steps[i].norm, y.steps[i].norm,
                       good ? "" : ": too far");
            bad += !good;
        }
        assert_true(!cpu.device_peak_bytes && gpu.device_peak_bytes > 0);
        assert_int_equal(y.end->device_peak_bytes, gpu.device_peak_bytes);
        bad += !near(gpu.dev.loss, cpu.dev.loss, tolerance) || !near(gpu.test.loss, cpu.test.loss, tolerance);
        zest_log_free(&x);
        zest_log_free(&y);
    }
    assert_int_equal(bad, 0);
}

static void a_stop_or_a_kill_costs_nothing(void **state) {
    (void)state;
    need_device();
    for (int m = 0; m < METHODS; m++) {
        zest_trainer_result whole, first, rest;
        training_events stop = {.stop_at = 3};
        training_events kill = {.copy_at = 3, .from = temp_path("whole"), .to = temp_path("killed")};
        test_remove(temp_path("whole"));
        test_remove(temp_path("cut"));
        test_remove(temp_path("killed"));
        assert_fine(training_run(with(methods[m], THERE), temp_path("whole"), &kill, &whole, error));
        assert_fine(training_run(with(methods[m], THERE), temp_path("cut"), &stop, &first, error));
        assert_int_equal(first.reason, ZEST_TRAINED_INTERRUPTED);
        assert_fine(training_resume(temp_path("cut"), "", &rest, error));
        same_first_order_run(temp_path("whole"), temp_path("cut"));
        assert_fine(training_resume(temp_path("killed"), "", &rest, error));
        same_first_order_run(temp_path("whole"), temp_path("killed"));
    }
}

/* What was trained there goes on here, and the other way round. */
static void a_run_changes_the_device(void **state) {
    (void)state;
    need_device();
    static const char *const ways[2][2] = {{"device=cuda", "device=cpu steps=8"},
                                           {"device=cpu", "device=cuda steps=8"}};
    for (int w = 0; w < 2; w++) {
        zest_trainer_result whole, first, rest;
        test_remove(temp_path("whole"));
        test_remove(temp_path("moved"));
        assert_fine(training_run(with(methods[2], "steps=8"), temp_path("whole"), NULL, &whole, error));
        assert_fine(training_run(with(methods[2], ways[w][0]), temp_path("moved"), NULL, &first, error));
        assert_fine(training_resume(temp_path("moved"), ways[w][1], &rest, error));
        assert_int_equal(rest.step, 8);
        assert_true(near(rest.dev.loss, whole.dev.loss, 5e-3)); /* the schedule was for 6 steps */
        zest_checkpoint checkpoint;
        zest_loaded loaded;
        zest_options options;
        zest_options_init(&options);
        assert_fine(zest_checkpoint_load(temp_path("moved/last"), &options, &loaded, &checkpoint, error));
        assert_non_null(checkpoint.path);
        assert_int_equal(checkpoint.step, 8);
        zest_load_free(&loaded);
        zest_checkpoint_free(&checkpoint);
        zest_options_free(&options);
    }
}

static void pretraining(void **state) {
    (void)state;
    need_device();
    zest_trainer_result cpu, gpu;
    static const char options[] = "text=README.md length=24 batch=8 steps=6 eval-every=3 lr=1e-3 warmup=2 "
                                  "held-out=0.1 seed=3 threads=2 weights=f32 save-every=2 ";
    training_events kill = {.copy_at = 5, .from = temp_path("gpu"), .to = temp_path("killed")};
    assert_fine(training_run(options, temp_path("cpu"), NULL, &cpu, error));
    assert_fine(training_run(with(options, THERE), temp_path("gpu"), &kill, &gpu, error));
    assert_true(near(gpu.dev.loss, cpu.dev.loss, 1e-3) && gpu.dev.loss < gpu.start.loss);
    assert_fine(training_resume(temp_path("killed"), "", &gpu, error));
    same_first_order_run(temp_path("gpu"), temp_path("killed"));
}

/* ---- Sharpness ---- */

typedef struct {
    zest_options options;
    zest_loaded loaded;
    zest_loaded_data data;
    zest_eval_target *target;
} review_target;

static void open_target(review_target *s, const char *device) {
    memset(s, 0, sizeof *s);
    zest_options_init(&s->options);
    assert_fine(zest_options_set_id(&s->options, ZEST_OPTION_TASK, "examples/reviews/reviews.task", error));
    assert_fine(zest_options_set_id(&s->options, ZEST_OPTION_DEVICE, device, error));
    assert_fine(zest_options_set_id(&s->options, ZEST_OPTION_FREEZE, "*word_embeddings*", error));
    assert_fine(zest_options_set_id(&s->options, ZEST_OPTION_WEIGHTS, "f32", error));
    assert_fine(zest_load_model(&s->loaded, training_model, NULL, &s->options, error));
    assert_fine(zest_load_resolve_defaults(&s->options, 0, error));
    assert_fine(zest_load_data(&s->data, &s->options, &s->loaded, ZEST_LOAD_TRAIN, error));
    zest_eval_target_options options = {.loaded = &s->loaded,
                                        .examples = &s->data.parts[ZEST_PART_TRAIN],
                                        .max_examples = 24,
                                        .seed = 3,
                                        .threads = 2};
    assert_fine(zest_eval_target_new(&options, &s->target, error));
}

static void close_target(review_target *s) {
    zest_eval_target_free(s->target);
    zest_load_free_data(&s->data);
    zest_load_free(&s->loaded);
    zest_options_free(&s->options);
}

static void sharpness(void **state) {
    (void)state;
    need_device();
    static const char *const devices[2] = {"cpu", "cuda"};
    static const double radii[] = {0.5};
    zest_sharpness_found found[2];
    zest_sharpness_plan plan = {.samples = 4,
                                .distribution = ZEST_SPHERE,
                                .radii = radii,
                                .radius_count = 1,
                                .t = 1,
                                .seed = 5,
                                .top = 3,
                                .lanczos_steps = 30,
                                .trace_samples = 4,
                                .slice = 2,
                                .points = 3,
                                .threads = 2};
    for (int i = 0; i < 2; i++) {
        review_target s;
        open_target(&s, devices[i]);
        found[i] = (zest_sharpness_found){0};
        zest_sharpness_target both = {.loaded = &s.loaded, .losses = s.target, .gradients = s.target};
        assert_fine(zest_sharpness_measure(&plan, &both, &found[i], error));
        close_target(&s);
    }
    assert_int_equal(found[0].top.count, found[1].top.count);
    int bad = 0;
    double scale = fabs(found[0].top.values[0]);
    for (size_t k = 0; k < found[0].top.count; k++) {
        double apart = fabs(found[0].top.values[k] - found[1].top.values[k]);
        printf("eigenvalue %zu: %.6f and %.6f, residuals %.2g and %.2g\n", k, found[0].top.values[k],
               found[1].top.values[k], found[0].top.residuals[k], found[1].top.residuals[k]);
        bad += !(apart <= 0.01 * scale + found[0].top.residuals[k] + found[1].top.residuals[k]);
    }
    printf("step %.3g and %.3g, trace %.5f and %.5f, loss %.6f and %.6f\n", found[0].top.step,
           found[1].top.step, found[0].trace.trace.value, found[1].trace.trace.value, found[0].loss,
           found[1].loss);
    bad += !near(found[1].loss, found[0].loss, 1e-4) ||
           !near(found[1].points[0].mean.value, found[0].points[0].mean.value, 1e-4);
    bad += !(fabs(found[0].trace.trace.value - found[1].trace.trace.value) <= 0.1 * scale);
    bad += !near(found[1].slice.values[4], found[0].slice.values[4], 1e-4); /* the middle: the model itself */
    zest_sharpness_free(&found[0]);
    zest_sharpness_free(&found[1]);
    assert_int_equal(bad, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_TEMP_FOLDER(the_cpus_losses_within_rounding),
        IN_TEMP_FOLDER(a_stop_or_a_kill_costs_nothing),
        IN_TEMP_FOLDER(a_run_changes_the_device),
        IN_TEMP_FOLDER(pretraining),
        cmocka_unit_test(sharpness),
    };
    return cmocka_run_group_tests(tests, training_make_model, training_remove_model);
}
