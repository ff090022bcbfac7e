#include "text/ids.h"

#include <stdlib.h>
#include <string.h>

int zest_ids_reserve(zest_ids *ids, size_t more) {
    if (ids->failed) return 0;
    if (ids->capacity - ids->count >= more) return 1;
    if (more > SIZE_MAX / 16 - ids->count) return ids->failed = 1, 0;
    size_t capacity = ids->capacity ? ids->capacity : 64;
    while (capacity < ids->count + more) capacity *= 2;
    int32_t *data = realloc(ids->data, capacity * sizeof *data);
    if (!data) return ids->failed = 1, 0;
    ids->data = data;
    ids->capacity = capacity;
    return 1;
}

void zest_ids_add(zest_ids *ids, int32_t id) {
    if (zest_ids_reserve(ids, 1)) ids->data[ids->count++] = id;
}

void zest_ids_add_all(zest_ids *ids, const int32_t *more, size_t count) {
    if (!count) return;
    int inside = ids->data && more >= ids->data && more < ids->data + ids->count;
    size_t offset = inside ? (size_t)(more - ids->data) : 0;
    if (!zest_ids_reserve(ids, count)) return;
    memmove(ids->data + ids->count, inside ? ids->data + offset : more, count * sizeof *more);
    ids->count += count;
}

void zest_ids_free(zest_ids *ids) {
    free(ids->data);
    *ids = (zest_ids){0};
}
