/* Mutator of protobuf messages: one field is changed, removed, repeated or moved, at any depth; the lengths of the messages
 * around it follow. */
#include <string.h>

#include "tests/fuzz/fuzz.h"

enum { MAX_DEPTH = 4 };

typedef struct {
    const uint8_t *at, *end;
} reader;

typedef struct {
    const uint8_t *start, *bytes, *end; /* all of it, and what follows key and length */
    uint64_t key, value;
} field;

static int take_varint(reader *in, uint64_t *value) {
    *value = 0;
    for (int shift = 0; shift < 64 && in->at < in->end; shift += 7) {
        *value |= (uint64_t)(*in->at & 0x7F) << shift;
        if (!(*in->at++ & 0x80)) return 1;
    }
    return 0;
}

static int take_field(reader *in, field *f) {
    f->start = in->at;
    if (!take_varint(in, &f->key)) return 0;
    unsigned kind = f->key & 7;
    f->value = kind == 1 ? 8 : kind == 5 ? 4 : 0;
    if ((kind == 0 || kind == 2) && !take_varint(in, &f->value)) return 0;
    f->bytes = in->at;
    if (kind == 3 || kind == 4 || kind > 5) return 0;
    if (kind && f->value > (uint64_t)(in->end - in->at)) return 0;
    if (kind) in->at += f->value;
    f->end = in->at;
    return 1;
}

static void put_varint(zest_buffer *out, uint64_t value) {
    for (uint8_t byte; value >= 0x80; value >>= 7)
        zest_buffer_add(out, (byte = (uint8_t)value | 0x80, &byte), 1);
    uint8_t last = (uint8_t)value;
    zest_buffer_add(out, &last, 1);
}

static size_t count_fields(const uint8_t *data, size_t size) {
    reader in = {data, data + size};
    field f;
    size_t count = 0;
    while (in.at < in.end)
        if (take_field(&in, &f))
            count++;
        else
            return 0;
    return count;
}

static void change_message(fuzz_random *r, const uint8_t *data, size_t size, int depth, zest_buffer *out);

static void change_bytes(fuzz_random *r, const field *f, int depth, zest_buffer *out) {
    zest_buffer inner = {0};
    size_t size = (size_t)(f->end - f->bytes);
    if (depth < MAX_DEPTH && count_fields(f->bytes, size) && fuzz_below(r, 4))
        change_message(r, f->bytes, size, depth + 1, &inner);
    else if (fuzz_below(r, 2))
        fuzz_mutate_text(r, (const char *)f->bytes, size, &inner);
    else
        fuzz_mutate_bytes(r, f->bytes, size, &inner);
    put_varint(out, f->key);
    put_varint(out, fuzz_below(r, 32) ? inner.size : (uint64_t)fuzz_integer(r));
    zest_buffer_add(out, inner.data ? inner.data : "", inner.size);
    zest_buffer_free(&inner);
}

static void change_field(fuzz_random *r, const field *f, int depth, zest_buffer *out) {
    static const uint32_t odd[] = {0, 0x7F800000u, 0xFF800000u, 0x7FC00000u, 0x7F7FFFFFu, 1u, 0xC0000000u};
    switch (fuzz_below(r, 8)) {
    case 0: return;
    case 1: /* twice */
        zest_buffer_add(out, f->start, (size_t)(f->end - f->start));
        zest_buffer_add(out, f->start, (size_t)(f->end - f->start));
        return;
    case 2: /* under another number */
        put_varint(out, (fuzz_below(r, 48) << 3) | (f->key & 7));
        zest_buffer_add(out, f->start + 1, (size_t)(f->end - f->start - 1));
        return;
    default: break;
    }
    if ((f->key & 7) == 2) {
        change_bytes(r, f, depth, out);
        return;
    }
    put_varint(out, f->key);
    if ((f->key & 7) == 0) {
        put_varint(out, fuzz_below(r, 2) ? fuzz_below(r, 10) : (uint64_t)fuzz_integer(r));
    } else if ((f->key & 7) == 5) {
        uint32_t value = fuzz_below(r, 2) ? odd[fuzz_below(r, 7)] : (uint32_t)fuzz_next(r);
        zest_buffer_add(out, &value, 4);
    } else {
        uint64_t value = fuzz_next(r);
        zest_buffer_add(out, &value, 8);
    }
}

static void change_message(fuzz_random *r, const uint8_t *data, size_t size, int depth, zest_buffer *out) {
    size_t changed = fuzz_below(r, count_fields(data, size));
    /* the last fields are as interesting as the thousands of tokens before them */
    if (fuzz_below(r, 2) && count_fields(data, size) > 4)
        changed = count_fields(data, size) - 1 - fuzz_below(r, 4);
    reader in = {data, data + size};
    field f;
    for (size_t i = 0; in.at < in.end && take_field(&in, &f); i++)
        if (i == changed)
            change_field(r, &f, depth, out);
        else
            zest_buffer_add(out, f.start, (size_t)(f.end - f.start));
}

int fuzz_mutate_protobuf(fuzz_random *r, const uint8_t *data, size_t size, zest_buffer *out) {
    if (!count_fields(data, size)) return 0;
    change_message(r, data, size, 0, out);
    return 1;
}
