/* Dropout: where, how much, and which elements. */
#ifndef ZEST_GRAD_DROPOUT_H
#define ZEST_GRAD_DROPOUT_H

#include "grad/backward.h"

/* Rates at the three places where the published trainings have it: on the embeddings (behind their norm), on
 * what attention and MLP add to the stream, on the weights of the attention. RoBERTa, BERT and GPT-2: 0.1 at
 * all three; OPT: 0.1 on what is added alone; the Llama family: none. A step takes a seed of its own. */
typedef struct {
    double embeddings, added, attention;
    uint64_t seed;
} zest_dropout;

typedef enum {
    ZEST_DROPOUT_EMBEDDINGS,
    ZEST_DROPOUT_ATTENTION,
    ZEST_DROPOUT_ATTENDED,
    ZEST_DROPOUT_MLP
} zest_dropout_site;

/* The mask of a place in a layer; one that keeps all when dropout is NULL. Rates are multiples of 2^-16. */
zest_mask zest_dropout_mask(const zest_dropout *dropout, double rate, size_t layer, zest_dropout_site site);

#endif
