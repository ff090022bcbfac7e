/* Plots: well-formed SVG, round ticks, contours in the right position, no effect of bad data. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support.h"

#include "lab/plot/figure.h"

/* ---- A small judge of XML: every element closes, attributes are quoted, no bare & or < ---- */

typedef struct {
    const char *at;
    const char *why; /* NULL: all well so far */
} judge;

static int is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == ':';
}

static size_t read_name(judge *j, char name[64]) {
    size_t size = 0;
    while (is_name(*j->at) && size < 63) name[size++] = *j->at++;
    name[size] = '\0';
    if (!size) j->why = "a name is missing";
    return size;
}

static void judge_text(judge *j, char end) {
    for (; *j->at && *j->at != end; j->at++) {
        if (*j->at == '<') j->why = "a bare <";
        if ((unsigned char)*j->at < 0x20 && *j->at != '\n') j->why = "a control character";
        if (*j->at != '&') continue;
        if (strncmp(j->at, "&amp;", 5) && strncmp(j->at, "&lt;", 4) && strncmp(j->at, "&gt;", 4) &&
            strncmp(j->at, "&quot;", 6))
            j->why = "a bare &";
    }
}

/* Behind the element's name; returns whether it closed itself. */
static int judge_attributes(judge *j) {
    char name[64];
    while (!j->why) {
        while (*j->at == ' ' || *j->at == '\n') j->at++;
        if (*j->at == '>') return j->at++, 0;
        if (strncmp(j->at, "/>", 2) == 0) return j->at += 2, 1;
        if (!read_name(j, name)) break;
        if (strncmp(j->at, "=\"", 2)) return j->why = "an attribute without value", 0;
        j->at += 2;
        judge_text(j, '"');
        if (*j->at++ != '"') j->why = "an open quote";
    }
    return 0;
}

static const char *judge_xml(const char *text) {
    judge j = {.at = text};
    char stack[32][64], name[64];
    int depth = 0, roots = 0;
    while (*j.at && !j.why) {
        if (*j.at != '<') {
            judge_text(&j, '<');
        } else if (j.at[1] == '/') {
            j.at += 2;
            read_name(&j, name);
            if (depth == 0 || strcmp(stack[--depth], name) || *j.at++ != '>')
                return "elements close out of order";
        } else {
            j.at++;
            if (!read_name(&j, name) || depth == 31) return "no element";
            roots += depth == 0;
            strcpy(stack[depth], name);
            if (!judge_attributes(&j)) depth++;
        }
    }
    return j.why ? j.why : depth || roots != 1 ? "an element stays open" : NULL;
}

static char *svg_of(zest_plot *plot) {
    zest_buffer out = {0};
    assert_int_equal(zest_plot_svg(plot, &out), ZEST_OK);
    const char *why = judge_xml(out.data);
    if (why) fail_msg("%s", why);
    assert_null(strstr(out.data, "nan"));
    assert_null(strstr(out.data, "inf"));
    return out.data;
}

static size_t occurrences(const char *text, const char *what) {
    size_t count = 0;
    for (const char *at = strstr(text, what); at; at = strstr(at + 1, what)) count++;
    return count;
}

static void test_judge(void **state) {
    (void)state;
    assert_null(judge_xml("<a b=\"1\"><c/>x &amp; y</a>\n"));
    assert_non_null(judge_xml("<a><c></a></c>"));
    assert_non_null(judge_xml("<a b=1/>"));
    assert_non_null(judge_xml("<a>x & y</a>"));
    assert_non_null(judge_xml("<a>"));
}

/* ---- Numbers ---- */

static void check_number(double value, int decimals, const char *expected) {
    zest_buffer out = {0};
    zest_svg_number(&out, value, decimals);
    assert_string_equal(out.data, expected);
    zest_buffer_free(&out);
}

static void test_numbers(void **state) {
    (void)state;
    check_number(0, 2, "0");
    check_number(1.5, 2, "1.5");
    check_number(-1.5, 2, "-1.5");
    check_number(0.05, 2, ".05");
    check_number(-0.004, 2, "0");
    check_number(100, 2, "100");
    check_number(1e300, 1, "1000000000");
    check_number(NAN, 1, "0");
}

/* ---- Ticks ---- */

static void check_ticks(zest_plot_scale scale, double low, double high, size_t wanted, const char *expected) {
    zest_plot_tick ticks[ZEST_PLOT_TICKS];
    char words[1024] = "";
    size_t const count = zest_plot_ticks(scale, low, high, wanted, ticks);
    for (size_t i = 0; i < count; i++) {
        if (*ticks[i].text && *words) strcat(words, " ");
        strcat(words, ticks[i].text);
    }
    assert_string_equal(words, expected);
}

static void test_linear_ticks(void **state) {
    (void)state;
    check_ticks(ZEST_PLOT_LINEAR, 0, 1, 5, "0 0.2 0.4 0.6 0.8 1.0");
    check_ticks(ZEST_PLOT_LINEAR, -1, 1, 4, "−1.0 −0.5 0 0.5 1.0");
    check_ticks(ZEST_PLOT_LINEAR, 0, 100, 4, "0 50 100");
    check_ticks(ZEST_PLOT_LINEAR, 3.2, 9.7, 6, "4 6 8");
    check_ticks(ZEST_PLOT_LINEAR, 1999.5, 2003.2, 4, "2000 2001 2002 2003");
    check_ticks(ZEST_PLOT_LINEAR, 0, 3e6, 3, "0 1×10⁶ 2×10⁶ 3×10⁶");
    check_ticks(ZEST_PLOT_LINEAR, 0, 2.5e-9, 5, "0 0.5×10⁻⁹ 1.0×10⁻⁹ 1.5×10⁻⁹ 2.0×10⁻⁹ 2.5×10⁻⁹");
    check_ticks(ZEST_PLOT_LINEAR, 0, 20000, 4, "0 5000 10000 15000 20000");
}

static void test_log_ticks(void **state) {
    (void)state;
    check_ticks(ZEST_PLOT_LOG, 0.001, 1000, 6, "0.001 0.01 0.1 1 10 100 1000");
    check_ticks(ZEST_PLOT_LOG, 1e-9, 1e-6, 6, "10⁻⁹ 10⁻⁸ 10⁻⁷ 10⁻⁶");
    check_ticks(ZEST_PLOT_LOG, 0.5, 20, 6, "0.5 1 2 5 10 20");
    check_ticks(ZEST_PLOT_LOG, 0.5, 20, 3, "1 10");
    check_ticks(ZEST_PLOT_LOG, 2, 30, 6, "2 5 10 20");
    check_ticks(ZEST_PLOT_LOG, 2, 4, 4, "2.0 2.5 3.0 3.5 4.0");
    check_ticks(ZEST_PLOT_LOG, 1e-300, 1e300, 4, "10⁻³⁰⁰ 10⁻¹⁵⁰ 10⁰ 10¹⁵⁰ 10³⁰⁰");
}

/* Requested positions; overlapping labels are omitted, and positions outside the axis. */
static void test_given_ticks(void **state) {
    (void)state;
    static const double places[] = {1, 5, 5.01, 20, 0.25, 3000};
    zest_plot *plot = zest_plot_new(1, 1, 400, 300);
    zest_plot_panel *panel = zest_plot_at(plot, 0, 0);
    zest_buffer out = {0};
    zest_plot_axis_x(panel, "t", ZEST_PLOT_LOG);
    zest_plot_range_x(panel, 0.8, 400);
    zest_plot_ticks_x(panel, 6, places);
    zest_plot_line(panel, 2, (double[]){1, 20}, (double[]){1, 2}, (zest_plot_style){0}, NULL);
    assert_int_equal(zest_plot_svg(plot, &out), ZEST_OK);
    assert_non_null(strstr(out.data, ">1</text>"));
    assert_non_null(strstr(out.data, ">5</text>"));
    assert_non_null(strstr(out.data, ">20</text>"));
    assert_null(strstr(out.data, ">5.01</text>"));
    assert_null(strstr(out.data, ">3000</text>"));
    assert_null(strstr(out.data, ">0.25</text>"));
    zest_buffer_free(&out);
    zest_plot_free(plot);
}

static void test_no_ticks(void **state) {
    (void)state;
    zest_plot_tick ticks[ZEST_PLOT_TICKS];
    assert_int_equal(zest_plot_ticks(ZEST_PLOT_LINEAR, 1, 1, 5, ticks), 0);
    assert_int_equal(zest_plot_ticks(ZEST_PLOT_LINEAR, 2, 1, 5, ticks), 0);
    assert_int_equal(zest_plot_ticks(ZEST_PLOT_LINEAR, NAN, 1, 5, ticks), 0);
    assert_int_equal(zest_plot_ticks(ZEST_PLOT_LINEAR, 0, INFINITY, 5, ticks), 0);
    assert_int_equal(zest_plot_ticks(ZEST_PLOT_LOG, 0, 10, 5, ticks), 0);
    assert_int_equal(zest_plot_ticks(ZEST_PLOT_LOG, -1, 10, 5, ticks), 0);
    assert_int_equal(zest_plot_ticks(ZEST_PLOT_LINEAR, 0, 5e-324, 5, ticks), 0);
}

/* Whatever the range: ascending, inside, evenly spaced, neither one alone nor a forest. */
static void test_many_ranges(void **state) {
    (void)state;
    zest_plot_tick ticks[ZEST_PLOT_TICKS];
    uint64_t random = 12345;
    for (int round = 0; round < 20000; round++) {
        random = random * 6364136223846793005ULL + 1442695040888963407ULL;
        double const size = pow(10, (double)(random >> 40 & 511) - 256);
        double const low = size * ((double)(random >> 20 & 1023) / 512 - 1),
                     high = low + size * (1e-3 + (random & 7));
        size_t const wanted = 2 + (size_t)(random >> 60) % 9,
                     count = zest_plot_ticks(ZEST_PLOT_LINEAR, low, high, wanted, ticks);
        double const slack = 1e-6 * (high - low);
        assert_true(count >= 2 && count <= 2 * wanted + 2);
        for (size_t i = 0; i < count; i++) {
            assert_true(ticks[i].value >= low - slack && ticks[i].value <= high + slack && *ticks[i].text);
            if (i < 2) continue;
            double const a = ticks[i - 1].value - ticks[i - 2].value, b = ticks[i].value - ticks[i - 1].value;
            assert_true(a > 0 && fabs(a - b) < 1e-6 * a + 1e-12 * fabs(low));
        }
    }
    assert_true(zest_plot_ticks(ZEST_PLOT_LINEAR, -1.7e308, 1.7e308, 5, ticks) >= 3);
}

/* ---- Contours ---- */

enum { GRID = 101 };

typedef struct {
    size_t lines, closed;
    double nearest, farthest; /* from the origin */
    double length, x0, y0;
} traced;

static int follow(const double *points, size_t count, int closed, void *user) {
    traced *t = user;
    t->lines++;
    t->closed += closed != 0;
    for (size_t i = 0; i < count; i++) {
        double const radius = hypot(points[2 * i], points[2 * i + 1]);
        const double *next = &points[2 * ((i + 1) % count)];
        if (!(radius >= t->nearest)) t->nearest = radius;
        if (!(radius <= t->farthest)) t->farthest = radius;
        if (closed || i + 1 < count) t->length += hypot(next[0] - points[2 * i], next[1] - points[2 * i + 1]);
    }
    return 1;
}

static traced trace_circle(double low, double high, double level, int edge, double hole) {
    static double values[GRID * GRID];
    for (int j = 0; j < GRID; j++)
        for (int i = 0; i < GRID; i++) {
            double const x = low + (high - low) * i / (GRID - 1), y = -2 + 4.0 * j / (GRID - 1);
            values[j * GRID + i] = hypot(x, y) < hole ? NAN : x * x + y * y;
        }
    zest_plot_grid const grid = {GRID, GRID, low, high, -2, 2, values};
    traced t = {.nearest = NAN, .farthest = NAN};
    assert_int_equal(zest_plot_trace(&grid, level, edge, follow, &t), ZEST_OK);
    return t;
}

static void test_circle(void **state) {
    (void)state;
    traced t = trace_circle(-2, 2, 1, 0, 0);
    assert_int_equal(t.lines, 1);
    assert_int_equal(t.closed, 1);
    assert_true(t.nearest > 0.999 && t.farthest < 1.001);
    assert_close(t.length, 2 * 3.14159265358979, 0.01);
    t = trace_circle(0, 2, 1, 0, 0); /* half of it */
    assert_int_equal(t.lines, 1);
    assert_int_equal(t.closed, 0);
    assert_close(t.length, 3.14159265358979, 0.01);
    t = trace_circle(-2, 2, 100, 0, 0); /* nowhere that high */
    assert_int_equal(t.lines, 0);
}

static void test_edges_and_holes(void **state) {
    (void)state;
    traced t = trace_circle(-2, 2, 1, 1, 0); /* the square without the disc: two closed lines */
    assert_int_equal(t.lines, 2);
    assert_int_equal(t.closed, 2);
    assert_close(t.length, 2 * 3.14159265358979 + 16, 0.02);
    t = trace_circle(-2, 2, -1, 1, 0); /* all of the square */
    assert_int_equal(t.closed, 1);
    assert_close(t.length, 16, 1e-9);
    t = trace_circle(-2, 2, 1, 0, 0.5); /* a hole elsewhere changes nothing */
    assert_int_equal(t.closed, 1);
    t = trace_circle(-2, 2, 1, 0, 3); /* nothing but a hole */
    assert_int_equal(t.lines, 0);
}

static void test_saddle(void **state) {
    (void)state;
    double const values[4] = {1, 0, 0, 1};
    zest_plot_grid const grid = {2, 2, 0, 1, 0, 1, values};
    traced t = {.nearest = NAN, .farthest = NAN};
    assert_int_equal(zest_plot_trace(&grid, 0.4, 0, follow, &t), ZEST_OK);
    assert_int_equal(t.lines, 2);
    assert_int_equal(zest_plot_trace(NULL, 0, 0, follow, &t), ZEST_ERROR_ARGUMENT);
    assert_int_equal(zest_plot_trace(&grid, NAN, 0, follow, &t), ZEST_ERROR_ARGUMENT);
}

/* ---- Figures ---- */

static void test_text_is_escaped(void **state) {
    (void)state;
    double const x[2] = {0, 1}, y[2] = {0, 1};
    zest_plot *plot = zest_plot_new(1, 1, 400, 300);
    zest_plot_title(plot, "a < b & \"c\"\x01", "d > e");
    zest_plot_panel *panel = zest_plot_at(plot, 0, 0);
    zest_plot_axis_x(panel, "<x>", ZEST_PLOT_LINEAR);
    zest_plot_line(panel, 2, x, y, (zest_plot_style){0}, "&&");
    zest_plot_text(panel, 0.5, 0.5, ZEST_PLOT_ABOVE, "</svg>", (zest_plot_style){0});
    char *text = svg_of(plot);
    assert_non_null(strstr(text, "<title>a &lt; b &amp; &quot;c&quot;</title>"));
    assert_non_null(strstr(text, "&lt;/svg&gt;"));
    free(text);
    zest_plot_free(plot);
}

static void test_gaps(void **state) {
    (void)state;
    double const x[7] = {0, 1, 2, 3, 4, 5, 6}, y[7] = {0, 1, NAN, 1, INFINITY, 2, 1};
    zest_plot *plot = zest_plot_new(1, 1, 400, 300);
    zest_plot_line(zest_plot_at(plot, 0, 0), 7, x, y, (zest_plot_style){.colour = ZEST_PLOT_RED}, NULL);
    char *text = svg_of(plot);
    const char *path = strstr(text, "<path class=\"s5\"");
    assert_non_null(path);
    char one[512] = "";
    strncat(one, path, (size_t)(strchr(path, '>') - path));
    assert_int_equal(occurrences(one, "M"), 3); /* three segments */
    free(text);
    zest_plot_free(plot);
}

static void test_log_axis_leaves_out(void **state) {
    (void)state;
    double const x[4] = {1, 2, 3, 4}, y[4] = {1, 0, -1, 100}, low[4] = {0.5, -1, -2, 50};
    zest_plot *plot = zest_plot_new(1, 1, 400, 300);
    zest_plot_panel *panel = zest_plot_at(plot, 0, 0);
    zest_plot_axis_y(panel, "y", ZEST_PLOT_LOG);
    zest_plot_line(panel, 4, x, y, (zest_plot_style){.mark = ZEST_PLOT_CIRCLE, .dash = ZEST_PLOT_NO_LINE},
                   NULL);
    zest_plot_band(panel, 4, x, low, y, (zest_plot_style){0}, "band");
    char *text = svg_of(plot);
    assert_int_equal(occurrences(text, "<circle"), 2);
    free(text);
    zest_plot_free(plot);
}

static void test_empty_and_odd(void **state) {
    (void)state;
    double const one = 1, bad = NAN;
    zest_plot *plot = zest_plot_new(2, 3, 900, 600);
    zest_plot_panel *panel = zest_plot_at(plot, 0, 0);
    zest_plot_line(panel, 0, NULL, NULL, (zest_plot_style){0}, "nothing");
    zest_plot_band(panel, 0, NULL, NULL, NULL, (zest_plot_style){0}, NULL);
    zest_plot_contours(panel, NULL, 0, NULL, (zest_plot_style){0}, NULL);
    panel = zest_plot_at(plot, 0, 1);
    zest_plot_line(panel, 1, &one, &one, (zest_plot_style){.colour = -7, .mark = ZEST_PLOT_STAR}, NULL);
    zest_plot_range_x(panel, 5, 5);
    panel = zest_plot_at(plot, 0, 2);
    zest_plot_line(panel, 1, &bad, &bad, (zest_plot_style){0}, NULL);
    zest_plot_axis_x(panel, NULL, ZEST_PLOT_LOG);
    zest_plot_range_x(panel, -5, NAN);
    panel = zest_plot_at(plot, 1, 0);
    double const huge[2] = {-1.7e308, 1.7e308};
    zest_plot_line(panel, 2, huge, huge, (zest_plot_style){0}, NULL);
    panel = zest_plot_at(plot, 1, 1);
    zest_plot_names_x(panel, 0, NULL);
    zest_plot_equal(panel);
    zest_plot_bars(panel, 1, &one, &bad, 1, (zest_plot_style){0}, "bar");
    free(svg_of(plot));
    assert_null(zest_plot_at(plot, 2, 0));
    assert_null(zest_plot_at(plot, 0, -1));
    zest_plot_line(NULL, 1, &one, &one, (zest_plot_style){0}, NULL); /* a missing panel is no accident */
    zest_plot_free(plot);
    zest_plot_free(NULL);
    zest_buffer out = {0};
    assert_int_equal(zest_plot_svg(NULL, &out), ZEST_ERROR_MEMORY);
}

/* Every kind of item at once, in both scales; the same calls give the same text. */
static char *full_figure(void) {
    double values[20 * 10], x[3] = {1, 2, 3}, y[3] = {2, 4, 3}, low[3] = {1, 3, 2};
    const char *const names[3] = {"a", "b", "c"};
    double const levels[3] = {5, 20, 60};
    for (int i = 0; i < 200; i++) values[i] = i;
    zest_plot_grid const grid = {20, 10, 1, 3, 1, 5, values};
    zest_plot *plot = zest_plot_new(1, 3, 1200, 400);
    for (int p = 0; p < 3; p++) {
        zest_plot_panel *panel = zest_plot_at(plot, 0, p);
        zest_plot_axis_x(panel, "x", p == 1 ? ZEST_PLOT_LOG : ZEST_PLOT_LINEAR);
        zest_plot_axis_y(panel, "y", p == 1 ? ZEST_PLOT_LOG : ZEST_PLOT_LINEAR);
        if (p < 2) {
            zest_plot_colours(panel, ZEST_PLOT_MAP_LIGHT, p ? ZEST_PLOT_LOG : ZEST_PLOT_LINEAR, 1, 200,
                              "value");
            p ? zest_plot_cells(panel, &grid) : zest_plot_filled(panel, &grid, 3, levels);
            zest_plot_contours(panel, &grid, 3, levels, (zest_plot_style){0}, "levels");
            zest_plot_polygon(panel, 3, x, y, 50);
        }
        zest_plot_band(panel, 3, x, low, y, (zest_plot_style){.colour = 1}, "band");
        zest_plot_line(panel, 3, x, y, (zest_plot_style){.colour = 1, .dash = ZEST_PLOT_DASHED}, "line");
        zest_plot_bars(panel, 3, x, y, 0.5, (zest_plot_style){.colour = 2}, "bars");
        zest_plot_whiskers(panel, 3, x, low, y, (zest_plot_style){0});
        zest_plot_guide_x(panel, 2, (zest_plot_style){0}, "guide");
        zest_plot_guide_y(panel, 2, (zest_plot_style){0}, NULL);
        for (int m = ZEST_PLOT_CIRCLE; m <= ZEST_PLOT_STAR; m++)
            zest_plot_line(panel, 1, x, y, (zest_plot_style){.mark = (zest_plot_mark)m}, NULL);
        if (p == 2) zest_plot_names_x(panel, 3, names), zest_plot_legend(panel, ZEST_PLOT_LEGEND_TOP_LEFT);
    }
    char *text = svg_of(plot);
    zest_plot_free(plot);
    return text;
}

static void test_everything_at_once(void **state) {
    (void)state;
    char *first = full_figure(), *second = full_figure();
    assert_string_equal(first, second);
    assert_non_null(strstr(first, "prefers-color-scheme:dark"));
    assert_int_equal(occurrences(first, ">levels</text>"), 1); /* one entry for both panels */
    assert_int_equal(occurrences(first, ">line</text>"), 2);   /* the third panel has a legend of its own */
    free(first);
    free(second);
}

/* A million points must not become a million numbers. */
static void test_long_lines_are_thinned(void **state) {
    (void)state;
    enum { MANY = 1000000 };
    double *x = malloc(2 * MANY * sizeof *x), *y = x + MANY;
    assert_non_null(x);
    for (int i = 0; i < MANY; i++) x[i] = i, y[i] = sin(i * 0.7);
    zest_plot *plot = zest_plot_new(1, 1, 600, 400);
    zest_plot_line(zest_plot_at(plot, 0, 0), MANY, x, y, (zest_plot_style){0}, NULL);
    char *text = svg_of(plot);
    assert_true(strlen(text) < 60000);
    free(text);
    free(x);
    zest_plot_free(plot);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_judge),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_linear_ticks),
        cmocka_unit_test(test_log_ticks),
        cmocka_unit_test(test_given_ticks),
        cmocka_unit_test(test_no_ticks),
        cmocka_unit_test(test_many_ranges),
        cmocka_unit_test(test_circle),
        cmocka_unit_test(test_edges_and_holes),
        cmocka_unit_test(test_saddle),
        cmocka_unit_test(test_text_is_escaped),
        cmocka_unit_test(test_gaps),
        cmocka_unit_test(test_log_axis_leaves_out),
        cmocka_unit_test(test_empty_and_odd),
        cmocka_unit_test(test_everything_at_once),
        cmocka_unit_test(test_long_lines_are_thinned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
