/* The vocabulary, lists of token ids, sorted spellings with longest-prefix search, and added tokens. */
#include <stdlib.h>
#include <string.h>

#include "tokenizer/unicode.h"
#include "tokenizer/vocab.h"

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

int zest_vocab_is_model_token(const zest_vocab *vocab, int32_t id) {
    return id >= 0 && (size_t)id < vocab->size && vocab->start[id] < vocab->own; /* no token: UINT32_MAX */
}

int32_t zest_vocab_find_model_token(const zest_vocab *vocab, const char *token, size_t size) {
    int32_t id = zest_vocab_find(vocab, token, size);
    return zest_vocab_is_model_token(vocab, id) ? id : -1;
}

static void insert(zest_vocab *vocab, int32_t id) {
    size_t mask = vocab->slots - 1, taken = 0;
    size_t i = zest_hash(vocab->text.data + vocab->start[id], vocab->length[id]) & mask;
    for (; vocab->slot[i] >= 0; taken++) i = (i + 1) & mask;
    vocab->slot[i] = id;
    if (vocab->reach < taken) vocab->reach = taken;
}

/* At most half of the slots are used. */
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
        if (vocab->start[id] != UINT32_MAX) insert(vocab, (int32_t)id);
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
    insert(vocab, (int32_t)id);
    if (vocab->reach > ZEST_HASH_REACH)
        return zest_error_set(error, ZEST_ERROR_FORMAT,
                              "%s: too many tokens collide in the hash table; the file is damaged or hostile",
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

static int reserve_ids(zest_ids *ids, size_t more) {
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
    if (reserve_ids(ids, 1)) ids->data[ids->count++] = id;
}

void zest_ids_add_all(zest_ids *ids, const int32_t *more, size_t count) {
    if (!count) return;
    int inside = ids->data && more >= ids->data && more < ids->data + ids->count;
    size_t offset = inside ? (size_t)(more - ids->data) : 0;
    if (!reserve_ids(ids, count)) return;
    memmove(ids->data + ids->count, inside ? ids->data + offset : more, count * sizeof *more);
    ids->count += count;
}

void zest_ids_free(zest_ids *ids) {
    free(ids->data);
    *ids = (zest_ids){0};
}

static int by_text(const void *left, const void *right) {
    const zest_spelling *a = left, *b = right;
    int order = memcmp(a->text, b->text, a->size < b->size ? a->size : b->size);
    if (!order) order = (a->size > b->size) - (a->size < b->size);
    return order ? order : (a->value > b->value) - (a->value < b->value);
}

void zest_spellings_sort(zest_spelling *list, size_t count) {
    if (count) qsort(list, count, sizeof *list, by_text);
}

/* First in [low, high) whose byte at depth is >= byte. All in the range agree before depth and are longer. */
static size_t lower_bound(const zest_spelling *list, size_t low, size_t high, size_t depth, unsigned byte) {
    while (low < high) {
        size_t middle = (low + high) / 2;
        if ((unsigned char)list[middle].text[depth] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const zest_spelling *zest_spellings_longest_prefix(const zest_spelling *list, size_t count, size_t known,
                                                   const char *text, size_t size) {
    const zest_spelling *best = NULL;
    size_t low = 0, high = count;
    while (low < high && list[low].size == known) low++; /* shorter than the text to compare with */
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

zest_status zest_added_add(zest_added *added, zest_added_token token, zest_error *error) {
    if (!token.size) {
        free(token.content);
        return ZEST_OK;
    }
    if (added->count == added->capacity) {
        size_t capacity = added->capacity ? 2 * added->capacity : 16;
        zest_added_token *tokens = realloc(added->token, capacity * sizeof *tokens);
        if (!tokens) {
            free(token.content);
            return zest_error_memory(error, "the added tokens of a tokenizer", capacity * sizeof *tokens);
        }
        added->token = tokens;
        added->capacity = capacity;
    }
    added->token[added->count++] = token;
    return ZEST_OK;
}

zest_status zest_added_finish(zest_added *added, zest_error *error) {
    added->sorted = malloc((added->count + 1) * sizeof *added->sorted);
    if (!added->sorted)
        return zest_error_memory(error, "the added tokens of a tokenizer",
                                 added->count * sizeof *added->sorted);
    memset(added->first, 0, sizeof added->first);
    for (size_t i = 0; i < added->count; i++) {
        added->sorted[i] = (zest_spelling){added->token[i].content, added->token[i].size, (uint32_t)i};
        added->first[(unsigned char)added->token[i].content[0]] = 1;
    }
    zest_spellings_sort(added->sorted, added->count);
    return ZEST_OK;
}

void zest_added_free(zest_added *added) {
    for (size_t i = 0; i < added->count; i++) free(added->token[i].content);
    free(added->token);
    free(added->sorted);
    *added = (zest_added){0};
}

static unsigned class_at(const char *text, size_t at) {
    uint32_t code;
    zest_unicode_read(text + at, &code);
    return zest_unicode_class(code);
}

static size_t character_before(const char *text, size_t at) {
    do at--;
    while (at > 0 && ((unsigned char)text[at] & 0xC0) == 0x80);
    return at;
}

static int stands_alone(const char *text, size_t size, size_t start, size_t stop) {
    if (start > 0 && class_at(text, character_before(text, start)) & ZEST_UNICODE_WORD) return 0;
    return stop == size || !(class_at(text, stop) & ZEST_UNICODE_WORD);
}

const zest_added_token *zest_added_next(const zest_added *added, const char *text, size_t size, int literal,
                                        size_t done, size_t *from, size_t *start, size_t *stop) {
    while (*from < size) {
        size_t at = *from;
        while (at < size && !added->first[(unsigned char)text[at]]) at++;
        if (at == size) break;
        const zest_spelling *found =
            zest_spellings_longest_prefix(added->sorted, added->count, 0, text + at, size - at);
        const zest_added_token *token = found ? &added->token[found->value] : NULL;
        *from = at + (token ? token->size : 1);
        if (!token || (literal && token->special)) continue;
        *start = at;
        *stop = at + token->size;
        if (token->single_word && !stands_alone(text, size, *start, *stop)) continue;
        while (token->lstrip && *start > done) {
            size_t before = character_before(text, *start);
            if (!(class_at(text, before) & ZEST_UNICODE_SPACE)) break;
            *start = before;
        }
        uint32_t code;
        while (token->rstrip && *stop < size && class_at(text, *stop) & ZEST_UNICODE_SPACE)
            *stop += zest_unicode_read(text + *stop, &code);
        return token;
    }
    *from = size;
    return NULL;
}
