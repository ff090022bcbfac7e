/* Mutators of text, JSON and bundles; the choice between all mutators. */
#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/option.h"
#include "tests/fuzz/fuzz.h"

/* Of libFuzzer, which learns from comparisons in the code; not there in replay.c. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max) __attribute__((weak));

/* ---- Random numbers ---- */

uint64_t fuzz_next(fuzz_random *r) { /* splitmix64 */
    uint64_t z = r->state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

size_t fuzz_below(fuzz_random *r, size_t n) { return n ? (size_t)(fuzz_next(r) % n) : 0; }

int64_t fuzz_integer(fuzz_random *r) {
    static const int64_t edges[] = {0,
                                    1,
                                    -1,
                                    2,
                                    3,
                                    4,
                                    7,
                                    8,
                                    16,
                                    31,
                                    32,
                                    64,
                                    127,
                                    128,
                                    255,
                                    256,
                                    1024,
                                    4096,
                                    65535,
                                    65536,
                                    1 << 20,
                                    1 << 28,
                                    INT32_MAX,
                                    (int64_t)INT32_MAX + 1,
                                    UINT32_MAX,
                                    (int64_t)1 << 32,
                                    (int64_t)1 << 40,
                                    (int64_t)1 << 61,
                                    (int64_t)1 << 62,
                                    INT64_MAX,
                                    INT64_MAX - 31,
                                    INT64_MIN};
    int64_t edge = edges[fuzz_below(r, sizeof edges / sizeof *edges)];
    switch (fuzz_below(r, 4)) {
    case 0: return (int64_t)fuzz_below(r, 64);
    case 1: return (int64_t)((uint64_t)edge + fuzz_below(r, 5) - 2);
    case 2: return (int64_t)((uint64_t)edge * (1 + fuzz_below(r, 3)));
    default: return edge;
    }
}

/* ---- Bytes ---- */

void fuzz_mutate_bytes(fuzz_random *r, const uint8_t *data, size_t size, zest_buffer *out) {
    size_t from = out->size;
    zest_buffer_add(out, data, size);
    if (out->failed || !out->data) return;
    for (size_t n = 1 + fuzz_below(r, 4); n > 0; n--) {
        uint8_t *bytes = (uint8_t *)out->data + from;
        size_t now = out->size - from, at = fuzz_below(r, now), length = fuzz_below(r, 9);
        int64_t number = fuzz_integer(r);
        if (at + length > now) length = now - at;
        switch (now ? fuzz_below(r, 6) : 5) {
        case 0: bytes[at] ^= (uint8_t)(1u << fuzz_below(r, 8)); break;
        case 1: bytes[at] = (uint8_t)fuzz_next(r); break;
        case 2: memcpy(bytes + at, &number, length); break;
        case 3:
            memmove(bytes + at, bytes + at + length, now - at - length);
            out->size -= length;
            break;
        case 4: memmove(bytes + at, bytes + fuzz_below(r, now - length + 1), length); break;
        default: zest_buffer_add(out, &number, 1 + fuzz_below(r, 8)); break;
        }
    }
}

/* ---- Text ---- */

/* Where readers of text take decisions. */
static const char *const words[] = {"\t",
                                    ",",
                                    "\"",
                                    "\"\"",
                                    "\r\n",
                                    "\n",
                                    "\n\n",
                                    " ",
                                    "=",
                                    ":",
                                    "#",
                                    "|",
                                    "\\",
                                    "\\n",
                                    "\\",
                                    "{",
                                    "}",
                                    "{{",
                                    "}}",
                                    "=>",
                                    "-",
                                    "--",
                                    "/",
                                    "..",
                                    "../",
                                    "*",
                                    "?",
                                    "\xEF\xBB\xBF",
                                    "\xFF",
                                    "\xC3",
                                    "\xE2\x96\x81",
                                    "\xC3\xA9",
                                    "\xF0\x9F\x98\x80",
                                    "\x1B[2J",
                                    "0",
                                    "1",
                                    "-1",
                                    "00",
                                    "1e999",
                                    "nan",
                                    "inf",
                                    "-0.5",
                                    "0x10",
                                    "9223372036854775807",
                                    "-9223372036854775808",
                                    "18446744073709551616",
                                    "99999999999999999999",
                                    "4294967296",
                                    "yes",
                                    "no",
                                    "true",
                                    "null",
                                    "{mask}",
                                    "{answer}",
                                    "{option}",
                                    "{text}",
                                    "{text|strip}",
                                    "{text|lower|a=>b}",
                                    "{a|b=>{c}}",
                                    "{text|a=>{text}{text}}",
                                    "name",
                                    "about",
                                    "train",
                                    "dev",
                                    "test",
                                    "format",
                                    "header",
                                    "fields",
                                    "kind",
                                    "classes",
                                    "choice",
                                    "text",
                                    "label",
                                    "words",
                                    "options",
                                    "option-form",
                                    "template",
                                    "masked-template",
                                    "causal-template",
                                    "metric",
                                    "select",
                                    "max-length",
                                    "max-tokens",
                                    "dev-size",
                                    "accuracy",
                                    "loss",
                                    "jsonl",
                                    "csv",
                                    "tsv",
                                    "tensor=F32 4 x",
                                    "tensor=BF16 99999999999999999999 y",
                                    "dimension=",
                                    "fingerprint=",
                                    "#version: 0.2",
                                    "<0x00>",
                                    "<0x-1>",
                                    "<s>",
                                    "##a",
                                    "[UNK]",
                                    "{%",
                                    "%}",
                                    "{%-",
                                    "-%}",
                                    "{{-",
                                    "{#",
                                    "if",
                                    "elif",
                                    "else",
                                    "endif",
                                    "for",
                                    "in",
                                    "endfor",
                                    "set",
                                    "endset",
                                    "macro",
                                    "endmacro",
                                    "loop.index",
                                    "namespace",
                                    "range",
                                    "not",
                                    "and",
                                    "is defined",
                                    "messages",
                                    "|length",
                                    "|tojson",
                                    "|trim",
                                    "[::-1]",
                                    "[0]",
                                    ".content",
                                    "raise_exception(",
                                    "~",
                                    "**",
                                    "//",
                                    "\xC4\xA0"};

static const char *word(fuzz_random *r) {
    size_t known = sizeof words / sizeof *words;
    if (fuzz_below(r, 3)) return words[fuzz_below(r, known)];
    return zest_option_row_at((zest_option_id)fuzz_below(r, ZEST_OPTION_COUNT))->name;
}

typedef struct {
    const char *at;
    size_t size;
} piece;

enum { MAX_PIECES = 4096, MAX_TEXT = 1 << 20 };

/* Lines with their ends, or words and what is between them. */
static size_t cut(const char *data, size_t size, int lines, piece *pieces) {
    size_t count = 0, from = 0;
    for (size_t i = 0; i < size && count + 1 < MAX_PIECES; i++) {
        int last = i + 1 == size ||
                   (lines ? data[i] == '\n'
                          : !isalnum((unsigned char)data[i]) != !isalnum((unsigned char)data[i + 1]));
        if (!last) continue;
        pieces[count++] = (piece){data + from, i + 1 - from};
        from = i + 1;
    }
    if (from < size) pieces[count++] = (piece){data + from, size - from};
    return count;
}

static void add_number(fuzz_random *r, zest_buffer *out) {
    zest_buffer_format(out, "%lld", (long long)fuzz_integer(r));
}

void fuzz_mutate_text(fuzz_random *r, const char *data, size_t size, zest_buffer *out) {
    piece *pieces = malloc(MAX_PIECES * sizeof *pieces);
    if (!pieces) return;
    size_t count = cut(data, size, fuzz_below(r, 3) == 0, pieces), at = fuzz_below(r, count),
           other = fuzz_below(r, count), how = fuzz_below(r, 9);
    for (size_t i = 0; i < count; i++) {
        const piece *p = &pieces[i];
        if (i != at && !(i == other && how == 3)) {
            zest_buffer_add(out, p->at, p->size);
            continue;
        }
        switch (how) {
        case 0: break; /* gone */
        case 1:
        case 2: /* twice, or very often */
            for (size_t n = how == 1 ? 2 : 2 + fuzz_below(r, 300); n > 0 && out->size < MAX_TEXT; n--)
                zest_buffer_add(out, p->at, p->size);
            break;
        case 3: p = &pieces[i == at ? other : at], zest_buffer_add(out, p->at, p->size); break;
        case 4: zest_buffer_text(out, word(r)); break;
        case 5: zest_buffer_add(out, p->at, p->size), zest_buffer_text(out, word(r)); break;
        case 6: add_number(r, out); break;
        case 7: zest_buffer_text(out, word(r)), zest_buffer_add(out, p->at, p->size); break;
        default: fuzz_mutate_bytes(r, (const uint8_t *)p->at, p->size, out); break;
        }
    }
    if (!count) zest_buffer_text(out, word(r));
    free(pieces);
}

/* ---- JSON ---- */

static json_t *text_value(fuzz_random *r) {
    static const char *const known[] = {"",
                                        "a",
                                        "<0x-1>",
                                        "<0x100>",
                                        "<0x41>",
                                        "\xE2\x96\x81",
                                        "a b",
                                        "\xC4\xA0 a",
                                        "F32",
                                        "BF16",
                                        "I64",
                                        "F64",
                                        "BOOL",
                                        "roberta",
                                        "bert",
                                        "opt",
                                        "gpt2",
                                        "llama",
                                        "qwen2",
                                        "mistral",
                                        "BPE",
                                        "WordPiece",
                                        "Sequence",
                                        "Replace",
                                        "Prepend",
                                        "Split",
                                        "ByteLevel",
                                        "ByteFallback",
                                        "Metaspace",
                                        "BertNormalizer",
                                        "BertPreTokenizer",
                                        "TemplateProcessing",
                                        "Strip",
                                        "Fuse",
                                        "NFC",
                                        "Lowercase",
                                        "Digits",
                                        "Isolated",
                                        "Removed",
                                        "linear",
                                        "llama3",
                                        "(?:a|aa)+$",
                                        "[^x]*x",
                                        "\\p{L}{1,9}|.",
                                        "../x",
                                        "/etc/passwd",
                                        "model.safetensors",
                                        "\x1B[2J",
                                        "relu",
                                        "silu",
                                        "gelu",
                                        "[CLS]",
                                        "<s>",
                                        "##"};
    if (fuzz_below(r, 12)) return json_string(known[fuzz_below(r, sizeof known / sizeof *known)]);
    size_t size = 1 + fuzz_below(r, 3000);
    char *text = malloc(size);
    if (!text) return json_null();
    memset(text, 'a' + (int)fuzz_below(r, 3), size);
    json_t *json = json_stringn(text, size);
    free(text);
    return json;
}

/* jansson has no infinite numbers. */
static json_t *real_value(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static json_t *any_value(fuzz_random *r) {
    switch (fuzz_below(r, 10)) {
    case 0: return json_null();
    case 1: return json_boolean(fuzz_below(r, 2));
    case 2: return json_array();
    case 3: return json_object();
    case 4: return json_pack("[I, I]", (json_int_t)fuzz_integer(r), (json_int_t)fuzz_integer(r));
    case 5: return real_value((double)fuzz_integer(r) * (fuzz_below(r, 2) ? 1e-9 : 1e290));
    case 6:
    case 7: return text_value(r);
    default: return json_integer(fuzz_integer(r));
    }
}

/* A value of the same type as this one, close to it. */
static json_t *near_value(fuzz_random *r, const json_t *json) {
    zest_buffer text = {0};
    json_t *made = NULL;
    switch (json_typeof(json)) {
    case JSON_INTEGER:
        if (fuzz_below(r, 2)) return json_integer(fuzz_integer(r));
        return json_integer((json_int_t)((uint64_t)json_integer_value(json) + fuzz_below(r, 5) - 2));
    case JSON_REAL: return real_value(json_real_value(json) * ((double)fuzz_below(r, 5) - 2));
    case JSON_TRUE: return json_false();
    case JSON_FALSE: return json_true();
    case JSON_STRING:
        fuzz_mutate_text(r, json_string_value(json), json_string_length(json), &text);
        if (text.data) made = json_stringn(text.data, text.size); /* NULL: no longer UTF-8 */
        zest_buffer_free(&text);
        return made ? made : text_value(r);
    default: return any_value(r);
    }
}

typedef struct {
    fuzz_random *r;
    size_t left;          /* values to pass before the one that changes */
    const json_t *copied; /* another value of the document */
} json_walk;

/* What becomes of the chosen value; NULL: it goes. */
static json_t *change(json_walk *w, const json_t *old) {
    switch (fuzz_below(w->r, 8)) {
    case 0: return NULL;
    case 1: return any_value(w->r);
    case 2: return json_deep_copy(w->copied);
    default: return near_value(w->r, old);
    }
}

static size_t count_values(const json_t *json, size_t wanted, const json_t **found) {
    size_t count = 1, i;
    const char *key;
    json_t *value;
    if (!wanted) *found = json;
    if (json_is_array(json)) {
        json_array_foreach(json, i, value) count += count_values(value, wanted - count, found);
    } else {
        json_object_foreach((json_t *)(uintptr_t)json, key, value) count +=
            count_values(value, wanted - count, found);
    }
    return count;
}

/* Changes one value inside; 1: done. */
static int change_object(json_walk *w, json_t *json);
static int change_array(json_walk *w, json_t *json);

static int change_inside(json_walk *w, json_t *json) {
    return json_is_object(json) ? change_object(w, json) : json_is_array(json) ? change_array(w, json) : 0;
}

static int change_object(json_walk *w, json_t *json) {
    const char *key;
    json_t *value;
    void *next;
    json_object_foreach_safe(json, next, key, value) {
        if (w->left--) {
            if (change_inside(w, value)) return 1;
            continue;
        }
        char name[200];
        snprintf(name, sizeof name, "%.190s", key);
        json_t *made = change(w, value);
        if (!made)
            json_object_del(json, name);
        else if (fuzz_below(w->r, 6))
            json_object_set_new(json, name, made);
        else
            json_object_set_new_nocheck(json, fuzz_below(w->r, 2) ? word(w->r) : "a", made);
        return 1;
    }
    return 0;
}

static int change_array(json_walk *w, json_t *json) {
    for (size_t i = 0; i < json_array_size(json); i++) {
        json_t *value = json_array_get(json, i);
        if (w->left--) {
            if (change_inside(w, value)) return 1;
            continue;
        }
        json_t *made = change(w, value);
        if (!made)
            json_array_remove(json, i);
        else if (fuzz_below(w->r, 4))
            json_array_set_new(json, i, made);
        else
            json_array_insert_new(json, i, made);
        return 1;
    }
    return 0;
}

int fuzz_mutate_json(fuzz_random *r, const char *data, size_t size, zest_buffer *out) {
    json_t *root = json_loadb(data, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (!root) return 0;
    for (size_t n = 1 + fuzz_below(r, 3); n > 0; n--) {
        const json_t *copied = root;
        size_t values = count_values(root, SIZE_MAX, &copied);
        count_values(root, fuzz_below(r, values), &copied);
        json_t *copy = json_deep_copy(copied);
        json_walk w = {r, fuzz_below(r, values - 1), copy};
        if (!change_inside(&w, root)) {
            json_t *made = near_value(r, root);
            json_decref(root);
            root = made;
        }
        json_decref(copy);
    }
    char *text = json_dumps(root, JSON_COMPACT | JSON_ENCODE_ANY);
    if (text) zest_buffer_text(out, text);
    json_decref(root);
    free(text);
    return text != NULL;
}

/* One line of them. */
static int mutate_json_lines(fuzz_random *r, const char *data, size_t size, zest_buffer *out) {
    piece *pieces = malloc(MAX_PIECES * sizeof *pieces);
    if (!pieces) return 0;
    size_t count = cut(data, size, 1, pieces), at = fuzz_below(r, count);
    for (size_t i = 0; i < count; i++) {
        if (i != at || !fuzz_mutate_json(r, pieces[i].at, pieces[i].size, out))
            zest_buffer_add(out, pieces[i].at, pieces[i].size);
        else
            zest_buffer_text(out, "\n");
    }
    free(pieces);
    return count > 0;
}

/* ---- Bundles ---- */

static int name_is_allowed(const char *name, size_t size) {
    size_t slashes = 0;
    for (size_t i = 0; i < size; i++) {
        slashes += name[i] == '/';
        if (!isalnum((unsigned char)name[i]) && !strchr("._-/", name[i])) return 0;
    }
    return size && size < FUZZ_MAX_NAME && slashes <= 1 && isalnum((unsigned char)name[0]) &&
           name[size - 1] != '/' && !memmem(name, size, "..", 2);
}

size_t fuzz_bundle_read(const uint8_t *data, size_t size, fuzz_file files[FUZZ_MAX_FILES]) {
    size_t count = 0, at = 0;
    while (at < size && count < FUZZ_MAX_FILES) {
        const char *line = (const char *)data + at, *end = memchr(line, '\n', size - at),
                   *space = end ? memchr(line, ' ', (size_t)(end - line)) : NULL;
        char number[24];
        if (!space || end - space >= (long)sizeof number || !name_is_allowed(line, (size_t)(space - line)))
            break;
        snprintf(number, sizeof number, "%.*s", (int)(end - space - 1), space + 1);
        size_t from = (size_t)(end + 1 - (const char *)data), length = strtoul(number, NULL, 10);
        if (!isdigit((unsigned char)number[0]) || length > size - from) length = size - from;
        fuzz_file *file = &files[count++];
        snprintf(file->name, sizeof file->name, "%.*s", (int)(space - line), line);
        file->data = data + from;
        file->size = length;
        at = from + length;
    }
    return count;
}

void fuzz_bundle_add(zest_buffer *out, const char *name, const void *data, size_t size) {
    zest_buffer_format(out, "%s %zu\n", name, size);
    zest_buffer_add(out, data, size);
}

static int ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

static fuzz_kind kind_of(const char *name) {
    if (ends_with(name, ".json")) return FUZZ_JSON;
    if (ends_with(name, ".jsonl")) return FUZZ_JSON_LINES;
    if (ends_with(name, ".safetensors")) return FUZZ_SAFETENSORS;
    if (ends_with(name, ".gguf")) return FUZZ_GGUF;
    if (ends_with(name, ".model")) return FUZZ_PROTOBUF;
    return !strcmp(name, "journal") ? FUZZ_JOURNAL : FUZZ_TEXT;
}

static void mutate_kind(fuzz_random *r, fuzz_kind kind, const uint8_t *data, size_t size, zest_buffer *out);

static int mutate_bundle(fuzz_random *r, const uint8_t *data, size_t size, zest_buffer *out) {
    fuzz_file files[FUZZ_MAX_FILES];
    size_t count = fuzz_bundle_read(data, size, files);
    if (!count) return 0;
    size_t at = fuzz_below(r, count), other = fuzz_below(r, count), how = fuzz_below(r, 24);
    for (size_t i = 0; i < count; i++) {
        const fuzz_file *file = &files[i];
        zest_buffer changed = {0};
        if (i != at) {
            fuzz_bundle_add(out, file->name, file->data, file->size);
        } else if (how == 1) { /* the content of another one */
            fuzz_bundle_add(out, file->name, files[other].data, files[other].size);
        } else if (how == 2) { /* cut off */
            fuzz_bundle_add(out, file->name, file->data, fuzz_below(r, file->size + 1));
        } else if (how) {
            mutate_kind(r, kind_of(file->name), file->data, file->size, &changed);
            fuzz_bundle_add(out, file->name, changed.data ? changed.data : "", changed.size);
        }
        zest_buffer_free(&changed);
    }
    return 1;
}

/* ---- All ---- */

static void mutate_kind(fuzz_random *r, fuzz_kind kind, const uint8_t *data, size_t size, zest_buffer *out) {
    int done = 0;
    if (fuzz_below(r, 10)) switch (kind) {
        case FUZZ_TEXT: fuzz_mutate_text(r, (const char *)data, size, out), done = 1; break;
        case FUZZ_JSON: done = fuzz_mutate_json(r, (const char *)data, size, out); break;
        case FUZZ_JSON_LINES: done = mutate_json_lines(r, (const char *)data, size, out); break;
        case FUZZ_SAFETENSORS: done = fuzz_mutate_safetensors(r, data, size, out); break;
        case FUZZ_GGUF: done = fuzz_mutate_gguf(r, data, size, out); break;
        case FUZZ_PROTOBUF: done = fuzz_mutate_protobuf(r, data, size, out); break;
        case FUZZ_JOURNAL: done = fuzz_mutate_journal(r, data, size, out); break;
        case FUZZ_BUNDLE: done = mutate_bundle(r, data, size, out); break;
        }
    if (!done) fuzz_mutate_bytes(r, data, size, out);
}

size_t fuzz_mutate(fuzz_kind kind, uint8_t *data, size_t size, size_t max, unsigned seed) {
    fuzz_random r = {seed};
    zest_buffer out = {0};
    if (LLVMFuzzerMutate && fuzz_below(&r, 10) == 0) return LLVMFuzzerMutate(data, size, max);
    mutate_kind(&r, kind, data, size, &out);
    size_t made = out.failed ? 0 : out.size < max ? out.size : max;
    if (made) memcpy(data, out.data, made);
    zest_buffer_free(&out);
    return made ? made : size;
}
