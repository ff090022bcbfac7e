/* What the files of include/zest_lm.h share:
 *
 *     lm.c         loading, runs, saving        lm_batch.c     examples of the caller's, packed
 *     lm_text.c    tokens                       lm_forward.c   losses, logits, scores
 *     lm_generate.c generation                  lm_perplexity.c long texts
 *     lm_train.c   training and evaluation      lm_options.c   options of these
 *     lm_predict.c answers to rows              records.c      these rows, read
 *     lm_weights.c tuner, replay, tensors       target.c       a run at a step, or a model */
#ifndef ZEST_LM_LM_H
#define ZEST_LM_LM_H

#include "model/generate.h"
#include "optim/context.h"
#include "task/batch.h"
#include "train/load.h"
#include "zest_lm.h"

struct zest_lm {
    zest_ctx *ctx;
    zest_loaded loaded; /* model and runner NULL: the tokenizer alone */
    zest_options options;
    uint64_t step;          /* of a run */
    zest_model_lane *lanes; /* of the latest call, kept from step to step */
    size_t lane_capacity;
    int samples; /* zest_lm_set_sampling has said how tokens are chosen */
    zest_sampling sampling;
    zest_generate_kept kept; /* of calls with zest_lm_generate_options.keep */
};

struct zest_lm_options {
    zest_ctx *ctx;
    unsigned users;
    zest_options values, defaults;
};

/* A copy, with the path of a model that was pulled in the place of its name. from NULL: nothing is given. Free
 * it whatever this says. */
zest_status zest_lm_options_copy(const zest_lm_options *from, zest_options *to, zest_error *error);

typedef enum {
    ZEST_LM_EMPTY,
    ZEST_LM_TEXTS,   /* add_text */
    ZEST_LM_MLM,     /* add_mlm */
    ZEST_LM_CHOICES, /* add_choices */
    ZEST_LM_MASKED   /* add_masked */
} zest_lm_kind;

/* Choices and masked examples are a zest_examples, packed as in training. Texts and MLM are packed as they
 * come: sequences behind each other, and for each example (an item) the rows that predict its targets. */
struct zest_lm_batch {
    zest_lm *lm;
    zest_lm_kind kind;
    size_t count;           /* examples, which are items of TEXTS and MLM */
    zest_examples examples; /* tokens of all kinds; the rest of CHOICES and MASKED */
    size_t text_count;
    zest_batch packed; /* CHOICES and MASKED, if is_packed */
    int is_packed;
    size_t sequences, target_count; /* TEXTS and MLM */
    uint32_t *starts, *rows, *targets, *item_starts;
    zest_model_batch batch;
    zest_model_objective objective;
    struct { /* elements */
        size_t tokens, texts, text_starts, answers, starts, rows, targets, item_starts;
    } capacity;
};

static inline zest_error *zest_lm_sink(const zest_lm *lm) { return &lm->ctx->error; }

/* Refuses an argument that is NULL, by its name. */
zest_status zest_lm_need(zest_ctx *ctx, const void *argument, const char *name);
/* Refuses NULL, and a model without weights. */
zest_status zest_lm_check(const zest_lm *lm);
/* The same, and tokens that are none of the model's: ids, at most max_positions of them. what: for messages. */
zest_status zest_lm_check_ids(const zest_lm *lm, const int32_t *ids, size_t count, const char *what);

/* Copies `needed` elements of a size into an array of the caller's, which may be NULL. unit: for the message. */
zest_status zest_lm_give(const zest_lm *lm, const void *from, size_t needed, size_t size, void *out,
                         size_t capacity, const char *unit);
/* Appends the tokens that end a text or a turn of a conversation. */
zest_status zest_lm_list_ends(const zest_lm *lm, zest_ids *ids);

/* Appends an example that is predicted token by token: a sequence, and targets[i] at its token positions[i].
 * merged: the targets are one item, else each is one. */
zest_status zest_lm_batch_add_sequence(zest_lm_batch *batch, const int32_t *ids, size_t count,
                                       const size_t *positions, const int32_t *targets, size_t target_count,
                                       int merged);
/* What to compute; packs what was added since. */
zest_status zest_lm_batch_objective(zest_lm_batch *batch, const zest_model_objective **objective);

#endif
