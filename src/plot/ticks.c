/* Ticks: round numbers in a range, and how they are written. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plot/figure.h"

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
