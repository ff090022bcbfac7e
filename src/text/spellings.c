#include "text/spellings.h"

#include <stdlib.h>
#include <string.h>

static int by_text(const void *left, const void *right) {
    const zest_spelling *a = left, *b = right;
    int order = memcmp(a->text, b->text, a->size < b->size ? a->size : b->size);
    if (!order) order = (a->size > b->size) - (a->size < b->size);
    return order ? order : (a->value > b->value) - (a->value < b->value);
}

void zest_spellings_sort(zest_spelling *list, size_t count) {
    if (count) qsort(list, count, sizeof *list, by_text);
}

/* First in [low, high) whose byte at depth is >= wanted. Those in the range agree before depth and are
 * longer. */
static size_t lower_bound(const zest_spelling *list, size_t low, size_t high, size_t depth, unsigned wanted) {
    while (low < high) {
        size_t middle = (low + high) / 2;
        if ((unsigned char)list[middle].text[depth] < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const zest_spelling *zest_spellings_longest(const zest_spelling *list, size_t count, size_t known,
                                            const char *text, size_t size) {
    const zest_spelling *best = NULL;
    size_t low = 0, high = count;
    while (low < high && list[low].size == known) low++; /* nothing of the text is in it */
    for (size_t i = 0; i < size && low < high; i++) {
        unsigned byte = (unsigned char)text[i];
        low = lower_bound(list, low, high, known + i, byte);
        high = lower_bound(list, low, high, known + i, byte + 1);
        while (low < high && list[low].size == known + i + 1) best = &list[low++];
    }
    return best;
}

size_t zest_spellings_range(const zest_spelling *list, size_t count, const char *prefix, size_t size,
                            size_t *found) {
    size_t low = 0, high = count;
    for (size_t i = 0; i < size && low < high; i++) {
        unsigned byte = (unsigned char)prefix[i];
        while (low < high && list[low].size == i) low++;
        low = lower_bound(list, low, high, i, byte);
        high = lower_bound(list, low, high, i, byte + 1);
    }
    *found = high - low;
    return low;
}
