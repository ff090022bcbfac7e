/* Mutators of safetensors, GGUF and journals: lengths, offsets and checksums follow what changed, most of the time. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/gguf.h"
#include "io/tensor.h"
#include "optim/journal.h"
#include "tests/fuzz/fuzz.h"

enum { MAX_DATA = 1 << 17 };

/* Data of this size: the old data, and zeros or a pattern behind it. */
static void add_data(fuzz_random *r, const uint8_t *data, size_t old, size_t size, zest_buffer *out) {
    uint8_t filling = fuzz_below(r, 2) ? 0 : (uint8_t)fuzz_next(r);
    zest_buffer_add(out, data, old < size ? old : size);
    for (size_t i = old; i < size; i++) zest_buffer_add(out, &filling, 1);
}

/* ---- safetensors ---- */

static json_t *pick_tensor(fuzz_random *r, json_t *header) {
    size_t left = fuzz_below(r, json_object_size(header));
    const char *key;
    json_t *value;
    json_object_foreach(header, key, value) if (!left--) return strcmp(key, "__metadata__") ? value : NULL;
    return NULL;
}

static void change_tensor(fuzz_random *r, json_t *tensor) {
    json_t *shape = json_object_get(tensor, "shape");
    size_t rank = json_array_size(shape), at = fuzz_below(r, rank);
    switch (fuzz_below(r, 5)) {
    case 0:
        json_object_set_new(tensor, "dtype",
                            json_string(zest_dtype_name((zest_dtype)fuzz_below(r, ZEST_DTYPE_COUNT))));
        break;
    case 1:
        if (rank) json_array_set_new(shape, at, json_integer((json_int_t)fuzz_below(r, 40)));
        break;
    case 2:
        if (rank) json_array_set_new(shape, at, json_integer(fuzz_integer(r)));
        break;
    case 3: json_array_insert_new(shape, at, json_integer((json_int_t)fuzz_below(r, 3))); break;
    default: json_array_remove(shape, at); break;
    }
}

/* Bytes of a tensor; SIZE_MAX: more than this program makes. */
static size_t tensor_bytes(const json_t *tensor) {
    zest_dtype dtype;
    const char *name = json_string_value(json_object_get(tensor, "dtype"));
    const json_t *shape = json_object_get(tensor, "shape");
    if (!name || !zest_dtype_find(name, &dtype)) return SIZE_MAX;
    size_t size = zest_dtype_size(dtype);
    for (size_t i = 0; i < json_array_size(shape); i++) {
        json_int_t n = json_integer_value(json_array_get(shape, i));
        if (n < 0 || __builtin_mul_overflow(size, (size_t)n, &size) || size > MAX_DATA) return SIZE_MAX;
    }
    return size;
}

/* Gives every tensor its place, one after the other. Returns the size of the data. */
static size_t place_tensors(json_t *header) {
    size_t at = 0;
    const char *key;
    json_t *tensor;
    json_object_foreach(header, key, tensor) {
        size_t size = tensor_bytes(tensor);
        if (!strcmp(key, "__metadata__") || size == SIZE_MAX || at + size > MAX_DATA) continue;
        json_object_set_new(tensor, "data_offsets",
                            json_pack("[I, I]", (json_int_t)at, (json_int_t)(at + size)));
        at += size;
    }
    return at;
}

int fuzz_mutate_safetensors(fuzz_random *r, const uint8_t *data, size_t size, zest_buffer *out) {
    uint64_t length = 0;
    if (size > sizeof length) memcpy(&length, data, sizeof length);
    if (!length || length > size - sizeof length) return 0;
    json_t *header = json_loadb((const char *)data + sizeof length, (size_t)length, 0, NULL);
    if (!json_is_object(header)) return json_decref(header), 0;
    const uint8_t *body = data + sizeof length + length;
    size_t old = size - sizeof length - (size_t)length, now = old;
    zest_buffer text = {0}, changed = {0};
    json_t *tensor = pick_tensor(r, header);
    size_t how = fuzz_below(r, 4);
    if (how == 0) fuzz_mutate_bytes(r, body, old, &changed);
    if (how == 1 && tensor) change_tensor(r, tensor);
    if (how > 1) { /* any part of the header */
        char *before = json_dumps(header, JSON_COMPACT);
        if (before && fuzz_mutate_json(r, before, strlen(before), &text)) {
            json_decref(header);
            header = json_loadb(text.data, text.size, JSON_DECODE_ANY, NULL);
        }
        free(before);
    }
    if (json_is_object(header) && fuzz_below(r, 4)) now = place_tensors(header);
    char *after = header ? json_dumps(header, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    length = after ? strlen(after) : 0;
    if (!fuzz_below(r, 16)) length = (uint64_t)fuzz_integer(r);
    zest_buffer_add(out, &length, sizeof length);
    zest_buffer_text(out, after ? after : "");
    add_data(r, changed.data ? (const uint8_t *)changed.data : body, changed.data ? changed.size : old,
             changed.data && now == old ? changed.size : now, out);
    json_decref(header);
    zest_buffer_free(&text);
    zest_buffer_free(&changed);
    free(after);
    return 1;
}

/* ---- GGUF ---- */

enum { MAX_KEYS = 128, MAX_TENSORS = 128 };

typedef struct {
    const uint8_t *at;
    size_t left;
} reader;

typedef struct {
    const uint8_t *name, *value;
    size_t name_size, size;
    uint32_t kind;
} gguf_key;

typedef struct {
    const uint8_t *name;
    size_t name_size;
    uint32_t rank, type;
    uint64_t dims[4], offset;
} gguf_tensor;

typedef struct {
    uint32_t version;
    uint64_t key_count, tensor_count; /* as written */
    gguf_key keys[MAX_KEYS];
    gguf_tensor tensors[MAX_TENSORS];
    size_t keys_read, tensors_read;
    const uint8_t *data;
    size_t data_size, alignment;
} gguf_parts;

static const uint8_t *take(reader *in, size_t size) {
    const uint8_t *at = in->at;
    if (size > in->left) return NULL;
    in->at += size;
    in->left -= size;
    return at;
}

static int take_number(reader *in, void *out, size_t size) {
    const uint8_t *at = take(in, size);
    if (at) memcpy(out, at, size);
    return at != NULL;
}

static const uint8_t *take_text(reader *in, size_t *size) {
    uint64_t length;
    if (!take_number(in, &length, sizeof length) || length > in->left) return NULL;
    *size = (size_t)length;
    return take(in, *size);
}

static const size_t kind_sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

static int skip_value(reader *in, uint32_t kind, int depth) {
    size_t size;
    uint32_t inner;
    uint64_t count;
    if (kind == ZEST_GGUF_STRING) return take_text(in, &size) != NULL;
    if (kind < ZEST_GGUF_KINDS && kind_sizes[kind]) return take(in, kind_sizes[kind]) != NULL;
    if (kind != ZEST_GGUF_ARRAY || depth > 4 || !take_number(in, &inner, 4) || !take_number(in, &count, 8))
        return 0;
    for (uint64_t i = 0; i < count; i++)
        if (!skip_value(in, inner, depth + 1)) return 0;
    return 1;
}

static int read_key(reader *in, gguf_key *key, size_t *alignment) {
    key->name = take_text(in, &key->name_size);
    if (!key->name || !take_number(in, &key->kind, 4)) return 0;
    key->value = in->at;
    if (!skip_value(in, key->kind, 0)) return 0;
    key->size = (size_t)(in->at - key->value);
    uint32_t number = 0;
    if (key->name_size == 17 && !memcmp(key->name, "general.alignment", 17) && key->size == 4) {
        memcpy(&number, key->value, 4);
        if (number && number <= 4096) *alignment = number;
    }
    return 1;
}

static int read_tensor(reader *in, gguf_tensor *t) {
    t->name = take_text(in, &t->name_size);
    if (!t->name || !take_number(in, &t->rank, 4) || t->rank > 4) return 0;
    for (uint32_t i = 0; i < t->rank; i++)
        if (!take_number(in, &t->dims[i], 8)) return 0;
    return take_number(in, &t->type, 4) && take_number(in, &t->offset, 8);
}

static int read_gguf(const uint8_t *data, size_t size, gguf_parts *parts) {
    reader in = {data, size};
    const uint8_t *magic = take(&in, 4);
    *parts = (gguf_parts){.alignment = 32};
    if (!magic || memcmp(magic, "GGUF", 4) || !take_number(&in, &parts->version, 4) ||
        !take_number(&in, &parts->tensor_count, 8) || !take_number(&in, &parts->key_count, 8))
        return 0;
    while (parts->keys_read < parts->key_count && parts->keys_read < MAX_KEYS)
        if (!read_key(&in, &parts->keys[parts->keys_read++], &parts->alignment)) return 0;
    if (parts->keys_read < parts->key_count) return 0;
    while (parts->tensors_read < parts->tensor_count && parts->tensors_read < MAX_TENSORS)
        if (!read_tensor(&in, &parts->tensors[parts->tensors_read++])) return 0;
    if (parts->tensors_read < parts->tensor_count) return 0;
    size_t padding = (parts->alignment - (size - in.left) % parts->alignment) % parts->alignment;
    take(&in, padding < in.left ? padding : in.left);
    parts->data = in.at;
    parts->data_size = in.left;
    return 1;
}

/* SIZE_MAX: more than this program makes. */
static size_t gguf_bytes(const gguf_tensor *t) {
    size_t elements, bytes, count = 1;
    if (!zest_gguf_block_size(t->type, &elements, &bytes)) return SIZE_MAX;
    for (uint32_t i = 0; i < t->rank && i < 4; i++)
        if (__builtin_mul_overflow(count, (size_t)t->dims[i], &count) || count > MAX_DATA) return SIZE_MAX;
    size_t size = (count + elements - 1) / elements * bytes;
    return size > MAX_DATA ? SIZE_MAX : size;
}

static size_t place_gguf(gguf_parts *parts) {
    size_t at = 0;
    for (size_t i = 0; i < parts->tensors_read; i++) {
        size_t size = gguf_bytes(&parts->tensors[i]);
        if (size == SIZE_MAX || at + size > MAX_DATA) continue;
        parts->tensors[i].offset = at;
        at = (at + size + parts->alignment - 1) / parts->alignment * parts->alignment;
    }
    return at;
}

/* Numbers at their edges, arrays of another length or kind, strings with other bytes. */
static void change_value(fuzz_random *r, gguf_key *key, zest_buffer *buffer) {
    int64_t number = fuzz_integer(r);
    uint32_t kind = (uint32_t)fuzz_below(r, 14);
    if (key->kind == ZEST_GGUF_ARRAY && key->size >= 12 && fuzz_below(r, 3)) {
        zest_buffer_add(buffer, key->value, key->size);
        if (buffer->failed) return;
        size_t how = fuzz_below(r, 3);
        if (how == 0) memcpy(buffer->data, &kind, 4);
        if (how == 1) memcpy(buffer->data + 4, &number, 8);
        if (how == 2 && key->size > 12) memcpy(buffer->data + 12 + fuzz_below(r, key->size - 12), &number, 1);
    } else if (fuzz_below(r, 3) == 0) { /* of another kind */
        key->kind = kind;
        uint64_t length = fuzz_below(r, 9);
        if (kind == ZEST_GGUF_STRING) zest_buffer_add(buffer, &length, sizeof length);
        if (kind == ZEST_GGUF_STRING) zest_buffer_add(buffer, "llama...", (size_t)length);
        if (kind == ZEST_GGUF_ARRAY) { /* with one element */
            const uint32_t inner = ZEST_GGUF_I32;
            const uint64_t one = 1;
            zest_buffer_add(buffer, &inner, sizeof inner);
            zest_buffer_add(buffer, &one, sizeof one);
            zest_buffer_add(buffer, &number, 4);
        }
        if (kind < ZEST_GGUF_KINDS && kind_sizes[kind]) zest_buffer_add(buffer, &number, kind_sizes[kind]);
    } else if (key->kind < ZEST_GGUF_KINDS && kind_sizes[key->kind]) {
        zest_buffer_add(buffer, &number, kind_sizes[key->kind]);
    } else if (key->kind == ZEST_GGUF_STRING && key->size >= 8) {
        zest_buffer text = {0};
        fuzz_mutate_text(r, (const char *)key->value + 8, key->size - 8, &text);
        uint64_t length = text.size;
        zest_buffer_add(buffer, &length, sizeof length);
        zest_buffer_add(buffer, text.data ? text.data : "", text.size);
        zest_buffer_free(&text);
    } else {
        fuzz_mutate_bytes(r, key->value, key->size, buffer);
    }
    key->value = (const uint8_t *)(buffer->data ? buffer->data : "");
    key->size = buffer->size;
}

static void change_gguf_tensor(fuzz_random *r, gguf_parts *parts) {
    if (!parts->tensors_read) return;
    size_t at = fuzz_below(r, parts->tensors_read), other = fuzz_below(r, parts->tensors_read);
    gguf_tensor *t = &parts->tensors[at];
    switch (fuzz_below(r, 7)) {
    case 0: t->type = (uint32_t)fuzz_below(r, 42); break;
    case 1:
        if (t->rank) t->dims[fuzz_below(r, t->rank) % 4] = fuzz_below(r, 70);
        break;
    case 2:
        if (t->rank) t->dims[fuzz_below(r, t->rank) % 4] = (uint64_t)fuzz_integer(r);
        break;
    case 3: t->rank = (uint32_t)fuzz_below(r, 6); break;
    case 4: t->offset = (uint64_t)fuzz_integer(r) / parts->alignment * parts->alignment; break;
    case 5: t->name = parts->tensors[other].name, t->name_size = parts->tensors[other].name_size; break;
    default: *t = parts->tensors[--parts->tensors_read]; break;
    }
}

static void put_number(zest_buffer *out, uint64_t number, size_t size) {
    zest_buffer_add(out, &number, size);
}

static void write_gguf(fuzz_random *r, const gguf_parts *parts, size_t data_size, zest_buffer *out) {
    size_t from = out->size;
    zest_buffer_text(out, "GGUF");
    put_number(out, parts->version, 4);
    put_number(out, fuzz_below(r, 32) ? parts->tensors_read : parts->tensor_count, 8);
    put_number(out, fuzz_below(r, 32) ? parts->keys_read : parts->key_count, 8);
    for (size_t i = 0; i < parts->keys_read; i++) {
        const gguf_key *key = &parts->keys[i];
        put_number(out, key->name_size, 8);
        zest_buffer_add(out, key->name, key->name_size);
        put_number(out, key->kind, 4);
        zest_buffer_add(out, key->value, key->size);
    }
    for (size_t i = 0; i < parts->tensors_read; i++) {
        const gguf_tensor *t = &parts->tensors[i];
        put_number(out, t->name_size, 8);
        zest_buffer_add(out, t->name, t->name_size);
        put_number(out, t->rank, 4);
        for (uint32_t d = 0; d < t->rank; d++) put_number(out, d < 4 ? t->dims[d] : 1, 8);
        put_number(out, t->type, 4);
        put_number(out, t->offset, 8);
    }
    for (size_t padding = (parts->alignment - (out->size - from) % parts->alignment) % parts->alignment;
         padding; padding--)
        zest_buffer_add(out, "", 1);
    add_data(r, parts->data, parts->data_size, data_size, out);
}

int fuzz_mutate_gguf(fuzz_random *r, const uint8_t *data, size_t size, zest_buffer *out) {
    gguf_parts *parts = malloc(sizeof *parts);
    zest_buffer rooms[3] = {{0}}, changed = {0};
    int good = parts && read_gguf(data, size, parts);
    for (size_t n = good ? 1 + fuzz_below(r, 3) : 0; n > 0; n--) {
        size_t how = fuzz_below(r, 10), at = fuzz_below(r, parts->keys_read),
               other = fuzz_below(r, parts->keys_read);
        if (how < 5 && parts->keys_read)
            change_value(r, &parts->keys[at], &rooms[n - 1]);
        else if (how == 5 && parts->keys_read)
            parts->keys[at] = parts->keys[--parts->keys_read];
        else if (how == 6 && parts->keys_read)
            parts->keys[at].name = parts->keys[other].name,
            parts->keys[at].name_size = parts->keys[other].name_size;
        else if (how == 7 && !changed.data)
            fuzz_mutate_bytes(r, parts->data, parts->data_size, &changed);
        else
            change_gguf_tensor(r, parts);
    }
    if (good) {
        if (changed.data) parts->data = (const uint8_t *)changed.data, parts->data_size = changed.size;
        size_t data_size = fuzz_below(r, 4) ? place_gguf(parts) : parts->data_size;
        write_gguf(r, parts, data_size, out);
    }
    for (int i = 0; i < 3; i++) zest_buffer_free(&rooms[i]);
    zest_buffer_free(&changed);
    free(parts);
    return good;
}

/* ---- Journals ---- */

/* The number of pairs in a header's text; 5 is the default. */
static size_t pairs_of(const char *text, size_t size) {
    const char *found = memmem(text, size, "\nk=", 3);
    size_t k = 0;
    for (const char *at = found ? found + 3 : text + size;
         at < text + size && *at >= '0' && *at <= '9' && k < 1000; at++)
        k = 10 * k + (size_t)(*at - '0');
    return k ? k : 5;
}

int fuzz_mutate_journal(fuzz_random *r, const uint8_t *data, size_t size, zest_buffer *out) {
    if (size < ZEST_JOURNAL_PREFIX + ZEST_JOURNAL_CHECK ||
        memcmp(data, ZEST_JOURNAL_MAGIC, ZEST_JOURNAL_MAGIC_SIZE))
        return 0;
    size_t length = zest_journal_get32(data + 12), buffer = size - ZEST_JOURNAL_PREFIX - ZEST_JOURNAL_CHECK;
    if (length > buffer) return 0;
    const char *text = (const char *)data + ZEST_JOURNAL_PREFIX;
    zest_buffer header = {0}, made = {0};
    size_t in_header = fuzz_below(r, 2);
    if (in_header) fuzz_mutate_text(r, text, length, &header);
    if (header.data) text = header.data;
    unsigned char prefix[ZEST_JOURNAL_PREFIX], number[4];
    memcpy(prefix, data, sizeof prefix);
    zest_journal_put32(prefix + 12, (uint32_t)(in_header ? header.size : length));
    zest_buffer_add(&made, prefix, sizeof prefix);
    zest_buffer_add(&made, text ? text : "", in_header ? header.size : length);
    uint32_t check = zest_journal_checksum(made.data, made.size, 0);
    zest_journal_put32(number, check);
    zest_buffer_add(&made, number, 4);
    size_t record = zest_journal_record_size(2 * pairs_of((const char *)data + ZEST_JOURNAL_PREFIX, length)),
           at = ZEST_JOURNAL_PREFIX + length + ZEST_JOURNAL_CHECK;
    size_t records = (size - at) / record, changed = fuzz_below(r, records + 1);
    for (size_t i = 0; i < records; i++, at += record) {
        unsigned char bytes[ZEST_JOURNAL_RECORD_HEAD + 16 * 1000 + ZEST_JOURNAL_CHECK];
        memcpy(bytes, data + at, record);
        if (!in_header && i == changed && fuzz_below(r, 2))
            bytes[fuzz_below(r, record)] = (uint8_t)fuzz_next(r);
        if (!in_header && i == changed) { /* a loss or a rate that is no sane number */
            static const double odd[] = {0, -1, 1e308, -1e308, 1e-320, 0.0 / 1.0};
            uint64_t nan = 0x7FF8000000000001u;
            double value = odd[fuzz_below(r, 6)];
            size_t field = 8 + 8 * fuzz_below(r, (record - 12) / 8);
            memcpy(bytes + field, fuzz_below(r, 4) ? (void *)&value : (void *)&nan, 8);
        }
        check = zest_journal_checksum(bytes, record - ZEST_JOURNAL_CHECK, check);
        zest_journal_put32(bytes + record - ZEST_JOURNAL_CHECK, check);
        zest_buffer_add(&made, bytes, record);
    }
    zest_buffer_add(&made, data + at, size - at);
    if (made.data) zest_buffer_add(out, made.data, made.size);
    zest_buffer_free(&header);
    zest_buffer_free(&made);
    return 1;
}
