/* A growing list of token ids. */
#ifndef ZEST_TEXT_IDS_H
#define ZEST_TEXT_IDS_H

#include <stddef.h>
#include <stdint.h>

/* Start with {0}. When memory runs out, failed is set and further additions do nothing. */
typedef struct {
    int32_t *data;
    size_t count, capacity;
    int failed;
} zest_ids;

int zest_ids_reserve(zest_ids *ids, size_t more); /* 0: failed */
void zest_ids_add(zest_ids *ids, int32_t id);
void zest_ids_add_all(zest_ids *ids, const int32_t *more, size_t count); /* `more` may lie in ids itself */
void zest_ids_free(zest_ids *ids);

#endif
