/* Colours, in light and dark mode. The categorical ones follow the palette of Okabe and Ito; the maps run
 * evenly in lightness (anchors chosen in OKLab, mixed here in whole numbers so that every machine writes the
 * same text). */
#include <math.h>

#include "plot/figure.h"

enum { ANCHORS = 7 };

typedef struct {
    unsigned page, ink, soft, grid, frame; /* soft: words that should stand back */
    unsigned colours[ZEST_PLOT_COLOURS];
    unsigned depth[ANCHORS], light[ANCHORS];
} theme;

#define MAP_LIGHT_ANCHORS \
    { 0x2e2357, 0x344f86, 0x247ea7, 0x20acb3, 0x6ece9e, 0xc1e290, 0xfef1a1 }

static const theme themes[2] = {
    {.page = 0xffffff,
     .ink = 0x1f2328,
     .soft = 0x59636e,
     .grid = 0xe8eaed,
     .frame = 0xb6bcc4,
     .colours = {0x1f2328, 0x0072b2, 0xe08a00, 0x009e73, 0xb85c92, 0xd04a00, 0x3fa2dd, 0xa89200, 0x7a828c},
     .depth = {0xf4fcfd, 0xdcf1f7, 0xc4e5f2, 0xadd8ef, 0x95c2e1, 0x80acd4, 0x6e95c6},
     .light = MAP_LIGHT_ANCHORS},
    {.page = 0x0d1117,
     .ink = 0xe6edf3,
     .soft = 0x9ba5b0,
     .grid = 0x21262d,
     .frame = 0x484f58,
     .colours = {0xe6edf3, 0x58b0f0, 0xffb347, 0x3fd0a4, 0xe59ac6, 0xff7b45, 0x9bd7ff, 0xf0e442, 0x8b949e},
     .depth = {0x141a22, 0x192431, 0x1d2f40, 0x203b50, 0x274c64, 0x2c5f77, 0x317289},
     .light = MAP_LIGHT_ANCHORS},
};

static unsigned mix(const unsigned anchors[ANCHORS], int shade) {
    int const last = ZEST_PLOT_SHADES - 1, along = shade * (ANCHORS - 1);
    int const left = along / last < ANCHORS - 1 ? along / last : ANCHORS - 2, part = along - left * last;
    unsigned colour = 0;
    for (int shift = 16; shift >= 0; shift -= 8) {
        int const a = anchors[left] >> shift & 255, b = anchors[left + 1] >> shift & 255;
        colour |= (unsigned)((a * (last - part) + b * part + last / 2) / last) << shift;
    }
    return colour;
}

static void theme_rules(zest_buffer *out, const theme *t, int shaded) {
    zest_buffer_format(out, "text{fill:#%06x}.soft{fill:#%06x}", t->ink, t->soft);
    zest_buffer_format(out, ".page{fill:#%06x}.halo,.edge{stroke:#%06x}", t->page, t->page);
    zest_buffer_format(out, ".grid{stroke:#%06x}.frame{stroke:#%06x}\n", t->grid, t->frame);
    for (int i = 0; i < ZEST_PLOT_COLOURS; i++)
        zest_buffer_format(out, ".s%d{stroke:#%06x}.f%d{fill:#%06x}", i, t->colours[i], i, t->colours[i]);
    zest_buffer_text(out, "\n");
    for (int i = 0; shaded && i < ZEST_PLOT_SHADES; i++)
        zest_buffer_format(out, ".d%d{fill:#%06x}.l%d{fill:#%06x}", i, mix(t->depth, i), i, mix(t->light, i));
    if (shaded) zest_buffer_text(out, "\n");
}

void zest_plot_stylesheet(zest_buffer *out, int shaded) {
    zest_buffer_text(out,
                     "<style>\nsvg{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',"
                     "'Noto Sans','Liberation Sans',Arial,sans-serif}\n"
                     "path,line{fill:none;stroke-linecap:round;stroke-linejoin:round}"
                     ".grid,.frame,.tick{stroke-linecap:butt}"
                     ".halo{fill:none;stroke-width:3;stroke-linejoin:round}"
                     "text.halo{paint-order:stroke}.b{font-weight:600}"
                     ".fill{stroke:none;fill-rule:evenodd}\n");
    theme_rules(out, &themes[0], shaded);
    zest_buffer_text(out, "@media (prefers-color-scheme:dark){\n");
    theme_rules(out, &themes[1], shaded);
    zest_buffer_text(out, "}\n</style>\n");
}

char zest_plot_map_letter(zest_plot_map map) { return map == ZEST_PLOT_MAP_LIGHT ? 'l' : 'd'; }

int zest_plot_shade(const zest_plot_panel *panel, double value) {
    const zest_plot_axis *shade = &panel->shade;
    double const low = zest_plot_units(shade->scale, shade->low),
                 high = zest_plot_units(shade->scale, shade->high);
    if (!isfinite(value)) return -1;
    double at = zest_plot_units(shade->scale, value);
    if (isnan(at)) at = low; /* a log scale, and nothing to take the logarithm of */
    double const part = high > low ? (at - low) / (high - low) : 0;
    int const index = (int)(fmin(fmax(part, 0), 1) * ZEST_PLOT_SHADES);
    return index < ZEST_PLOT_SHADES ? index : ZEST_PLOT_SHADES - 1;
}
