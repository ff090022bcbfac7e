/* Runs on the toys: gradient descent by hand, the zeroth-order methods through the tuner. */
#include "lab/toys/toy.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

void zest_toy_preset(zest_toy_kind kind, int clean, zest_toy_settings *settings) {
    *settings = (zest_toy_settings){.kind = kind,
                                    .mesh = {.width = 0.3, .height = 0.25},
                                    .t = 1,
                                    .lr = 0.1,
                                    .gd_lr = 0.1,
                                    .k = 500,
                                    .distribution = "gaussian",
                                    .denominator = "shared"};
    if (kind == ZEST_TOY_STATIONARY) {
        settings->start[0] = 0, settings->start[1] = 1;
        settings->rho = clean ? 0.4 : 0.8; /* small enough that the smoothed losses keep both minima */
        settings->steps = clean ? 1000 : 100;
        settings->gd_steps = 50;
    } else {
        settings->start[0] = -1.5; /* neither on the steep axis (y) nor on the flat one */
        settings->start[1] = 1.8;
        settings->rho = clean ? 2 : 0.5;
        settings->steps = settings->gd_steps = clean ? 80 : 40;
        if (!clean) return;
        settings->lr = settings->gd_lr = 0.05; /* as far in smaller steps: nearer to the smooth route */
        settings->distribution = "sphere", settings->denominator = "ball"; /* Theorem 3.1 to the letter */
    }
}

const char *zest_toy_method_name(zest_toy_method method) {
    static const char *const names[ZEST_TOY_METHODS] = {"gd", "mezo", "zest-n", "zest-bc"};
    return (unsigned)method < ZEST_TOY_METHODS ? names[method] : "?";
}

uint64_t zest_toy_steps(const zest_toy_settings *settings, zest_toy_method method) {
    return method == ZEST_TOY_GD ? settings->gd_steps : settings->steps;
}

zest_objective_f64 zest_toy_objective(const zest_toy_settings *settings, void **user) {
    *user = (void *)&settings->mesh; /* read only */
    return settings->kind == ZEST_TOY_LINEAR ? zest_toy_linear : zest_toy_stationary;
}

static void descend(const zest_toy_settings *settings, double *path) {
    for (uint64_t i = 0; i < settings->gd_steps; i++) {
        double gradient[2], *x = path + 2 * i;
        if (settings->kind == ZEST_TOY_LINEAR)
            zest_toy_linear_gradient(&settings->mesh, x, gradient);
        else
            zest_toy_stationary_gradient(x, gradient);
        x[2] = x[0] - settings->gd_lr * gradient[0];
        x[3] = x[1] - settings->gd_lr * gradient[1];
    }
}

static zest_status prepare(zest_tuner *tuner, const zest_toy_settings *settings, zest_toy_method method,
                           uint64_t seed) {
    const struct {
        const char *name;
        double value;
    } numbers[] = {{"t", settings->t},   {"rho", settings->rho}, {"k", (double)settings->k},
                   {"lr", settings->lr}, {"seed", (double)seed}, {"threads", 1}};
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, seed);
    zest_status status = zest_tuner_set(tuner, "method", zest_toy_method_name(method));
    if (!status) status = zest_tuner_set(tuner, "seed", text);
    if (!status) status = zest_tuner_set(tuner, "distribution", settings->distribution);
    /* MeZO has no denominator */
    if (!status)
        status =
            zest_tuner_set(tuner, "denominator", method == ZEST_TOY_MEZO ? "shared" : settings->denominator);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && !status; i++)
        status = zest_tuner_set_number(tuner, numbers[i].name, numbers[i].value);
    void *user;
    zest_objective_f64 f = zest_toy_objective(settings, &user);
    return status ? status : zest_tuner_objective_f64(tuner, f, user);
}

static zest_status tune(zest_tuner *tuner, const zest_toy_settings *settings, double x[2], double *path) {
    zest_status status = ZEST_OK;
    for (uint64_t i = 0; i < settings->steps; i++) {
        if (!status) status = zest_tuner_step(tuner, NULL);
        if (status && status != ZEST_ERROR_OBJECTIVE) return status;
        path[2 * i + 2] = status ? NAN : x[0]; /* f ran off to infinity: that is a result, too */
        path[2 * i + 3] = status ? NAN : x[1];
    }
    return ZEST_OK;
}

zest_status zest_toy_run(const zest_toy_settings *settings, zest_toy_method method, uint64_t seed,
                         double *path, zest_error *error) {
    double x[2] = {settings->start[0], settings->start[1]};
    path[0] = x[0], path[1] = x[1];
    if (method == ZEST_TOY_GD) return descend(settings, path), ZEST_OK;
    zest_ctx *ctx = zest_ctx_new();
    if (!ctx)
        return zest_error_set(error, ZEST_ERROR_MEMORY, "no context: memory is short, or ZEST_CPU is wrong");
    zest_tuner *tuner = zest_tuner_new_f64(ctx, x, 2);
    zest_status status = tuner ? prepare(tuner, settings, method, seed) : ZEST_ERROR_MEMORY;
    if (!status) status = tune(tuner, settings, x, path);
    if (status) zest_error_set(error, status, "%s", zest_ctx_error(ctx));
    zest_tuner_free(tuner);
    zest_ctx_free(ctx);
    return status;
}
