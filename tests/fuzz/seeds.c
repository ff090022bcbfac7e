/* Seeds that a program makes: tiny models of every family with their tokenizers, in folders and in GGUF files. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "io/gguf.h"
#include "model/model.h"
#include "tests/fuzz/fuzz.h"

/* ---- Folders ---- */

static char folder[64];

static void remove_folder(void) {
    fuzz_empty_folder();
    rmdir(folder);
}

const char *fuzz_folder(void) {
    if (folder[0]) return folder;
    struct stat info;
    snprintf(folder, sizeof folder, "%s/zest-fuzz-XXXXXX", stat("/dev/shm", &info) ? "/tmp" : "/dev/shm");
    if (!mkdtemp(folder)) abort();
    atexit(remove_folder);
    return folder;
}

/* Two levels are all that bundles and readers make. */
static void empty(const char *path, int depth) {
    DIR *listing = opendir(path);
    if (!listing) return;
    for (struct dirent *entry; (entry = readdir(listing));) {
        char inner[400];
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        if (unlink(inner) && depth < 4) empty(inner, depth + 1), rmdir(inner);
    }
    closedir(listing);
}

void fuzz_empty_folder(void) { empty(fuzz_folder(), 0); }

const char *fuzz_path(const char *name) {
    static char path[400];
    snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
    return path;
}

void fuzz_put(const char *name, const void *data, size_t size) {
    const char *slash = strchr(name, '/');
    if (slash) {
        char inner[FUZZ_MAX_NAME];
        snprintf(inner, sizeof inner, "%.*s", (int)(slash - name), name);
        mkdir(fuzz_path(inner), 0777);
    }
    FILE *file = fopen(fuzz_path(name), "wb"); /* fails where a folder has this name */
    if (!file) return;
    if (fwrite(data, 1, size, file) != size || fclose(file)) abort();
}

size_t fuzz_bundle_unpack(const uint8_t *data, size_t size) {
    fuzz_file files[FUZZ_MAX_FILES];
    size_t count = fuzz_bundle_read(data, size, files);
    fuzz_empty_folder();
    for (size_t i = 0; i < count; i++) fuzz_put(files[i].name, files[i].data, files[i].size);
    return count;
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

void fuzz_bundle_add_folder(zest_buffer *out, const char *path, const char *prefix) {
    struct dirent **found;
    int count = scandir(path, &found, NULL, by_name);
    for (int i = 0; i < count; i++) {
        char inner[400], name[FUZZ_MAX_NAME];
        struct stat info;
        zest_buffer file = {0};
        snprintf(inner, sizeof inner, "%s/%s", path, found[i]->d_name);
        int fits = snprintf(name, sizeof name, "%s%s%s", prefix, *prefix ? "/" : "", found[i]->d_name) <
                   FUZZ_MAX_NAME;
        if (fits && !stat(inner, &info) && S_ISREG(info.st_mode)) {
            fuzz_read(inner, &file);
            fuzz_bundle_add(out, name, file.data ? file.data : "", file.size);
        }
        zest_buffer_free(&file);
        free(found[i]);
    }
    if (count >= 0) free(found);
}

void fuzz_read(const char *path, zest_buffer *out) {
    zest_error error = {0};
    if (!zest_file_read(path, 1 << 26, out, &error)) return;
    fprintf(stderr, "%s\n", error.message);
    exit(2);
}

/* ---- Tiny models ---- */

#define SIZES(heads, ffn) \
    "\"vocab_size\":40,\"hidden_size\":8,\"num_hidden_layers\":1,\"" heads "\":2,\"" ffn "\":12"

static const char *const configs[] = {
    "{\"model_type\":\"roberta\"," SIZES("num_attention_heads", "intermediate_size") //
    ",\"max_position_embeddings\":24,\"type_vocab_size\":1,\"layer_norm_eps\":1e-5,\"pad_token_id\":1}",
    "{\"model_type\":\"bert\"," SIZES("num_attention_heads", "intermediate_size") //
    ",\"max_position_embeddings\":24,\"type_vocab_size\":2,\"layer_norm_eps\":1e-12}",
    "{\"model_type\":\"opt\"," SIZES("num_attention_heads", "ffn_dim") //
    ",\"max_position_embeddings\":24,\"word_embed_proj_dim\":4,\"do_layer_norm_before\":true}",
    "{\"model_type\":\"gpt2\",\"vocab_size\":40,\"n_embd\":8,\"n_layer\":1,\"n_head\":2,\"n_inner\":12,\"n_"
    "positions\":24}",
    "{\"model_type\":\"llama\"," SIZES("num_attention_heads", "intermediate_size") //
    ",\"num_key_value_heads\":1,\"max_position_embeddings\":24,\"rms_norm_eps\":1e-5,\"tie_word_embeddings\":"
    "true,"
    "\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,\"high_freq_factor\":4,"
    "\"original_max_position_embeddings\":16}}",
    "{\"model_type\":\"qwen2\"," SIZES("num_attention_heads", "intermediate_size") //
    ",\"num_key_value_heads\":2,\"max_position_embeddings\":24,\"rms_norm_eps\":1e-6}",
};

const char *fuzz_config(size_t i) { return i < sizeof configs / sizeof *configs ? configs[i] : NULL; }

static const char *const tokens[] = {"<s>",
                                     "<pad>",
                                     "</s>",
                                     "<unk>",
                                     "<mask>",
                                     "a",
                                     "b",
                                     "c",
                                     "d",
                                     "e",
                                     "f",
                                     "g",
                                     "h",
                                     "i",
                                     "l",
                                     "m",
                                     "n",
                                     "o",
                                     "r",
                                     "s",
                                     "t",
                                     "u",
                                     ".",
                                     "\xC4\xA0",
                                     "\xC4\xA0"
                                     "a",
                                     "in",
                                     "th",
                                     "\xC4\xA0"
                                     "th",
                                     "\xC4\xA0"
                                     "the",
                                     "er"};
static const char merges[] = "#version: 0.2\n\xC4\xA0 a\ni n\nt h\n\xC4\xA0 th\n\xC4\xA0th e\ne r\n";
enum { TOKENS = sizeof tokens / sizeof *tokens };

static const char vocab_txt[] =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nthe\n##r\n##s\ntea\n.\ngood\n##ly\n";

/* Byte-level BPE as vocab.json and merges.txt; WordPiece for BERT; a tokenizer.json for the Llama family. */
static void put_tokenizer(size_t model, zest_buffer *out) {
    if (model == 1) {
        static const char config[] = "{\"tokenizer_class\":\"BertTokenizer\",\"do_lower_case\":true}";
        fuzz_bundle_add(out, "vocab.txt", vocab_txt, sizeof vocab_txt - 1);
        fuzz_bundle_add(out, "tokenizer_config.json", config, sizeof config - 1);
        return;
    }
    zest_buffer vocab = {0}, text = {0};
    for (size_t i = 0; i < TOKENS; i++)
        zest_buffer_format(&vocab, "%c\"%s\":%zu", i ? ',' : '{', tokens[i], i);
    zest_buffer_text(&vocab, "}");
    if (model < 4) {
        static const char config[] =
            "{\"tokenizer_class\":\"RobertaTokenizer\",\"model_max_length\":24,\"mask_token\":"
            "{\"content\":\"<mask>\",\"lstrip\":true}}";
        static const char gpt2[] =
            "{\"tokenizer_class\":\"GPT2Tokenizer\",\"bos_token\":\"<s>\",\"eos_token\":\"</s>\","
            "\"unk_token\":\"<unk>\",\"add_bos_token\":true}";
        const char *settings = model ? gpt2 : config;
        fuzz_bundle_add(out, "vocab.json", vocab.data, vocab.size);
        fuzz_bundle_add(out, "merges.txt", merges, sizeof merges - 1);
        fuzz_bundle_add(out, "tokenizer_config.json", settings, strlen(settings));
    } else {
        zest_buffer_format(
            &text,
            "{\"added_tokens\":[{\"id\":0,\"content\":\"<s>\",\"special\":true},{\"id\":2,\"content\":"
            "\"</s>\",\"special\":true}],\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":{\"type\":"
            "\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\" ?\\\\p{L}+|.\"},"
            "\"behavior\":\"Isolated\"},{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":"
            "false}]},\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>"
            "\","
            "\"vocab\":%s,\"merges\":[\"t h\",\"i n\",[\"e\",\"r\"]]}}",
            vocab.data);
        fuzz_bundle_add(out, "tokenizer.json", text.data, text.size);
    }
    zest_buffer_free(&vocab);
    zest_buffer_free(&text);
}

void fuzz_model_bundle(size_t i, zest_buffer *out) {
    zest_model *model;
    zest_error error = {0};
    zest_model_options options = {.storage = i % 2 ? ZEST_MODEL_F32 : ZEST_MODEL_BF16, .threads = 1};
    fuzz_empty_folder();
    if (zest_model_random(configs[i], i + 1, &options, &model, &error) ||
        zest_model_save(model, fuzz_folder(), &error)) {
        fprintf(stderr, "%s\n", error.message);
        exit(2);
    }
    zest_model_free(model);
    fuzz_bundle_add_folder(out, fuzz_folder(), "");
    put_tokenizer(i, out);
}

/* ---- GGUF ---- */

static void put32(zest_buffer *out, uint32_t value) { zest_buffer_add(out, &value, sizeof value); }
static void put64(zest_buffer *out, uint64_t value) { zest_buffer_add(out, &value, sizeof value); }

static void put_text(zest_buffer *out, const char *text) {
    put64(out, strlen(text));
    zest_buffer_text(out, text);
}

typedef struct {
    zest_buffer keys, tensors;
    uint64_t key_count, tensor_count, data;
    const char *architecture;
} gguf_writer;

static void key_name(gguf_writer *w, const char *name, uint32_t kind) {
    char whole[96];
    snprintf(whole, sizeof whole, strchr(name, '.') == name ? "%s%s" : "%.0s%s", w->architecture, name);
    put_text(&w->keys, whole);
    put32(&w->keys, kind);
    w->key_count++;
}

/* A name that starts with a dot is one of the architecture's. */
static void key_number(gguf_writer *w, const char *name, uint32_t value) {
    key_name(w, name, ZEST_GGUF_U32);
    put32(&w->keys, value);
}

static void key_real(gguf_writer *w, const char *name, float value) {
    key_name(w, name, ZEST_GGUF_F32);
    zest_buffer_add(&w->keys, &value, sizeof value);
}

static void key_text(gguf_writer *w, const char *name, const char *value) {
    key_name(w, name, ZEST_GGUF_STRING);
    put_text(&w->keys, value);
}

static void key_array(gguf_writer *w, const char *name, uint32_t kind, uint64_t count) {
    key_name(w, name, ZEST_GGUF_ARRAY);
    put32(&w->keys, kind);
    put64(&w->keys, count);
}

static void tensor(gguf_writer *w, const char *name, uint64_t rows, uint64_t columns, uint32_t type) {
    size_t elements = 1, bytes = 4;
    zest_gguf_block_size(type, &elements, &bytes);
    put_text(&w->tensors, name);
    put32(&w->tensors, rows ? 2 : 1);
    put64(&w->tensors, columns);
    if (rows) put64(&w->tensors, rows);
    put32(&w->tensors, type);
    put64(&w->tensors, w->data);
    w->tensor_count++;
    w->data += ((rows ? rows : 1) * columns / elements * bytes + 31) / 32 * 32;
}

/* Hexadecimal escapes would take the letter for a digit. */
#define MARK_A     \
    "\xE2\x96\x81" \
    "a"
#define SPACE_A \
    "\xC4\xA0"  \
    "a"

enum { HIDDEN = 32, VOCAB = 12 };

static void put_gguf_tokenizer(gguf_writer *w, int llama) {
    static const char *const spm[VOCAB] = {"<unk>", "<s>", "</s>", "<0x41>", "<0x42>", "\xE2\x96\x81",
                                           "a",     "b",   "ab",   MARK_A,   "t",      "at"};
    static const char *const bpe[VOCAB] = {"a", "b", "t",  "h", "\xC4\xA0", "th", SPACE_A, "<|endoftext|>",
                                           "e", "r", "er", "at"};
    static const int32_t kinds[VOCAB] = {2, 3, 3, 6, 6, 1, 1, 1, 1, 1, 1, 1};
    static const char *const pairs[] = {"t h", "\xC4\xA0 a", "e r", "a t"};
    key_text(w, "tokenizer.ggml.model", llama ? "llama" : "gpt2");
    if (!llama) key_text(w, "tokenizer.ggml.pre", "qwen2");
    key_array(w, "tokenizer.ggml.tokens", ZEST_GGUF_STRING, VOCAB);
    for (int i = 0; i < VOCAB; i++) put_text(&w->keys, llama ? spm[i] : bpe[i]);
    if (llama) {
        key_array(w, "tokenizer.ggml.scores", ZEST_GGUF_F32, VOCAB);
        for (int i = 0; i < VOCAB; i++) zest_buffer_add(&w->keys, &(float){(float)-i}, sizeof(float));
        key_array(w, "tokenizer.ggml.token_type", ZEST_GGUF_I32, VOCAB);
        zest_buffer_add(&w->keys, kinds, sizeof kinds);
        key_number(w, "tokenizer.ggml.unknown_token_id", 0);
    } else {
        key_array(w, "tokenizer.ggml.merges", ZEST_GGUF_STRING, 4);
        for (int i = 0; i < 4; i++) put_text(&w->keys, pairs[i]);
    }
    key_number(w, "tokenizer.ggml.bos_token_id", llama ? 1 : 7);
    key_number(w, "tokenizer.ggml.eos_token_id", llama ? 2 : 7);
}

static void put_gguf_layer(gguf_writer *w, int llama) {
    static const char *const norms[] = {"blk.0.attn_norm.weight", "blk.0.ffn_norm.weight",
                                        "output_norm.weight"};
    static const char *const biases[] = {"blk.0.attn_q.bias", "blk.0.attn_k.bias", "blk.0.attn_v.bias"};
    for (int i = 0; i < 3; i++) tensor(w, norms[i], 0, HIDDEN, ZEST_GGUF_TYPE_F32);
    for (int i = 0; i < 3 && !llama; i++)
        tensor(w, biases[i], 0, i ? HIDDEN / 2 : HIDDEN, ZEST_GGUF_TYPE_F32);
    tensor(w, "blk.0.attn_q.weight", HIDDEN, HIDDEN, ZEST_GGUF_TYPE_Q8_0);
    tensor(w, "blk.0.attn_k.weight", HIDDEN / 2, HIDDEN, ZEST_GGUF_TYPE_Q4_0);
    tensor(w, "blk.0.attn_v.weight", HIDDEN / 2, HIDDEN, ZEST_GGUF_TYPE_Q5_0);
    tensor(w, "blk.0.attn_output.weight", HIDDEN, HIDDEN, ZEST_GGUF_TYPE_Q4_1);
    tensor(w, "blk.0.ffn_gate.weight", HIDDEN, HIDDEN, ZEST_GGUF_TYPE_Q5_1);
    tensor(w, "blk.0.ffn_up.weight", HIDDEN, HIDDEN, ZEST_GGUF_TYPE_F16);
    tensor(w, "blk.0.ffn_down.weight", HIDDEN, HIDDEN, ZEST_GGUF_TYPE_BF16);
    tensor(w, "token_embd.weight", VOCAB, HIDDEN, ZEST_GGUF_TYPE_Q8_0);
}

void fuzz_gguf_model(const char *architecture, zest_buffer *out) {
    gguf_writer w = {.architecture = architecture};
    int llama = !strcmp(architecture, "llama");
    key_text(&w, "general.architecture", architecture);
    key_number(&w, "general.alignment", 32);
    key_number(&w, ".embedding_length", HIDDEN);
    key_number(&w, ".attention.head_count", 2);
    key_number(&w, ".attention.head_count_kv", 1);
    key_number(&w, ".block_count", 1);
    key_number(&w, ".feed_forward_length", HIDDEN);
    key_number(&w, ".context_length", 24);
    key_real(&w, ".attention.layer_norm_rms_epsilon", 1e-5f);
    key_real(&w, ".rope.freq_base", 10000);
    put_gguf_tokenizer(&w, llama);
    put_gguf_layer(&w, llama);
    size_t from = out->size;
    zest_buffer_text(out, "GGUF");
    put32(out, 3);
    put64(out, w.tensor_count);
    put64(out, w.key_count);
    zest_buffer_add(out, w.keys.data, w.keys.size);
    zest_buffer_add(out, w.tensors.data, w.tensors.size);
    while ((out->size - from) % 32) zest_buffer_add(out, "", 1);
    for (uint64_t i = 0; i < w.data; i++) zest_buffer_add(out, i % 7 ? "\x11" : "\x2c", 1);
    zest_buffer_free(&w.keys);
    zest_buffer_free(&w.tensors);
}
