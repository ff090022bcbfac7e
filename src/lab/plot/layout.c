/* Layout: the range of each axis, space for its labels, the plotting areas, axes and ticks. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/plot/figure.h"

double zest_plot_units(zest_plot_scale scale, double value) {
    if (!isfinite(value)) return NAN;
    if (scale == ZEST_PLOT_LINEAR) return value;
    return value > 0 ? log10(value) : NAN;
}

double zest_plot_unit_pixel(const zest_plot_ruler *ruler, double units) {
    if (isnan(units)) return NAN;
    double part = (units - ruler->low) / (ruler->high - ruler->low);
    part = fmin(fmax(part, -20), 20); /* a point far outside: its line leaves the panel anyway */
    return ruler->length * (ruler->down ? 1 - part : part);
}

double zest_plot_pixel(const zest_plot_ruler *ruler, double value) {
    return zest_plot_unit_pixel(ruler, zest_plot_units(ruler->scale, value));
}

/* ---- Ranges ---- */

typedef struct {
    zest_plot_scale scale;
    double low, high; /* in axis units */
    int floor;        /* something starts at 0: no margin below it */
} extent;

static void widen(extent *e, double value) {
    double const units = zest_plot_units(e->scale, value);
    if (isnan(units)) return;
    if (!(units >= e->low)) e->low = units;
    if (!(units <= e->high)) e->high = units;
}

static void widen_all(extent *e, const double *values, size_t count) {
    for (size_t i = 0; i < count; i++) widen(e, values[i]);
}

static void widen_item(const zest_plot_item *item, extent *x, extent *y) {
    double const half = item->kind == ITEM_BARS ? 0.5 * item->value : 0;
    switch (item->kind) {
    case ITEM_TEXT: return;
    case ITEM_GUIDE_X: widen(x, item->value); return;
    case ITEM_GUIDE_Y: widen(y, item->value); return;
    case ITEM_FILLED:
    case ITEM_CONTOURS:
    case ITEM_CELLS:
        widen(x, item->grid.x0), widen(x, item->grid.x1);
        widen(y, item->grid.y0), widen(y, item->grid.y1);
        return;
    default: break;
    }
    for (size_t i = 0; i < item->count; i++) widen(x, item->x[i] - half), widen(x, item->x[i] + half);
    widen_all(y, item->y, item->count);
    if (item->kind == ITEM_BAND || item->kind == ITEM_WHISKERS) widen_all(y, item->top, item->count);
    if (item->kind == ITEM_BARS && y->scale == ZEST_PLOT_LINEAR) y->floor = 1, widen(y, 0);
}

/* Ends set by the caller stay; the others get a margin; an empty range is widened. */
static void resolve_range(extent *e, const zest_plot_axis *axis) {
    double const low = zest_plot_units(axis->scale, axis->low),
                 high = zest_plot_units(axis->scale, axis->high);
    if (isnan(e->low)) e->low = isnan(low) ? 0 : low, e->high = isnan(high) ? e->low + 1 : high;
    double const given_low = isnan(low) ? e->low : low, given_high = isnan(high) ? e->high : high;
    e->low = fmin(given_low, given_high);
    e->high = fmax(given_low, given_high);
    double const size = fmax(fabs(e->low), fabs(e->high));
    if (!(e->high / 2 - e->low / 2 > fmax(1e-9 * size, 1e-280))) { /* halves: the difference may overflow */
        double const half = size > 1e-270 ? 0.1 * size : 0.5;
        e->low -= half;
        e->high += half;
    } else {
        double const air = 0.08 * (e->high / 2 - e->low / 2);
        if (isnan(low) && !(e->floor && e->low == 0)) e->low -= air;
        if (isnan(high) && !(e->floor && e->high == 0)) e->high += air;
    }
    if (!isfinite(e->high - e->low)) e->low = fmax(e->low, -4e307), e->high = fmin(e->high, 4e307);
}

static void find_ranges(const zest_plot_panel *panel, zest_plot_frame *frame) {
    extent x = {.scale = panel->x.scale, .low = NAN, .high = NAN};
    extent y = {.scale = panel->y.scale, .low = NAN, .high = NAN};
    int surface = 0;
    for (size_t i = 0; i < panel->count; i++) {
        widen_item(&panel->items[i], &x, &y);
        surface |= panel->items[i].kind >= ITEM_POLYGON;
    }
    zest_plot_axis tight_x = panel->x, tight_y = panel->y;
    if (surface && !isnan(x.low) && !isnan(y.low)) { /* a surface fills the panel */
        if (isnan(tight_x.low)) tight_x.low = x.scale == ZEST_PLOT_LOG ? pow(10, x.low) : x.low;
        if (isnan(tight_x.high)) tight_x.high = x.scale == ZEST_PLOT_LOG ? pow(10, x.high) : x.high;
        if (isnan(tight_y.low)) tight_y.low = y.scale == ZEST_PLOT_LOG ? pow(10, y.low) : y.low;
        if (isnan(tight_y.high)) tight_y.high = y.scale == ZEST_PLOT_LOG ? pow(10, y.high) : y.high;
    }
    if (panel->names) tight_x.low = -0.6, tight_x.high = (double)panel->name_count - 0.4;
    resolve_range(&x, &tight_x);
    resolve_range(&y, &tight_y);
    frame->x = (zest_plot_ruler){.scale = x.scale, .low = x.low, .high = x.high};
    frame->y = (zest_plot_ruler){.scale = y.scale, .low = y.low, .high = y.high, .down = 1};
}

/* ---- Ticks of a ruler ---- */

static void place_ticks(zest_plot_ruler *ruler, double pixels, double apart) {
    double const low = ruler->scale == ZEST_PLOT_LOG ? pow(10, ruler->low) : ruler->low;
    double const high = ruler->scale == ZEST_PLOT_LOG ? pow(10, ruler->high) : ruler->high;
    size_t const target_count = pixels > 2 * apart ? (size_t)(pixels / apart) : 2;
    ruler->count = zest_plot_ticks(ruler->scale, low, high, target_count, ruler->ticks);
}

static void place_names(zest_plot_ruler *ruler, const zest_plot_panel *panel) {
    ruler->count = 0;
    for (size_t i = 0; i < panel->name_count && i < ZEST_PLOT_TICKS; i++) {
        zest_plot_tick *tick = &ruler->ticks[ruler->count++];
        *tick = (zest_plot_tick){.value = (double)i};
        if (panel->names[i]) strncpy(tick->text, panel->names[i], sizeof tick->text - 1);
    }
}

/* Up to four decimals. Called again with the final length of the ruler, on which labels depend. */
static void place_given(zest_plot_ruler *ruler, const zest_plot_panel *panel, double pixels) {
    zest_plot_ruler integer = *ruler;
    double end = -HUGE_VAL;
    integer.length = pixels;
    ruler->count = 0;
    for (size_t i = 0; i < panel->tick_count && ruler->count < ZEST_PLOT_TICKS; i++) {
        double const at = zest_plot_pixel(&integer, panel->tick_positions[i]);
        if (!(at >= -0.5 && at <= pixels + 0.5)) continue;
        zest_plot_tick *tick = &ruler->ticks[ruler->count++];
        zest_buffer text = {0};
        *tick = (zest_plot_tick){.value = panel->tick_positions[i]};
        zest_svg_number(&text, tick->value, 4);
        double const half = 0.5 * zest_svg_width(text.data ? text.data : "", 11.5);
        if (text.data && at - half > end + 5) {
            strncpy(tick->text, text.data, sizeof tick->text - 1);
            end = at + half;
        }
        zest_buffer_free(&text);
    }
}

static void find_ticks(const zest_plot_panel *panel, zest_plot_frame *frame, double width, double height) {
    place_ticks(&frame->y, height, 46);
    if (panel->names)
        place_names(&frame->x, panel);
    else if (panel->tick_positions)
        place_given(&frame->x, panel, width);
    else
        place_ticks(&frame->x, width, 66);
}

/* ---- Margins ---- */

static double widest(const zest_plot_ruler *ruler) {
    double width = 0;
    for (size_t i = 0; i < ruler->count; i++) width = fmax(width, zest_svg_width(ruler->ticks[i].text, 11.5));
    return width;
}

static zest_plot_margin find_margin(const zest_plot_panel *panel, zest_plot_frame *frame) {
    zest_plot_margin m = {.left = 12, .right = 14, .top = panel->title ? 30 : 10, .bottom = 30};
    double const words = widest(&frame->y);
    frame->label_left = words + 22;
    m.left += words + (panel->y.label ? 22 : 4);
    if (panel->x.label) m.bottom += 20;
    if (panel->shaded && panel->shade.label) { /* bar, ticks, label */
        zest_plot_ruler bar = {.scale = panel->shade.scale,
                               .low = zest_plot_units(panel->shade.scale, panel->shade.low),
                               .high = zest_plot_units(panel->shade.scale, panel->shade.high)};
        place_ticks(&bar, 200, 40);
        m.right += 12 + 12 + 8 + widest(&bar) + 30;
    }
    return m;
}

static void widen_margin(zest_plot_margin *to, const zest_plot_margin *from, int column, int row) {
    if (column) to->left = fmax(to->left, from->left), to->right = fmax(to->right, from->right);
    if (row) to->top = fmax(to->top, from->top), to->bottom = fmax(to->bottom, from->bottom);
}

/* ---- Panels ---- */

/* Shrinks the area until a unit of x is a unit of y, and centres it. */
static void make_equal(zest_plot_frame *frame) {
    double const per_x = frame->x.length / (frame->x.high - frame->x.low);
    double const per_y = frame->y.length / (frame->y.high - frame->y.low);
    zest_plot_ruler *longer = per_x > per_y ? &frame->x : &frame->y;
    double const length = longer->length * fmin(per_x, per_y) / fmax(per_x, per_y);
    *(longer == &frame->x ? &frame->left : &frame->top) += 0.5 * (longer->length - length);
    longer->length = length;
}

static void place_panel(const zest_plot *plot, const zest_plot_margin *margins, double top, int row,
                        int column, zest_plot_frame *frame) {
    double left = 0, width = plot->width - 16, height = plot->height - top - 8;
    double above = 0;
    for (int c = 0; c < plot->columns; c++) {
        const zest_plot_margin *m = &margins[row * plot->columns + c];
        width -= m->left + m->right;
        if (c < column) left += m->left + m->right;
    }
    for (int r = 0; r < plot->rows; r++) {
        const zest_plot_margin *m = &margins[r * plot->columns + column];
        height -= m->top + m->bottom;
        if (r < row) above += m->top + m->bottom;
    }
    const zest_plot_margin *margin = &margins[row * plot->columns + column];
    frame->x.length = fmax(width / plot->columns, 10);
    frame->y.length = fmax(height / plot->rows, 10);
    frame->left = 8 + left + margin->left + column * frame->x.length;
    frame->top = top + above + margin->top + row * frame->y.length;
}

int zest_plot_layout(const zest_plot *plot, double top, zest_plot_frame *frames) {
    int const count = plot->rows * plot->columns;
    zest_plot_margin *margins = calloc((size_t)count, 2 * sizeof *margins);
    if (!margins) return 0;
    /* the largest of the column and of the row: areas are aligned */
    zest_plot_margin *shared = margins + count;
    for (int i = 0; i < count; i++) {
        find_ranges(&plot->panels[i], &frames[i]);
        find_ticks(&plot->panels[i], &frames[i], plot->width / plot->columns - 90,
                   (plot->height - top) / plot->rows - 70);
        margins[i] = find_margin(&plot->panels[i], &frames[i]);
    }
    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j++)
            widen_margin(&shared[i], &margins[j], i % plot->columns == j % plot->columns,
                         i / plot->columns == j / plot->columns);
    for (int i = 0; i < count; i++) {
        place_panel(plot, shared, top, i / plot->columns, i % plot->columns, &frames[i]);
        if (plot->panels[i].equal) make_equal(&frames[i]);
        find_ticks(&plot->panels[i], &frames[i], frames[i].x.length, frames[i].y.length);
        frames[i].empty = plot->panels[i].count == 0 && !plot->panels[i].title && !plot->panels[i].x.label;
    }
    free(margins);
    return 1;
}

/* ---- Grid, ticks, labels around the plotting area, colour bar ---- */

static void straight(zest_buffer *out, const char *class_name, double x1, double y1, double x2, double y2) {
    zest_buffer_format(out, "<line class=\"%s\"", class_name);
    zest_svg_attribute(out, "x1", x1);
    zest_svg_attribute(out, "y1", y1);
    zest_svg_attribute(out, "x2", x2);
    zest_svg_attribute(out, "y2", y2);
    zest_buffer_text(out, "/>\n");
}

/* Below the data. */
void zest_plot_draw_axes(zest_buffer *out, const zest_plot_panel *panel, const zest_plot_frame *frame) {
    double const bottom = frame->top + frame->y.length, right = frame->left + frame->x.length;
    for (size_t i = 0; i < frame->x.count && !panel->names; i++) {
        double const x = frame->left + zest_plot_pixel(&frame->x, frame->x.ticks[i].value);
        straight(out, "grid", x, frame->top, x, bottom);
    }
    for (size_t i = 0; i < frame->y.count; i++) {
        double const y = frame->top + zest_plot_pixel(&frame->y, frame->y.ticks[i].value);
        straight(out, "grid", frame->left, y, right, y);
    }
}

/* ---- Colour bar ---- */

static void draw_bar(zest_buffer *out, const zest_plot_panel *panel, const zest_plot_frame *frame) {
    double const left = frame->left + frame->x.length + 14, width = 12, height = frame->y.length;
    double const step = height / ZEST_PLOT_SHADES;
    zest_plot_ruler ruler = {.scale = panel->shade.scale,
                             .low = zest_plot_units(panel->shade.scale, panel->shade.low),
                             .high = zest_plot_units(panel->shade.scale, panel->shade.high),
                             .length = height,
                             .down = 1};
    double words = 0;
    ruler.count =
        zest_plot_ticks(ruler.scale, panel->shade.low, panel->shade.high, (size_t)(height / 40), ruler.ticks);
    for (int i = 0; i < ZEST_PLOT_SHADES; i++) { /* slightly taller than its share, to avoid seams */
        zest_buffer_format(out, "<rect class=\"%c%d\"", zest_plot_map_letter(panel->map), i);
        zest_svg_attribute(out, "x", left);
        zest_svg_attribute(out, "y", frame->top + height - (i + 1) * step);
        zest_svg_attribute(out, "width", width);
        zest_svg_attribute(out, "height", i ? step + 0.5 : step);
        zest_buffer_text(out, "/>\n");
    }
    for (size_t i = 0; i < ruler.count; i++) {
        double const y = frame->top + zest_plot_pixel(&ruler, ruler.ticks[i].value);
        straight(out, "frame", left + width, y, left + width + 4, y);
        zest_svg_text(out, left + width + 7, y + 4, "start", 11.5, "class=\"soft\"", ruler.ticks[i].text);
        words = fmax(words, zest_svg_width(ruler.ticks[i].text, 11.5));
    }
    double const x = left + width + words + 22, y = frame->top + 0.5 * height;
    zest_buffer_text(out, "<g transform=\"rotate(-90 ");
    zest_svg_number(out, x, 2);
    zest_buffer_text(out, " ");
    zest_svg_number(out, y, 2);
    zest_buffer_text(out, ")\">");
    zest_svg_text(out, x, y, "middle", 12.5, "", panel->shade.label);
    zest_buffer_text(out, "</g>\n");
}

/* ---- Above the data ---- */

static void draw_tick_words(zest_buffer *out, const zest_plot_panel *panel, const zest_plot_frame *frame) {
    double const bottom = frame->top + frame->y.length;
    for (size_t i = 0; i < frame->x.count; i++) {
        double const x = frame->left + zest_plot_pixel(&frame->x, frame->x.ticks[i].value);
        if (!panel->names) straight(out, "frame tick", x, bottom, x, bottom + 4);
        zest_svg_text(out, x, bottom + 18, "middle", 11.5, "class=\"soft\"", frame->x.ticks[i].text);
    }
    for (size_t i = 0; i < frame->y.count; i++) {
        double const y = frame->top + zest_plot_pixel(&frame->y, frame->y.ticks[i].value);
        straight(out, "frame tick", frame->left - 4, y, frame->left, y);
        zest_svg_text(out, frame->left - 8, y + 4, "end", 11.5, "class=\"soft\"", frame->y.ticks[i].text);
    }
}

void zest_plot_draw_words(zest_buffer *out, const zest_plot_panel *panel, const zest_plot_frame *frame) {
    double const bottom = frame->top + frame->y.length, middle = frame->top + 0.5 * frame->y.length;
    zest_buffer_text(out, "<path class=\"frame\" d=\"");
    zest_svg_pen pen = {0};
    zest_svg_move(out, &pen, frame->left, frame->top);
    zest_svg_to(out, &pen, frame->left, bottom);
    zest_svg_to(out, &pen, frame->left + frame->x.length, bottom);
    zest_buffer_text(out, "\"/>\n");
    draw_tick_words(out, panel, frame);
    if (panel->title)
        zest_svg_text(out, frame->left, frame->top - 11, "start", 13.5, "class=\"b\"", panel->title);
    if (panel->x.label)
        zest_svg_text(out, frame->left + 0.5 * frame->x.length, bottom + 38, "middle", 12.5, "",
                      panel->x.label);
    if (panel->y.label) {
        double const x = frame->left - frame->label_left;
        zest_buffer_text(out, "<g transform=\"rotate(-90 ");
        zest_svg_number(out, x, 2);
        zest_buffer_text(out, " ");
        zest_svg_number(out, middle, 2);
        zest_buffer_text(out, ")\">");
        zest_svg_text(out, x, middle + 4, "middle", 12.5, "", panel->y.label);
        zest_buffer_text(out, "</g>\n");
    }
    if (panel->shaded && panel->shade.label) draw_bar(out, panel, frame);
}

/* ---- Ticks: round numbers in a range, and their labels ---- */

/* Exact for abs(exponent) <= 22: beyond that no printed digit depends on it. */
static double power_of_ten(int exponent) {
    double power = 1;
    int const size = exponent < 0 ? -exponent : exponent;
    if (size > 22) return pow(10, exponent);
    for (int i = 0; i < size; i++) power *= 10;
    return exponent < 0 ? 1 / power : power;
}

static int decimal_exponent(double value) { /* value > 0: the largest e with 10^e <= value */
    int e = (int)floor(log10(value));
    while (e < 308 && power_of_ten(e + 1) <= value) e++;
    while (power_of_ten(e) > value) e--;
    return e;
}

static void append(char label[ZEST_PLOT_TICK_TEXT], const char *text) {
    size_t const size = strlen(label);
    snprintf(label + size, ZEST_PLOT_TICK_TEXT - size, "%s", text);
}

static void append_power(char label[ZEST_PLOT_TICK_TEXT], int exponent) {
    static const char *const raised[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
    char digits[16];
    snprintf(digits, sizeof digits, "%d", exponent);
    append(label, "10");
    for (const char *digit = digits; *digit; digit++)
        append(label, *digit == '-' ? "⁻" : raised[*digit - '0']);
}

/* integer * 10^-decimals, with all decimals. */
static void append_fixed(char label[ZEST_PLOT_TICK_TEXT], int64_t integer, int decimals) {
    char digits[40], text[48];
    snprintf(digits, sizeof digits, "%019lld", (long long)(integer < 0 ? -integer : integer));
    if (decimals > 18) decimals = 18;
    const char *first = digits;
    while (*first == '0' && (int)strlen(first) > decimals + 1) first++;
    int const before = (int)strlen(first) - decimals;
    snprintf(text, sizeof text, "%s%.*s%s%s", integer < 0 ? "−" : "", before, first, decimals ? "." : "",
             first + before);
    append(label, text);
}

static int digit_count(int64_t integer) {
    int count = 1;
    for (uint64_t rest = (uint64_t)(integer < 0 ? -integer : integer); rest >= 10; rest /= 10) count++;
    return count;
}

/* Writes integer * 10^exponent; `largest` (of the same axis) decides between 0.25 and 2.5e-7 for all of
 * them. */
static void write_tick(char label[ZEST_PLOT_TICK_TEXT], int64_t integer, int exponent, int64_t largest) {
    int const top = digit_count(largest) - 1 + exponent; /* decimal exponent of the largest */
    label[0] = '\0';
    if (integer == 0) {
        append(label, "0");
    } else if (top <= 5 && exponent >= -5) {
        for (; exponent > 0; exponent--) integer *= 10;
        append_fixed(label, integer, -exponent);
    } else {
        append_fixed(label, integer, top - exponent);
        append(label, "×");
        append_power(label, top);
    }
}

/* The multiples of factor * 10^exponent between low and high: the first and the last. */
static void multiples(double low, double high, int factor, int exponent, int64_t *first, int64_t *last) {
    double const step = factor * power_of_ten(exponent);
    *first = (int64_t)ceil(low / step - 1e-9);
    *last = (int64_t)floor(high / step + 1e-9);
}

static size_t linear_ticks(double low, double high, size_t target_count,
                           zest_plot_tick ticks[ZEST_PLOT_TICKS]) {
    double const raw = high / (double)target_count - low / (double)target_count;
    if (!(raw > 1e-290) || raw < 1e-12 * fmax(fabs(low), fabs(high)) / (double)target_count) return 0;
    int exponent = decimal_exponent(raw);
    double const lead = raw / power_of_ten(exponent);
    int factor = lead <= 1.0001 ? 1 : lead <= 2.0001 ? 2 : lead <= 5.0001 ? 5 : 10;
    if (factor == 10) factor = 1, exponent++;
    int64_t first, last;
    for (multiples(low, high, factor, exponent, &first, &last); last <= first;) { /* one tick is no scale */
        exponent -= factor == 1;
        factor = factor == 5 ? 2 : factor == 2 ? 1 : 5;
        multiples(low, high, factor, exponent, &first, &last);
    }
    int64_t const largest = factor * (llabs(first) > llabs(last) ? first : last);
    size_t count = 0;
    for (int64_t i = first; i <= last && count < ZEST_PLOT_TICKS; i++, count++) {
        int64_t const integer = i * factor;
        ticks[count].value = exponent < 0 && exponent >= -22 ? (double)integer / power_of_ten(-exponent)
                                                             : (double)integer * power_of_ten(exponent);
        write_tick(ticks[count].text, integer, exponent, largest);
    }
    return count;
}

/* The mantissas with labels: 1 for many decades, 1 2 5 if they fit. */
static int is_worded(int mantissa, int roomy) {
    return mantissa == 1 || (roomy && (mantissa == 2 || mantissa == 5));
}

static size_t log_ticks(double low, double high, size_t target_count, zest_plot_tick ticks[ZEST_PLOT_TICKS]) {
    int const first = decimal_exponent(low), last = decimal_exponent(high);
    int const decades = last - first;
    if (decades == 0 || high / low < 5) return linear_ticks(low, high, target_count, ticks);
    int const stride = 1 + (decades - 1) / (int)(target_count < 2 ? 2 : target_count);
    int const plain = first >= -4 && last <= 5;
    int const roomy = decades <= 1 || 3 * log10(high / low) < (double)target_count + 0.5;
    int const minor = decades <= 2; /* unlabelled ticks, if they fit */
    size_t count = 0;
    for (int e = first; e <= last; e++) {
        if ((e % stride + stride) % stride) continue;
        for (int mantissa = 1; mantissa <= 9; mantissa += 1) {
            int const worded = is_worded(mantissa, roomy);
            double const value = e < 0 && e >= -22 ? mantissa / power_of_ten(-e) : mantissa * power_of_ten(e);
            if (!worded && (!minor || stride > 1)) continue;
            if (value < low * (1 - 1e-9) || value > high * (1 + 1e-9) || count == ZEST_PLOT_TICKS) continue;
            zest_plot_tick *tick = &ticks[count++];
            *tick = (zest_plot_tick){.value = value};
            if (!worded) continue;
            if (plain) {
                write_tick(tick->text, mantissa, e, mantissa);
            } else {
                if (mantissa > 1) append_fixed(tick->text, mantissa, 0), append(tick->text, "×");
                append_power(tick->text, e);
            }
        }
    }
    return count;
}

size_t zest_plot_ticks(zest_plot_scale scale, double low, double high, size_t target_count,
                       zest_plot_tick ticks[ZEST_PLOT_TICKS]) {
    if (!isfinite(low) || !isfinite(high) || !(low < high)) return 0;
    if (target_count < 1) target_count = 1;
    if (target_count > ZEST_PLOT_TICKS / 3)
        target_count = ZEST_PLOT_TICKS / 3; /* steps of 1 2 5 at most double the count */
    if (scale == ZEST_PLOT_LINEAR) return linear_ticks(low, high, target_count, ticks);
    return low > 0 ? log_ticks(low, high, target_count, ticks) : 0;
}
