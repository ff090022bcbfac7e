/* Figures of results against t: what is drawn, and what is omitted. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/sweep/sweep.h"
#include "tests/support.h"

static zest_sample about(double mean) {
    return zest_sample_of((double[]){mean - 0.01, mean, mean + 0.01}, 3);
}

static char *drawn(zest_plot *plot) {
    zest_buffer out = {0};
    assert_non_null(plot);
    assert_int_equal(zest_plot_svg(plot, &out), ZEST_OK);
    zest_plot_free(plot);
    return out.data;
}

static size_t occurrences(const char *text, const char *what) {
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, what)); at += strlen(what)) count++;
    return count;
}

static void a_panel_for_each_task_and_kind_of_labels(void **state) {
    (void)state;
    static const char *const tasks[] = {"SST-2", "TREC"}, *const labels[] = {"clean labels", "30 % switched"};
    zest_sensitivity_point points[40];
    size_t count = 0;
    for (int task = 0; task < 2; task++)
        for (int l = 0; l < 2; l++) {
            zest_sensitivity_point p = {tasks[task], labels[l], "mezo", 0, "accuracy", about(0.8)};
            points[count++] = p;
            for (int i = 0; i < 3; i++) {
                p.method = "zest-n", p.t = (double[]){100, 1, 5}[i], p.value = about(0.8 + 0.01 * i);
                points[count++] = p;
                p.method = "zest-bc, weights=bf16";
                points[count++] = p;
            }
            p = (zest_sensitivity_point){tasks[task], labels[l], "sgd", NAN, "accuracy", about(0.9)};
            points[count++] = p;
        }
    char *svg = drawn(zest_sensitivity_figure(points, count, (zest_sensitivity_style){.title = "Results"}));
    assert_int_equal(occurrences(svg, ">SST-2, clean labels</text>"), 1);
    assert_int_equal(occurrences(svg, ">TREC, 30 % switched</text>"), 1);
    assert_int_equal(occurrences(svg, ">MeZO (t = 0)</text>"), 1); /* one legend for all panels */
    assert_int_equal(occurrences(svg, ">ZEST-N</text>"), 1);
    assert_int_equal(occurrences(svg, ">ZEST-BC, weights=bf16</text>"), 1);
    assert_int_equal(occurrences(svg, ">accuracy (%)</text>"), 4);
    assert_int_equal(occurrences(svg, ">100</text>"), 4);
    assert_null(strstr(svg, "SGD")); /* has no t */
    assert_non_null(strstr(svg, "over 3 seeds"));
    free(svg);
    /* one column, for phones: no title */
    svg = drawn(zest_sensitivity_figure(points, count, (zest_sensitivity_style){.columns = 1, .width = 300}));
    assert_int_equal(occurrences(svg, ">accuracy (%)</text>"), 4);
    assert_null(strstr(svg, "seeds</text>"));
    free(svg);
}

static void there_must_be_something_to_compare(void **state) {
    (void)state;
    zest_sensitivity_point points[] = {{"RTE", "clean labels", "mezo", 0, "loss", {.mean = NAN}},
                                       {"RTE", "clean labels", "zest-n", 1, "loss", about(0.5)},
                                       {"RTE", "clean labels", "zest-n", 5, "loss", {.mean = NAN}}};
    assert_null(zest_sensitivity_figure(points, 0, (zest_sensitivity_style){0}));
    assert_null(zest_sensitivity_figure(points, 3, (zest_sensitivity_style){0}));
    points[2].value = zest_sample_of((double[]){0.4}, 1);
    char *svg = drawn(zest_sensitivity_figure(points, 3, (zest_sensitivity_style){.title = "One"}));
    assert_non_null(strstr(svg, ">loss</text>"));
    free(svg);
    /* more values of t than a figure has room for */
    zest_sensitivity_point many[100];
    for (int i = 0; i < 100; i++)
        many[i] = (zest_sensitivity_point){"RTE", "clean labels", "zest-n", 100 - i, "f1", about(0.5)};
    free(drawn(zest_sensitivity_figure(many, 100, (zest_sensitivity_style){0})));
}

static void curves_have_a_line_for_each_t(void **state) {
    (void)state;
    static const double steps[] = {0, 100, 200}, means[] = {0.5, 0.7, 0.8}, errors[] = {0.01, NAN, 0.02};
    zest_sensitivity_curve curves[] = {
        {"RTE", "clean labels", "zest-n", "accuracy", 0, 3, steps, means, errors},
        {"RTE", "clean labels", "zest-n", "accuracy", 20, 3, steps, means, errors},
        {"RTE", "clean labels", "zest-n", "accuracy", 1, 0, steps, means, errors},
        {"RTE", "noisy", "zest-n", "accuracy", 5, 3, steps, means, errors}};
    char *svg = drawn(zest_sensitivity_curves(curves, 4, (zest_sensitivity_style){.title = "Dev"}));
    for (const char *const *w =
             (const char *const[]){">MeZO (t = 0)<", ">t = 20<", ">t = 5<", ">step<", ">RTE, noisy<", NULL};
         *w; w++)
        assert_non_null(strstr(svg, *w));
    free(svg);
    assert_null(zest_sensitivity_curves(curves, 1, (zest_sensitivity_style){0})); /* MeZO alone */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_panel_for_each_task_and_kind_of_labels),
        cmocka_unit_test(there_must_be_something_to_compare),
        cmocka_unit_test(curves_have_a_line_for_each_t),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
