/* What the fuzz targets share: mutators that keep the structure of a file, seeds that a program makes, and folders.
 *
 * A target is a file fuzz_NAME.c with three functions:
 *
 *     LLVMFuzzerTestOneInput   gives the bytes to a reader and traps when the reader breaks a promise
 *     LLVMFuzzerCustomMutator  fuzz_mutate with the kind of the bytes
 *     fuzz_seeds               small inputs that the reader accepts
 *
 * It is linked with libFuzzer (`make fuzz`), or with replay.c, which needs no clang and runs the seeds, the inputs in
 * tests/fuzz/corpus/NAME, and a fixed sequence of mutants.
 *
 * Byte-level mutations stop at the first magic number, length or checksum. Those here take a file apart, change one
 * part, and put it together again: most of the time with lengths, offsets and checksums that fit, sometimes without. */
#ifndef ZEST_FUZZ_H
#define ZEST_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"

/* ---- Random numbers, from a seed ---- */

typedef struct {
    uint64_t state;
} fuzz_random;

uint64_t fuzz_next(fuzz_random *r);
size_t fuzz_below(fuzz_random *r, size_t n); /* 0 to n-1; 0 for n = 0 */
int64_t fuzz_integer(fuzz_random *r);        /* often at the edge of a type */

/* ---- Mutators ---- */

typedef enum {
    FUZZ_TEXT, /* lines: tables, task files, templates, options, merges */
    FUZZ_JSON,
    FUZZ_JSON_LINES,
    FUZZ_SAFETENSORS,
    FUZZ_GGUF,
    FUZZ_JOURNAL,
    FUZZ_PROTOBUF,
    FUZZ_BUNDLE /* several files, see below */
} fuzz_kind;

/* The body of LLVMFuzzerCustomMutator: changes data in place and returns the new size, at most max. */
size_t fuzz_mutate(fuzz_kind kind, uint8_t *data, size_t size, size_t max, unsigned seed);

/* Each appends a changed copy of the input; 0: the input is not of this kind, and nothing was appended. */
int fuzz_mutate_safetensors(fuzz_random *r, const uint8_t *data, size_t size, zest_buffer *out);
int fuzz_mutate_gguf(fuzz_random *r, const uint8_t *data, size_t size, zest_buffer *out);
int fuzz_mutate_journal(fuzz_random *r, const uint8_t *data, size_t size, zest_buffer *out);
int fuzz_mutate_protobuf(fuzz_random *r, const uint8_t *data, size_t size, zest_buffer *out);
int fuzz_mutate_json(fuzz_random *r, const char *data, size_t size, zest_buffer *out);
void fuzz_mutate_text(fuzz_random *r, const char *data, size_t size, zest_buffer *out);
void fuzz_mutate_bytes(fuzz_random *r, const uint8_t *data, size_t size, zest_buffer *out);

/* ---- Bundles: the files of a folder in one input ----
 *
 *     "NAME SIZE\n" and SIZE bytes, again and again. NAME has letters, digits, dots, hyphens, underscores and at most
 *     one slash. What does not fit ends the bundle. */

enum { FUZZ_MAX_FILES = 32, FUZZ_MAX_NAME = 64 };

typedef struct {
    char name[FUZZ_MAX_NAME];
    const uint8_t *data; /* in the bundle */
    size_t size;
} fuzz_file;

size_t fuzz_bundle_read(const uint8_t *data, size_t size, fuzz_file files[FUZZ_MAX_FILES]);
void fuzz_bundle_add(zest_buffer *out, const char *name, const void *data, size_t size);
/* Adds the files of a folder whose names a bundle may have, as prefix/NAME unless prefix is "". */
void fuzz_bundle_add_folder(zest_buffer *out, const char *folder, const char *prefix);

/* ---- Folders ---- */

/* A temporary folder of this process, which is the same at every call and is made by the first one. Removed at exit. */
const char *fuzz_folder(void);
/* Writes the files of a bundle into that folder, after removing everything in it. Returns their number. */
size_t fuzz_bundle_unpack(const uint8_t *data, size_t size);
void fuzz_empty_folder(void);
/* A file in that folder, which lasts until the next call. */
const char *fuzz_path(const char *name);
void fuzz_put(const char *name, const void *data, size_t size);

/* ---- Seeds ---- */

typedef void (*fuzz_add)(const void *data, size_t size, void *user);

/* Calls add for every seed of the target. */
void fuzz_seeds(fuzz_add add, void *user);

/* A file of the repository; the program ends when it is not there. */
void fuzz_read(const char *path, zest_buffer *out);
/* Configs of tiny models, one of each family; NULL past the last. */
const char *fuzz_config(size_t i);
/* A folder with the i-th tiny model (config.json, model.safetensors, tokenizer files) as a bundle. */
void fuzz_model_bundle(size_t i, zest_buffer *out);
/* A GGUF file with a tiny model of an architecture, "llama" or "qwen2", and its tokenizer. */
void fuzz_gguf_model(const char *architecture, zest_buffer *out);

/* ---- What libFuzzer calls ---- */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);

#endif
