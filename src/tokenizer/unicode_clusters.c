/* Grapheme clusters, as the map of characters of SentencePiece is applied to them (Unicode Standard Annex 29). Pairs of
 * regional indicators and Indic conjuncts are longer than what that map looks at, so their rules are left out: an
 * indicator is a cluster of its own. Names of general categories. */
#include "tokenizer/unicode.h"

typedef enum {
    OTHER,
    CONTROL,
    EXTEND,
    JOINER,
    INDICATOR,
    PREPEND,
    SPACING,
    LEAD,
    VOWEL,
    TAIL,
    LEAD_VOWEL,
    LEAD_VOWEL_TAIL,
    PICTURE
} kind;

const char *zest_unicode_category_name(int category) {
    static const char names[ZEST_UNICODE_CATEGORIES][3] = {
        "Cn", "Cc", "Cf", "Co", "Cs", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd", "Nl",
        "No", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs"};
    return names[category];
}

static kind kind_of(uint32_t code) {
    size_t low = 0, high = zest_unicode_clusters_count;
    if (code < 0x7F) return code < 0x20 ? CONTROL : OTHER;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (zest_unicode_clusters[middle] >> 4 <= code)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? (kind)(zest_unicode_clusters[low - 1] & 15) : OTHER;
}

/* picture: a picture and extending characters before a joiner are before the second one. */
static int joined(kind a, kind b, int picture) {
    if (a == CONTROL || b == CONTROL) return 0;
    if (b == EXTEND || b == JOINER || b == SPACING || a == PREPEND) return 1;
    if (a == LEAD) return b == LEAD || b == VOWEL || b == LEAD_VOWEL || b == LEAD_VOWEL_TAIL;
    if (a == LEAD_VOWEL || a == VOWEL) return b == VOWEL || b == TAIL;
    if (a == LEAD_VOWEL_TAIL || a == TAIL) return b == TAIL;
    return a == JOINER && b == PICTURE && picture;
}

size_t zest_unicode_cluster(const char *text, size_t size) {
    uint32_t code;
    size_t at = zest_unicode_read(text, &code), length;
    if (code == '\r' && size > 1 && text[1] == '\n') return 2;
    kind a = kind_of(code);
    for (int picture = a == PICTURE; at < size; at += length) {
        length = zest_unicode_read(text + at, &code);
        kind b = kind_of(code);
        if (!joined(a, b, picture)) break;
        picture = b == PICTURE || (picture && (b == EXTEND || b == JOINER));
        a = b;
    }
    return at;
}
