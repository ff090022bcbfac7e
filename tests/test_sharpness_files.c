/* sharpness.json: written, read, drawn; and files that were edited by hand. */
#include <math.h>
#include <string.h>

#include "lab/sharpness/sharpness.h"
#include "tests/support.h"

/* A model about which everything was found. */
static zest_sharpness_found make_found(double level) {
    static double radii[2] = {1, 2}, values[3] = {100, 10, 5}, residuals[6] = {1, 1, 1, 99, 9, 4};
    static zest_perturbed_loss points[2];
    for (int r = 0; r < 2; r++)
        points[r] = (zest_perturbed_loss){.radius = radii[r],
                                          .rho = 0.1,
                                          .mean = {level + r, level + r - 0.1, level + r + 0.1},
                                          .spread = {0.2, 0.1, 0.3},
                                          .tilted = {level, NAN, NAN},
                                          .effective = 7,
                                          .lowest = 0,
                                          .highest = 9};
    zest_sharpness_found f = {.name = "a run",
                              .path = "p",
                              .task = "RTE",
                              .split = "train",
                              .is_run = 1,
                              .step = 30,
                              .dimension = 10,
                              .examples = 12,
                              .gradient_examples = 6,
                              .loss = level,
                              .radii = radii,
                              .points = points,
                              .seconds = 1};
    f.plan = (zest_sharpness_plan){
        .samples = 8, .distribution = ZEST_BALL, .radii = radii, .radius_count = 2, .t = 1, .seed = 5};
    f.top = (zest_hessian_top){.count = 3,
                               .values = values,
                               .residuals = residuals,
                               .rechecked = residuals + 3,
                               .lowest = -2,
                               .step = 0.1,
                               .disagreement = 0.001,
                               .steps = 20};
    f.trace = (zest_hessian_trace){.trace = {120, 100, 140}, .probes = 4, .step = 0.2};
    return f;
}

static void what_is_written_is_read(void **state) {
    (void)state;
    zest_sharpness_found f = make_found(0.5), g;
    json_t *json = zest_sharpness_json(&f, NULL);
    assert_int_equal(zest_sharpness_read(json, "f", &g, NULL), ZEST_OK);
    assert_string_equal(g.task, "RTE");
    assert_true(g.is_run && g.step == 30 && g.examples == 12 && g.gradient_examples == 6);
    assert_true(g.plan.distribution == ZEST_BALL && g.plan.radius_count == 2 && g.plan.samples == 8);
    assert_true(g.points[1].mean.value == 1.5 && isnan(g.points[1].tilted.low) && g.radii[1] == 2);
    assert_true(g.top.count == 3 && g.top.values[1] == 10 && g.top.rechecked[2] == 4 && g.top.steps == 20);
    assert_true(g.trace.probes == 4 && g.trace.trace.high == 140 && !g.trace_by_losses);
    /* without the losses themselves nothing is paired */
    assert_true(isnan(zest_sharpness_difference(&g, &f, 0).value));
    json_t *again = zest_sharpness_json(&g, NULL);
    assert_true(json_equal(json, again));
    json_decref(again);
    json_decref(json);
    zest_sharpness_free(&g);
}

/* Losses alone: no radii, no part about them. */
static void parts_may_be_missing(void **state) {
    (void)state;
    zest_sharpness_found f = make_found(0.5), g;
    f.plan.samples = f.plan.radius_count = 0;
    json_t *json = zest_sharpness_json(&f, NULL);
    assert_null(json_object_get(json, "neighbourhood"));
    assert_int_equal(zest_sharpness_read(json, "f", &g, NULL), ZEST_OK);
    assert_true(!g.plan.radius_count && g.top.count == 3);
    zest_sharpness_free(&g);
    json_decref(json);
}

static void strange_files_do_no_harm(void **state) {
    (void)state;
    static const char *const bad[] = {"{}", "[]", "{\"task\": 1}", "{\"task\": \"RTE\", \"dimension\": -1}"};
    static const char *const odd[] = {
        "{\"neighbourhood\": {}, \"hessian\": [], \"trace\": 7}",
        "{\"neighbourhood\": [1, null, {\"radius\": \"x\", \"mean\": []}]}",
        "{\"hessian\": {\"top\": [null, {\"value\": null}, 3], \"products\": -5, \"examples\": \"many\"}}",
        "{\"step\": -1, \"samples\": -3, \"loss\": [], \"name\": 5, \"distribution\": \"cube\"}"};
    zest_sharpness_found f;
    zest_error error = {0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json_t *json = json_loads(bad[i], 0, NULL);
        assert_int_equal(zest_sharpness_read(json, "f", &f, &error), ZEST_ERROR_FORMAT);
        zest_sharpness_free(&f);
        json_decref(json);
    }
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        json_t *json = json_loads(odd[i], 0, NULL);
        json_object_set_new(json, "task", json_string("RTE"));
        json_object_set_new(json, "dimension", json_integer(3));
        assert_int_equal(zest_sharpness_read(json, "f", &f, &error), ZEST_OK);
        zest_sharpness_free(&f);
        zest_sharpness_series series[] = {{json, "odd", 0}, {NULL, "odd", 0}, {json, "even", 0}};
        zest_plot *plot = zest_sharpness_figure(series, 3, (zest_sharpness_style){.stacked = 1});
        zest_buffer out = {0};
        assert_int_equal(zest_plot_svg(plot, &out), ZEST_OK);
        assert_null(zest_sharpness_slices(series, 3));
        zest_buffer_free(&out);
        zest_plot_free(plot);
        json_decref(json);
    }
}

static char *figure_of(const zest_sharpness_series *series, size_t count) {
    zest_plot *plot = zest_sharpness_figure(series, count, (zest_sharpness_style){.title = "Sharpness"});
    zest_buffer out = {0};
    assert_int_equal(zest_plot_svg(plot, &out), ZEST_OK);
    zest_plot_free(plot);
    return out.data;
}

static void runs_of_one_name_are_one_line(void **state) {
    (void)state;
    json_t *json[3];
    for (int i = 0; i < 3; i++) {
        zest_sharpness_found f = make_found(0.5 + 0.1 * i);
        json[i] = zest_sharpness_json(&f, NULL);
    }
    zest_sharpness_series series[] = {
        {json[0], "MeZO", 1}, {json[1], "ZEST-N t=100", 2}, {json[2], "MeZO", 1}};
    char *svg = figure_of(series, 3);
    assert_non_null(strstr(svg, "standard error over 2 runs"));
    assert_non_null(strstr(svg, "12 train examples (eigenvalues: 6)"));
    assert_non_null(strstr(svg, ">ZEST-N t=100</text>"));
    assert_null(strstr(strstr(svg, ">MeZO</text>") + 1, ">MeZO</text>"));
    assert_non_null(strstr(svg, ">eigenvalue of the Hessian</text>"));
    free(svg);
    series[2].name = "other";
    svg = figure_of(series, 3);
    assert_non_null(strstr(svg, "band: one standard deviation"));
    free(svg);
    /* eigenvalues alone: one panel */
    for (int i = 0; i < 3; i++) json_object_del(json[i], "neighbourhood");
    svg = figure_of(series, 3);
    assert_null(strstr(svg, "radius"));
    free(svg);
    for (int i = 0; i < 3; i++) json_decref(json[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(parts_may_be_missing),
        cmocka_unit_test(strange_files_do_no_harm),
        cmocka_unit_test(runs_of_one_name_are_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
