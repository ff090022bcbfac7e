/* SVG as text: numbers, escapes, short paths. Nothing here depends on the locale: printf's decimal point
 * would. */
#include <math.h>
#include <string.h>

#include "lab/plot/figure.h"

/* A whole number of 10^-decimals. */
static void scaled(zest_buffer *out, long long whole, int decimals) {
    char digits[32];
    int size = 0;
    unsigned long long rest = whole < 0 ? 0ULL - (unsigned long long)whole : (unsigned long long)whole;
    while (decimals > 0 && rest % 10 == 0) rest /= 10, decimals--;
    while (rest || size < decimals) {
        digits[sizeof digits - 1 - size++] = (char)('0' + rest % 10);
        rest /= 10;
        if (size == decimals) digits[sizeof digits - 1 - size++] = '.', decimals = 0;
    }
    if (!size) digits[sizeof digits - 1 - size++] = '0';
    if (whole < 0) digits[sizeof digits - 1 - size++] = '-';
    zest_buffer_add(out, digits + sizeof digits - size, (size_t)size);
}

void zest_svg_number(zest_buffer *out, double value, int decimals) {
    double factor = 1;
    for (int i = 0; i < decimals; i++) factor *= 10;
    if (!isfinite(value)) value = 0;
    scaled(out, llround(fmin(fmax(value, -1e9), 1e9) * factor), decimals);
}

void zest_svg_attribute(zest_buffer *out, const char *name, double value) {
    zest_buffer_format(out, " %s=\"", name);
    zest_svg_number(out, value, 2);
    zest_buffer_text(out, "\"");
}

void zest_svg_escaped(zest_buffer *out, const char *text) {
    for (; *text; text++) {
        switch (*text) {
        case '&': zest_buffer_text(out, "&amp;"); break;
        case '<': zest_buffer_text(out, "&lt;"); break;
        case '>': zest_buffer_text(out, "&gt;"); break;
        case '"': zest_buffer_text(out, "&quot;"); break;
        default:
            if ((unsigned char)*text >= 0x20 && *text != 0x7f) zest_buffer_add(out, text, 1);
        }
    }
}

/* ---- Paths ---- */

static long tenths(double pixels) { return lround(fmin(fmax(pixels, -1e5), 1e5) * 10); }

static void pair(zest_buffer *out, long x, long y, int joined) {
    if (joined && x >= 0) zest_buffer_text(out, " ");
    scaled(out, x, 1);
    if (y >= 0) zest_buffer_text(out, " ");
    scaled(out, y, 1);
}

void zest_svg_move(zest_buffer *out, zest_svg_pen *pen, double x, double y) {
    pen->x = tenths(x);
    pen->y = tenths(y);
    pen->open = 1;
    pen->first = 1;
    zest_buffer_text(out, "M");
    pair(out, pen->x, pen->y, 0);
}

void zest_svg_to(zest_buffer *out, zest_svg_pen *pen, double x, double y) {
    long const qx = tenths(x), qy = tenths(y);
    if (qx == pen->x && qy == pen->y && !pen->first) return;
    if (pen->first) zest_buffer_text(out, "l");
    pair(out, qx - pen->x, qy - pen->y, !pen->first);
    pen->first = 0;
    pen->x = qx;
    pen->y = qy;
}

void zest_svg_close(zest_buffer *out, zest_svg_pen *pen) {
    if (pen->open) zest_buffer_text(out, "z");
    pen->open = 0;
}

/* ---- Words ---- */

double zest_svg_width(const char *text, double size) {
    double em = 0;
    for (; *text; text++) {
        unsigned char const c = (unsigned char)*text;
        if ((c & 0xc0) == 0x80) continue; /* inside a character of UTF-8 */
        if (strchr("ijltfr.,:;'|!()[] ", c))
            em += 0.33;
        else if (strchr("mwMW@%", c))
            em += 0.88;
        else
            em += c >= 'A' && c <= 'Z' ? 0.67 : 0.57;
    }
    return em * size;
}

void zest_svg_text(zest_buffer *out, double x, double y, const char *anchor, double size, const char *extra,
                   const char *text) {
    if (!text || !*text) return;
    zest_buffer_text(out, "<text");
    zest_svg_attribute(out, "x", x);
    zest_svg_attribute(out, "y", y);
    if (strcmp(anchor, "start") != 0) zest_buffer_format(out, " text-anchor=\"%s\"", anchor);
    zest_svg_attribute(out, "font-size", size);
    zest_buffer_format(out, "%s%s>", *extra ? " " : "", extra);
    zest_svg_escaped(out, text);
    zest_buffer_text(out, "</text>\n");
}
