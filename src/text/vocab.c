#include "text/vocab.h"

#include <stdlib.h>
#include <string.h>

#include "text/hash.h"

int32_t zest_vocab_find(const zest_vocab *vocab, const char *token, size_t size) {
    if (!vocab->slots) return -1;
    size_t mask = vocab->slots - 1, first = zest_hash(token, size) & mask;
    for (size_t n = 0; n <= vocab->reach; n++) {
        int32_t id = vocab->slot[(first + n) & mask];
        if (id < 0) break;
        if (vocab->length[id] == size && !memcmp(vocab->text.data + vocab->start[id], token, size)) return id;
    }
    return -1;
}

const char *zest_vocab_token(const zest_vocab *vocab, int32_t id, size_t *size) {
    if (id < 0 || (size_t)id >= vocab->size || vocab->start[id] == UINT32_MAX) return NULL;
    if (size) *size = vocab->length[id];
    return vocab->text.data + vocab->start[id];
}

void zest_vocab_seal(zest_vocab *vocab) { vocab->own = vocab->text.size; }

int zest_vocab_is_own(const zest_vocab *vocab, int32_t id) {
    return id >= 0 && (size_t)id < vocab->size && vocab->start[id] < vocab->own; /* no token: UINT32_MAX */
}

int32_t zest_vocab_find_own(const zest_vocab *vocab, const char *token, size_t size) {
    int32_t id = zest_vocab_find(vocab, token, size);
    return zest_vocab_is_own(vocab, id) ? id : -1;
}

static void place(zest_vocab *vocab, int32_t id) {
    size_t mask = vocab->slots - 1, taken = 0;
    size_t i = zest_hash(vocab->text.data + vocab->start[id], vocab->length[id]) & mask;
    for (; vocab->slot[i] >= 0; taken++) i = (i + 1) & mask;
    vocab->slot[i] = id;
    if (vocab->reach < taken) vocab->reach = taken;
}

/* At most half of the slots are taken. */
static int grow_slots(zest_vocab *vocab) {
    if (2 * (vocab->count + 1) <= vocab->slots) return 1;
    size_t slots = vocab->slots ? 2 * vocab->slots : 1024;
    int32_t *slot = malloc(slots * sizeof *slot);
    if (!slot) return 0;
    memset(slot, 0xFF, slots * sizeof *slot);
    free(vocab->slot);
    vocab->slot = slot;
    vocab->slots = slots;
    vocab->reach = 0;
    for (size_t id = 0; id < vocab->size; id++)
        if (vocab->start[id] != UINT32_MAX) place(vocab, (int32_t)id);
    return 1;
}

static int grow_ids(zest_vocab *vocab, size_t size) {
    if (size <= vocab->size) return 1;
    if (size > vocab->capacity) {
        size_t capacity = vocab->capacity ? vocab->capacity : 1024;
        while (capacity < size) capacity *= 2;
        uint32_t *start = realloc(vocab->start, capacity * sizeof *start);
        if (start) vocab->start = start;
        uint32_t *length = realloc(vocab->length, capacity * sizeof *length);
        if (length) vocab->length = length;
        if (!start || !length) return 0;
        vocab->capacity = capacity;
    }
    memset(vocab->start + vocab->size, 0xFF, (size - vocab->size) * sizeof *vocab->start);
    vocab->size = size;
    return 1;
}

zest_status zest_vocab_add(zest_vocab *vocab, const char *token, size_t size, int64_t id, const char *source,
                           zest_error *error) {
    if (id < 0 || id >= ZEST_VOCAB_LIMIT)
        return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: token \"%.60s\" has id %lld; ids are 0 to %d",
                              source, token, (long long)id, ZEST_VOCAB_LIMIT - 1);
    if (vocab->text.size + size > UINT32_MAX / 2)
        return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: the tokens have more than 2 GiB of text",
                              source);
    const char *taken = zest_vocab_token(vocab, (int32_t)id, NULL);
    if (taken)
        return zest_error_set(error, ZEST_ERROR_FORMAT,
                              "%s: tokens \"%.60s\" and \"%.60s\" both have id %lld; the file is damaged",
                              source, taken, token, (long long)id);
    int32_t other = zest_vocab_find(vocab, token, size);
    if (other >= 0)
        return zest_error_set(
            error, ZEST_ERROR_FORMAT,
            "%s: token \"%.60s\" is listed twice, with ids %d and %lld; the file is damaged", source, token,
            (int)other, (long long)id);
    if (!grow_slots(vocab) || !grow_ids(vocab, (size_t)id + 1))
        return zest_error_memory(error, source, (size_t)id * 12);
    uint32_t start = (uint32_t)vocab->text.size;
    zest_buffer_add(&vocab->text, token, size);
    zest_buffer_add(&vocab->text, "", 1);
    if (vocab->text.failed) return zest_error_memory(error, source, size);
    vocab->start[id] = start;
    vocab->length[id] = (uint32_t)size;
    vocab->count++;
    place(vocab, (int32_t)id);
    if (vocab->reach > ZEST_HASH_REACH)
        return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: too many tokens collide; the file is hostile",
                              source);
    return ZEST_OK;
}

void zest_vocab_free(zest_vocab *vocab) {
    zest_buffer_free(&vocab->text);
    free(vocab->start);
    free(vocab->length);
    free(vocab->slot);
    *vocab = (zest_vocab){0};
}
