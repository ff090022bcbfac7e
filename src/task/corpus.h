/* Plain text for pretraining.
 *
 *     file -> documents (blank lines) -> tokens -> [start] tokens ... [end] tokens ... / next sequence ...
 *
 * Documents are concatenated with the tokenizer's end token in between and split into sequences of equal
 * length. Some documents are held out and packed separately. */
#ifndef ZEST_TASK_CORPUS_H
#define ZEST_TASK_CORPUS_H

#include "base/hash.h"
#include "model/loss.h"
#include "tokenizer/tokenizer.h"

typedef struct {
    uint32_t *tokens;
    uint32_t *starts; /* sequences + 1 */
    size_t sequences;
    size_t token_count;
} zest_corpus_part;

typedef struct {
    zest_corpus_part train, held_out;
    size_t documents, held_out_documents;
    int causal;
    uint32_t mask;          /* the mask token; masked models */
    uint32_t vocabulary;    /* random tokens are below this */
    unsigned char *special; /* bitmap of special tokens, which are neither masked nor drawn at random */
    zest_fingerprint print; /* fingerprint of the file */
} zest_corpus;

typedef struct {
    size_t length;   /* tokens of a sequence, including start and end token */
    double held_out; /* fraction of the documents */
    uint64_t seed;   /* selects the held-out documents */
} zest_corpus_options;

zest_status zest_corpus_read(const char *path, const zest_tokenizer *tokenizer,
                             const zest_model_config *model, const zest_corpus_options *options,
                             zest_corpus *corpus, zest_error *error);
void zest_corpus_free(zest_corpus *corpus);

/* A batch of sequences with its token loss. Masked models predict tokens chosen with the given
 * probability, at least one per sequence; of these 80 % are masked, 10 % replaced by a random token and 10
 * % unchanged (Devlin, Chang, Lee and Toutanova, 2019). Causal models predict every next token. The buffer
 * grows and is reused; the objective points into it. Start with {0}. */
typedef struct {
    zest_model_batch batch;
    zest_model_objective objective;
    uint32_t *buffer;
    size_t buffer_count;
} zest_corpus_batch;

/* Source of the masks: a counter-based generator keyed by seed, number and index in the batch. */
typedef struct {
    double probability;
    uint64_t seed, number; /* training: the step */
    size_t first;          /* index in the batch of the first sequence, where only a part of it is made */
    int fixed;             /* instead: keyed by the sequence, the same every time; for held-out text */
} zest_corpus_masks;

zest_status zest_corpus_make_batch(const zest_corpus *corpus, const zest_corpus_part *part,
                                   const uint32_t *which, size_t count, const zest_corpus_masks *masks,
                                   zest_corpus_batch *batch, zest_error *error);
void zest_corpus_batch_free(zest_corpus_batch *batch);

#endif
