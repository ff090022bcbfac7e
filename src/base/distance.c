#include "base/distance.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

enum { LONGEST = 64 };

size_t zest_distance(const char *a, size_t size, const char *b) {
    size_t row[LONGEST], length = strlen(b);
    if (length >= LONGEST || size >= LONGEST) return SIZE_MAX;
    for (size_t j = 0; j <= length; j++) row[j] = j;
    for (size_t i = 1; i <= size; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= length; j++) {
            int differ = tolower((unsigned char)a[i - 1]) != tolower((unsigned char)b[j - 1]);
            size_t best = diagonal + (size_t)differ;
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[length];
}
