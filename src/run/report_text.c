/* Words and numbers of the report. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/number.h"
#include "run/report_page.h"
#include "text/unicode.h"

#define THIN_SPACE "\xe2\x80\xaf" /* narrow, and no line breaks there */
#define EN_DASH "\xe2\x80\x93"

char *zest_report_clean(const char *text) {
    zest_buffer valid = {0};
    zest_unicode_repair(text, strlen(text), &valid);
    if (valid.failed) return zest_buffer_free(&valid), NULL;
    if (!valid.data) return strdup("");
    size_t used = 0;
    for (const char *c = valid.data; *c; c++) {
        const unsigned char *u = (const unsigned char *)c;
        if (*u < 0x20 || *u == 0x7f) continue;
        if (u[0] == 0xef && u[1] == 0xbf && u[2] >= 0xbe) { /* U+FFFE, U+FFFF: no characters of XML */
            c += 2;
            continue;
        }
        valid.data[used++] = *c;
    }
    valid.data[used] = '\0';
    return valid.data;
}

void zest_report_escape(zest_buffer *out, const char *text) {
    char *clean = zest_report_clean(text);
    if (!clean) out->failed = 1;
    for (const char *c = clean ? clean : ""; *c; c++) {
        switch (*c) {
        case '&': zest_buffer_text(out, "&amp;"); break;
        case '<': zest_buffer_text(out, "&lt;"); break;
        case '>': zest_buffer_text(out, "&gt;"); break;
        case '"': zest_buffer_text(out, "&quot;"); break;
        case '\'': zest_buffer_text(out, "&#39;"); break;
        default: zest_buffer_add(out, c, 1);
        }
    }
    free(clean);
}

/* ---- Numbers ---- */

int zest_report_is_share(const char *metric) {
    return !strcmp(metric, "accuracy") || !strcmp(metric, "f1") || !strcmp(metric, "em");
}

void zest_report_value(zest_buffer *out, const char *metric, double value) {
    char room[64];
    if (!isfinite(value)) {
        zest_buffer_text(out, EN_DASH);
        return;
    }
    if (zest_report_is_share(metric))
        zest_number_format(room, sizeof room, "%.1f", zest_conclusion_per_cent(value));
    else if (value != 0 && (fabs(value) < 1e-4 || fabs(value) >= 1e6))
        zest_number_format(room, sizeof room, "%.3g", value);
    else /* four digits, zeros at the end as well: columns line up */
        zest_number_format(room, sizeof room, "%.*f",
                           value == 0 ? 0 : (int)fmax(0, 3 - floor(log10(fabs(value)))), value);
    zest_buffer_text(out, room);
}

void zest_report_interval(zest_buffer *out, const char *metric, zest_log_eval eval) {
    if (!isfinite(eval.low) || !isfinite(eval.high)) return;
    zest_buffer_text(out, "<span class=\"interval\">");
    zest_report_value(out, metric, eval.low);
    zest_buffer_text(out, EN_DASH);
    zest_report_value(out, metric, eval.high);
    zest_buffer_text(out, "</span>");
}

void zest_report_count(zest_buffer *out, uint64_t count) {
    char digits[24];
    int const length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)count);
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0 && length > 4) zest_buffer_text(out, THIN_SPACE);
        zest_buffer_add(out, digits + i, 1);
    }
}

void zest_report_duration(zest_buffer *out, double seconds) {
    if (!(seconds >= 0 && seconds < 1e12)) {
        zest_buffer_text(out, EN_DASH);
        return;
    }
    long long const s = llround(seconds);
    if (s >= 86400)
        zest_buffer_format(out, "%lld" THIN_SPACE "d %lld" THIN_SPACE "h", s / 86400, s / 3600 % 24);
    else if (s >= 3600)
        zest_buffer_format(out, "%lld" THIN_SPACE "h %lld" THIN_SPACE "min", s / 3600, s / 60 % 60);
    else if (s >= 60)
        zest_buffer_format(out, "%lld" THIN_SPACE "min %lld" THIN_SPACE "s", s / 60, s % 60);
    else
        zest_buffer_format(out, "%.3g" THIN_SPACE "s", seconds);
}

void zest_report_bytes(zest_buffer *out, uint64_t bytes) {
    if (!bytes)
        zest_buffer_text(out, EN_DASH);
    else if (bytes >= (uint64_t)1 << 30)
        zest_buffer_format(out, "%.1f" THIN_SPACE "GiB", (double)bytes / 1073741824.0);
    else
        zest_buffer_format(out, "%.0f" THIN_SPACE "MiB", (double)bytes / 1048576.0);
}

void zest_report_time(zest_buffer *out, double seconds) {
    char room[64];
    struct tm parts;
    time_t const when = seconds >= 0 && seconds < 2e11 ? (time_t)seconds : 0;
    if (!when || !gmtime_r(&when, &parts) || !strftime(room, sizeof room, "%Y-%m-%d %H:%M UTC", &parts)) {
        zest_buffer_text(out, EN_DASH);
        return;
    }
    zest_buffer_text(out, room);
}

void zest_report_chip(zest_buffer *out, const zest_plot_style *style) {
    static const char *const dashes[] = {"", "7 3", "1.5 3.5", "7 3 1.5 3", ""};
    zest_buffer_format(out,
                       "<svg class=\"chip\" width=\"24\" height=\"12\" aria-hidden=\"true\">"
                       "<line class=\"s%d\" x1=\"2\" y1=\"6\" x2=\"22\" y2=\"6\" stroke-width=\"3.5\"",
                       style->colour);
    if (*dashes[style->dash]) zest_buffer_format(out, " stroke-dasharray=\"%s\"", dashes[style->dash]);
    zest_buffer_text(out, "/></svg>");
}
