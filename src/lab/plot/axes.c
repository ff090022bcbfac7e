/* Grid, ticks, words around the plotting area, colour bar. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/plot/figure.h"

static void straight(zest_buffer *out, const char *class_name, double x1, double y1, double x2, double y2) {
    zest_buffer_format(out, "<line class=\"%s\"", class_name);
    zest_svg_attribute(out, "x1", x1);
    zest_svg_attribute(out, "y1", y1);
    zest_svg_attribute(out, "x2", x2);
    zest_svg_attribute(out, "y2", y2);
    zest_buffer_text(out, "/>\n");
}

/* Under the data. */
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
    for (int i = 0; i < ZEST_PLOT_SHADES; i++) { /* each a little taller than its share: no seams */
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

/* ---- Over the data ---- */

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

/* Ticks: round numbers in a range, and how they are written. */

/* Exact for |exponent| <= 22: beyond that no printed digit depends on it. */
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

static void append(char room[ZEST_PLOT_TICK_TEXT], const char *text) {
    size_t const size = strlen(room);
    snprintf(room + size, ZEST_PLOT_TICK_TEXT - size, "%s", text);
}

static void append_power(char room[ZEST_PLOT_TICK_TEXT], int exponent) {
    static const char *const raised[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
    char digits[16];
    snprintf(digits, sizeof digits, "%d", exponent);
    append(room, "10");
    for (const char *digit = digits; *digit; digit++)
        append(room, *digit == '-' ? "⁻" : raised[*digit - '0']);
}

/* whole · 10^-decimals, all decimals shown. */
static void append_fixed(char room[ZEST_PLOT_TICK_TEXT], int64_t whole, int decimals) {
    char digits[40], text[48];
    snprintf(digits, sizeof digits, "%019lld", (long long)(whole < 0 ? -whole : whole));
    if (decimals > 18) decimals = 18;
    const char *first = digits;
    while (*first == '0' && (int)strlen(first) > decimals + 1) first++;
    int const before = (int)strlen(first) - decimals;
    snprintf(text, sizeof text, "%s%.*s%s%s", whole < 0 ? "−" : "", before, first, decimals ? "." : "",
             first + before);
    append(room, text);
}

static int digit_count(int64_t whole) {
    int count = 1;
    for (uint64_t rest = (uint64_t)(whole < 0 ? -whole : whole); rest >= 10; rest /= 10) count++;
    return count;
}

/* Writes whole · 10^exponent; `largest` (of the same axis) decides between 0.25 and 2.5×10⁻⁷ for all of them.
 */
static void write_tick(char room[ZEST_PLOT_TICK_TEXT], int64_t whole, int exponent, int64_t largest) {
    int const top = digit_count(largest) - 1 + exponent; /* decimal exponent of the largest */
    room[0] = '\0';
    if (whole == 0) {
        append(room, "0");
    } else if (top <= 5 && exponent >= -5) {
        for (; exponent > 0; exponent--) whole *= 10;
        append_fixed(room, whole, -exponent);
    } else {
        append_fixed(room, whole, top - exponent);
        append(room, "×");
        append_power(room, top);
    }
}

/* The multiples of factor · 10^exponent between low and high: the first and the last. */
static void multiples(double low, double high, int factor, int exponent, int64_t *first, int64_t *last) {
    double const step = factor * power_of_ten(exponent);
    *first = (int64_t)ceil(low / step - 1e-9);
    *last = (int64_t)floor(high / step + 1e-9);
}

static size_t linear_ticks(double low, double high, size_t wanted, zest_plot_tick ticks[ZEST_PLOT_TICKS]) {
    double const raw = high / (double)wanted - low / (double)wanted;
    if (!(raw > 1e-290) || raw < 1e-12 * fmax(fabs(low), fabs(high)) / (double)wanted) return 0;
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
        int64_t const whole = i * factor;
        ticks[count].value = exponent < 0 && exponent >= -22 ? (double)whole / power_of_ten(-exponent)
                                                             : (double)whole * power_of_ten(exponent);
        write_tick(ticks[count].text, whole, exponent, largest);
    }
    return count;
}

/* The mantissas that get words: 1 alone over many decades, 1 2 5 where there is room for them. */
static int is_worded(int mantissa, int roomy) {
    return mantissa == 1 || (roomy && (mantissa == 2 || mantissa == 5));
}

static size_t log_ticks(double low, double high, size_t wanted, zest_plot_tick ticks[ZEST_PLOT_TICKS]) {
    int const first = decimal_exponent(low), last = decimal_exponent(high);
    int const decades = last - first;
    if (decades == 0 || high / low < 5) return linear_ticks(low, high, wanted, ticks);
    int const stride = 1 + (decades - 1) / (int)(wanted < 2 ? 2 : wanted);
    int const plain = first >= -4 && last <= 5;
    int const roomy = decades <= 1 || 3 * log10(high / low) < (double)wanted + 0.5;
    int const minor = decades <= 2; /* ticks without words, where there is room for them */
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

size_t zest_plot_ticks(zest_plot_scale scale, double low, double high, size_t wanted,
                       zest_plot_tick ticks[ZEST_PLOT_TICKS]) {
    if (!isfinite(low) || !isfinite(high) || !(low < high)) return 0;
    if (wanted < 1) wanted = 1;
    if (wanted > ZEST_PLOT_TICKS / 3)
        wanted = ZEST_PLOT_TICKS / 3; /* steps of 1 2 5 at most double the count */
    if (scale == ZEST_PLOT_LINEAR) return linear_ticks(low, high, wanted, ticks);
    return low > 0 ? log_ticks(low, high, wanted, ticks) : 0;
}
