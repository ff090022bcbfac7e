/* Plain text for pretraining: documents, packed into sequences of equal length, and what is asked of them.
 *
 *     file -> documents (blank lines) -> tokens -> [start] tokens ... [end] tokens ... | next sequence ...
 *
 * Documents stand behind each other with the tokenizer's end token in between, and are cut where a sequence
 * is full. Some documents are held out and packed by themselves. */
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
    unsigned char *special; /* a bit for each token: neither asked for nor drawn at random */
    zest_fingerprint print; /* of the file's bytes */
} zest_corpus;

typedef struct {
    size_t length;   /* of a sequence, with the tokens that begin and end it */
    double held_out; /* share of the documents */
    uint64_t seed;   /* decides which */
} zest_corpus_options;

zest_status zest_corpus_read(const char *path, const zest_tokenizer *tokenizer,
                             const zest_model_config *model, const zest_corpus_options *options,
                             zest_corpus *corpus, zest_error *error);
void zest_corpus_free(zest_corpus *corpus);

/* Sequences and what is asked of them: masked models are to tell the tokens at some places, of which 80 % are
 * masked, 10 % hold a random token and 10 % the token itself (Devlin, Chang, Lee and Toutanova, 2019), each
 * place with the probability `share` and at least one a sequence; causal models are to tell every next token.
 * Grows and is used again; the objective points into it. Start with {0}. */
typedef struct {
    zest_model_batch batch;
    zest_model_objective objective;
    uint32_t *room;
    size_t room_count;
} zest_corpus_batch;

/* Where the masks come from: words of a counter generator under `seed`, number and place in the batch. */
typedef struct {
    double share;
    uint64_t seed, number; /* training: the step */
    int fixed;             /* instead: by the sequence itself, the same each time. For what is held out */
} zest_corpus_masks;

zest_status zest_corpus_make_batch(const zest_corpus *corpus, const zest_corpus_part *part,
                                   const uint32_t *which, size_t count, const zest_corpus_masks *masks,
                                   zest_corpus_batch *batch, zest_error *error);
void zest_corpus_batch_free(zest_corpus_batch *batch);

#endif
