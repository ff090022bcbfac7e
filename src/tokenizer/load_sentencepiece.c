/* Tokenizers from a SentencePiece .model: a protobuf message with the tokens, their scores, and the settings of the
 * trainer and the normalizer. The fields that matter here, by their numbers:
 *
 *     1 token (repeated): 1 text, 2 score (float), 3 type
 *     2 trainer: 3 model, 24 white space as suffix, 35 byte fallback, 40 unk, 41 bos, 42 eos, 43 pad
 *     3 normalizer: 2 map of characters, 3 space in front, 4 trim, 5 escape spaces
 *     5 normalizer of decoded text */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "tokenizer/load.h"
#include "tokenizer/tokenizer_internal.h"

enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };
enum { UNIGRAM = 1, BPE, WORD, CHAR };

/* ---- Protobuf ---- */

typedef struct {
    const char *at, *end;
    int damaged;
} reader;

/* One field: a number, or bytes. Fixed numbers of four or eight bytes are bytes here. */
typedef struct {
    uint32_t number;
    int is_bytes;
    uint64_t value;
    const char *bytes;
    size_t size;
} field;

static uint64_t read_varint(reader *r) {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && r->at < r->end; shift += 7) {
        unsigned char byte = (unsigned char)*r->at++;
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (!(byte & 0x80)) return value;
    }
    r->damaged = 1;
    return 0;
}

/* The next field; 0: there is none, or the message is damaged. */
static int next_field(reader *r, field *f) {
    static const unsigned char fixed[8] = {[1] = 8, [5] = 4};
    if (r->damaged || r->at == r->end) return 0;
    uint64_t key = read_varint(r);
    unsigned kind = key & 7;
    *f = (field){.number = key >> 3 <= UINT32_MAX ? (uint32_t)(key >> 3) : 0, .is_bytes = kind != 0};
    if (kind == 0)
        f->value = read_varint(r);
    else if (kind == 2 || fixed[kind])
        f->value = kind == 2 ? read_varint(r) : fixed[kind];
    else
        r->damaged = 1;
    if (f->is_bytes && f->value > (uint64_t)(r->end - r->at)) r->damaged = 1;
    if (r->damaged) return 0;
    if (!f->is_bytes) return 1;
    f->bytes = r->at;
    f->size = (size_t)f->value;
    r->at += f->size;
    return 1;
}

static reader inside(const field *f) { return (reader){f->bytes, f->bytes + f->size, !f->is_bytes}; }

/* ---- The file ---- */

typedef struct {
    zest_tokenizer_arrays arrays;
    zest_tokenizer_text *tokens;
    float *scores;
    int32_t *types;
    size_t capacity;
    int64_t model;
    int suffix, byte_fallback, prefix, trim, escape, denormalizes;
    const char *map;
    size_t map_size;
} contents;

static int32_t id_of(uint64_t value) { return value < INT32_MAX ? (int32_t)value : -1; }

static int grow(contents *c) {
    if (c->arrays.count < c->capacity) return 1;
    size_t capacity = c->capacity ? 2 * c->capacity : 4096;
    zest_tokenizer_text *tokens = realloc(c->tokens, capacity * sizeof *tokens);
    if (tokens) c->tokens = tokens;
    float *scores = realloc(c->scores, capacity * sizeof *scores);
    if (scores) c->scores = scores;
    int32_t *types = realloc(c->types, capacity * sizeof *types);
    if (types) c->types = types;
    if (!tokens || !scores || !types) return 0;
    c->capacity = capacity;
    return 1;
}

static void read_token(contents *c, reader r, int *damaged) {
    size_t id = c->arrays.count++;
    field f;
    c->tokens[id] = (zest_tokenizer_text){"", 0};
    c->scores[id] = 0;
    c->types[id] = NORMAL;
    while (next_field(&r, &f)) {
        if (f.number == 1 && f.is_bytes) c->tokens[id] = (zest_tokenizer_text){f.bytes, f.size};
        if (f.number == 2 && f.size == 4) memcpy(&c->scores[id], f.bytes, 4);
        if (f.number == 3 && !f.is_bytes) c->types[id] = id_of(f.value);
    }
    if (r.damaged || c->types[id] < NORMAL || c->types[id] > BYTE) *damaged = 1;
}

static int read_trainer(contents *c, reader r) {
    field f;
    while (next_field(&r, &f)) {
        if (f.is_bytes) continue;
        switch (f.number) {
        case 3: c->model = id_of(f.value); break;
        case 24: c->suffix = f.value != 0; break;
        case 35: c->byte_fallback = f.value != 0; break;
        case 40: c->arrays.unk = id_of(f.value); break;
        case 41: c->arrays.bos = id_of(f.value); break;
        case 42: c->arrays.eos = id_of(f.value); break;
        case 43: c->arrays.pad = id_of(f.value); break;
        default: break;
        }
    }
    return r.damaged;
}

static int read_normalizer(contents *c, reader r) {
    field f;
    while (next_field(&r, &f)) {
        if (f.number == 2 && f.is_bytes) c->map = f.bytes, c->map_size = f.size;
        if (f.number == 3 && !f.is_bytes) c->prefix = f.value != 0;
        if (f.number == 4 && !f.is_bytes) c->trim = f.value != 0;
        if (f.number == 5 && !f.is_bytes) c->escape = f.value != 0;
    }
    return r.damaged;
}

static zest_status read_contents(contents *c, const char *bytes, size_t size, const char *name,
                                 zest_error *error) {
    reader r = {bytes, bytes + size, 0};
    field f;
    int damaged = 0;
    while (!damaged && next_field(&r, &f)) {
        if (f.number == 1 && f.is_bytes) {
            if (!grow(c)) return zest_error_memory(error, name, c->capacity * 2 * sizeof *c->tokens);
            read_token(c, inside(&f), &damaged);
        }
        if (f.number == 2 && f.is_bytes) damaged |= read_trainer(c, inside(&f));
        if (f.number == 3 && f.is_bytes) damaged |= read_normalizer(c, inside(&f));
        if (f.number == 5 && f.is_bytes)
            for (reader inner = inside(&f); next_field(&inner, &f);)
                if (f.number == 2 && f.size) c->denormalizes = 1;
    }
    c->arrays.tokens = c->tokens, c->arrays.scores = c->scores, c->arrays.types = c->types;
    if (!damaged && !r.damaged && c->arrays.count) return ZEST_OK;
    return zest_error_set(error, ZEST_ERROR_FORMAT,
                          "%s: is not a SentencePiece model, or is damaged; if it is tiktoken's, convert it "
                          "once with transformers to a tokenizer.json",
                          name);
}

/* ---- Construction ---- */

static zest_status refuse(const char *name, const char *what, zest_error *error) {
    return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: %s, which zest does not support", name, what);
}

static zest_status check(const contents *c, const char *name, zest_error *error) {
    int unknown = 0, unused = 0, defined = 0;
    for (size_t id = 0; id < c->arrays.count; id++) {
        unknown += c->types[id] == UNKNOWN;
        unused |= c->types[id] == UNUSED;
        defined |= c->types[id] == USER_DEFINED;
        if (!isfinite(c->scores[id]))
            return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: token %zu: its score is not a number", name,
                                  id);
    }
    if (c->model != UNIGRAM && c->model != BPE)
        return refuse(name, c->model == WORD ? "is a WORD model" : "is a CHAR model", error);
    if (c->suffix) return refuse(name, "marks the ends of words (treat_whitespace_as_suffix)", error);
    if (c->denormalizes) return refuse(name, "changes decoded text (denormalizer_spec)", error);
    if (c->model == BPE && unused) return refuse(name, "is BPE with tokens of type UNUSED", error);
    if (c->model == UNIGRAM && defined)
        return refuse(name, "is Unigram with tokens of type USER_DEFINED", error);
    if (unknown != 1 || c->arrays.unk < 0 || (size_t)c->arrays.unk >= c->arrays.count ||
        c->types[c->arrays.unk] != UNKNOWN)
        return zest_error_set(error, ZEST_ERROR_FORMAT,
                              "%s: needs one token of type UNKNOWN, at the place of unk_id", name);
    return ZEST_OK;
}

/* Scores of single precision, as SentencePiece adds them. */
static zest_status add_unigram(zest_tokenizer *tokenizer, const contents *c, zest_error *error) {
    zest_unigram *unigram = &tokenizer->unigram;
    float lowest = FLT_MAX;
    unigram->count = c->arrays.count;
    unigram->score = calloc(unigram->count, sizeof *unigram->score);
    unigram->unlisted = calloc(unigram->count, 1);
    if (!unigram->score || !unigram->unlisted)
        return zest_error_memory(error, tokenizer->name, unigram->count * sizeof(double));
    for (size_t id = 0; id < unigram->count; id++) {
        unigram->unlisted[id] = c->types[id] != NORMAL;
        unigram->score[id] = (double)c->scores[id];
        if (c->types[id] == NORMAL && c->scores[id] < lowest) lowest = c->scores[id];
    }
    unigram->single = 1;
    unigram->lowest = lowest < FLT_MAX ? (double)lowest : 0;
    unigram->unknown = c->arrays.unk;
    unigram->byte_fallback = c->byte_fallback;
    return ZEST_OK;
}

/* Control tokens are found in a text before anything else; tokens that users defined, in the normalized text. */
static zest_status add_special(zest_tokenizer *tokenizer, const contents *c, zest_error *error) {
    zest_status status = ZEST_OK;
    for (size_t id = 0; id < c->arrays.count && !status; id++) {
        int type = c->types[id];
        if (type != CONTROL && type != UNKNOWN && type != USER_DEFINED) continue;
        zest_tokenizer_added added = {c->tokens[id].data, c->tokens[id].size, .id = (int64_t)id};
        added.special = type != USER_DEFINED;
        added.normalized = type == USER_DEFINED;
        status = zest_tokenizer_add(tokenizer, &added, error);
    }
    return status;
}

static zest_status keep_user_defined(const zest_tokenizer *tokenizer, const contents *c,
                                     zest_sentencepiece *rules, zest_error *error) {
    size_t bytes = 0, count = 0;
    for (size_t id = 0; id < c->arrays.count; id++)
        if (c->types[id] == USER_DEFINED) bytes += c->tokens[id].size, count++;
    rules->kept = calloc(count + 1, sizeof *rules->kept);
    char *at = rules->kept_text = malloc(bytes + 1);
    if (!rules->kept || !at)
        return zest_error_memory(error, tokenizer->name, count * sizeof *rules->kept + bytes);
    for (size_t id = 0; id < c->arrays.count; id++) {
        const zest_tokenizer_text *token = &c->tokens[id];
        if (c->types[id] != USER_DEFINED || !token->size) continue;
        memcpy(at, token->data, token->size);
        rules->kept[rules->kept_count++] = (zest_spelling){at, token->size, (uint32_t)id};
        at += token->size;
    }
    return ZEST_OK;
}

static zest_status add_normalizer(zest_tokenizer *tokenizer, const contents *c, zest_error *error) {
    zest_normalizer_step *step =
        zest_tokenizer_normalize_step(tokenizer, ZEST_NORMALIZER_SENTENCEPIECE, error);
    if (!step) return error->status;
    zest_sentencepiece *rules = step->sentencepiece = calloc(1, sizeof *rules);
    if (!rules) return zest_error_memory(error, tokenizer->name, sizeof *rules);
    rules->prefix = c->prefix, rules->trim = c->trim, rules->escape = c->escape;
    if (c->map_size) rules->map = zest_charsmap_new(c->map, c->map_size, tokenizer->name, error);
    if (c->map_size && !rules->map) return error->status;
    zest_status status = keep_user_defined(tokenizer, c, rules, error);
    if (!status) zest_sentencepiece_finish(rules);
    return status;
}

static zest_status build(zest_tokenizer *tokenizer, const contents *c, zest_error *error) {
    zest_status status = check(c, tokenizer->name, error);
    if (!status) status = zest_tokenizer_load_pieces(tokenizer, &c->arrays, error);
    if (status) return status;
    tokenizer->bpe.unknown = tokenizer->role[ZEST_TOKEN_UNK] = c->arrays.unk;
    tokenizer->bpe.byte_fallback = c->byte_fallback;
    tokenizer->bpe.fuse_unknown = 1;
    if (c->model == UNIGRAM)
        status = add_unigram(tokenizer, c, error);
    else
        status = zest_tokenizer_load_scores(tokenizer, &c->arrays, error);
    if (!status) status = add_normalizer(tokenizer, c, error);
    if (!status) status = zest_tokenizer_llama_decoder(tokenizer, c->prefix, error);
    if (!status) status = add_special(tokenizer, c, error);
    const int32_t ids[] = {c->arrays.bos, c->arrays.eos, c->arrays.pad};
    const zest_token_role roles[] = {ZEST_TOKEN_BOS, ZEST_TOKEN_EOS, ZEST_TOKEN_PAD};
    for (int i = 0; i < 3; i++)
        if (ids[i] >= 0 && (size_t)ids[i] < c->arrays.count) tokenizer->role[roles[i]] = ids[i];
    return status;
}

zest_status zest_tokenizer_load_sentencepiece(zest_tokenizer *tokenizer, const char *bytes, size_t size,
                                              zest_error *error) {
    zest_error local = {0}, *err = error ? error : &local;
    contents c = {.model = UNIGRAM, .prefix = 1, .trim = 1, .escape = 1};
    c.arrays.unk = 0, c.arrays.bos = 1, c.arrays.eos = 2, c.arrays.pad = -1;
    zest_status status = read_contents(&c, bytes, size, tokenizer->name, err);
    if (!status) status = build(tokenizer, &c, err);
    free(c.tokens);
    free(c.scores);
    free(c.types);
    return status;
}

/* ---- Folders ---- */

/* The special tokens around a text as transformers adds them: bos for Llama, Gemma and where nothing else is said, eos
 * for T5. */
static zest_status add_template(zest_tokenizer *tokenizer, const json_t *config, zest_error *error) {
    const char *class = json_string_value(zest_tokenizer_load_member(config, "tokenizer_class"));
    static const char *const known[] = {"Llama", "CodeLlama", "Gemma", "T5"};
    size_t i = 0, count = sizeof known / sizeof *known;
    for (; class && i < count; i++)
        if (!strncmp(class, known[i], strlen(known[i])) && !strncmp(class + strlen(known[i]), "Tokenizer", 9))
            break;
    if (class && i == count && !zest_tokenizer_load_generic_class(class))
        return zest_error_set(error, ZEST_ERROR_FORMAT,
                              "%s: the tokenizer_class \"%.60s\" with tokenizer.model is not supported; save "
                              "it as a tokenizer.json",
                              tokenizer->name, class);
    const char *where = "tokenizer_config.json";
    int t5 = class && i == 3, bos, eos, legacy;
    zest_status status =
        zest_tokenizer_load_flag(tokenizer, config, where, "add_bos_token", !t5, &bos, error);
    if (!status)
        status = zest_tokenizer_load_flag(tokenizer, config, where, "add_eos_token", t5, &eos, error);
    if (!status) status = zest_tokenizer_load_flag(tokenizer, config, where, "legacy", 1, &legacy, error);
    if (status) return status;
    tokenizer->normalize.step[0].sentencepiece->first_only = !legacy;
    int32_t first = tokenizer->role[ZEST_TOKEN_BOS], last = tokenizer->role[ZEST_TOKEN_EOS];
    if (bos && first >= 0) zest_ids_add(&tokenizer->before, first);
    if (eos && last >= 0) zest_ids_add(&tokenizer->after, last);
    if (tokenizer->before.failed || tokenizer->after.failed)
        return zest_error_memory(error, tokenizer->name, 64);
    return ZEST_OK;
}

static zest_status build_file(zest_tokenizer *tokenizer, const char *path, const char *folder,
                              const zest_tokenizer_load_settings *settings, zest_error *error) {
    zest_buffer bytes = {0};
    zest_status status = zest_file_read(path, ZEST_TOKENIZER_LOAD_FILE_LIMIT, &bytes, error);
    if (!status)
        status =
            zest_tokenizer_load_sentencepiece(tokenizer, bytes.data ? bytes.data : "", bytes.size, error);
    if (!status) status = zest_tokenizer_load_listed(tokenizer, settings, folder, error);
    if (!status) status = zest_tokenizer_finish(tokenizer, error);
    if (!status) zest_tokenizer_load_roles(tokenizer, settings);
    if (!status) status = add_template(tokenizer, settings->config, error);
    if (!status) status = zest_tokenizer_load_chat(tokenizer, folder, settings->config, error);
    zest_buffer_free(&bytes);
    return status;
}

zest_tokenizer *zest_tokenizer_from_sentencepiece(const char *path, const char *folder, zest_error *error) {
    zest_error local = {0}, *err = error ? error : &local;
    zest_tokenizer_load_settings settings = {0};
    zest_tokenizer *tokenizer = zest_tokenizer_new(path, err);
    if (tokenizer && (zest_tokenizer_load_read_settings(folder, &settings, err) ||
                      build_file(tokenizer, path, folder, &settings, err))) {
        zest_tokenizer_free(tokenizer);
        tokenizer = NULL;
    }
    zest_tokenizer_load_free_settings(&settings);
    return tokenizer;
}
