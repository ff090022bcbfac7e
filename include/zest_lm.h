/* zest_lm: language models for zest.h. Load a model, tokenize, compute losses, generate, fine-tune, save.
 *
 * This header and zest.h are the whole interface to language models, and their manual. It compiles as C11 and
 * as C++. Models: RoBERTa, BERT, DistilBERT, ModernBERT (masked); OPT, GPT-2, GPT-NeoX, Llama, Qwen2, Qwen3, Mistral,
 * Phi-3, Gemma 2 and 3 (causal), from a Hugging Face folder or a GGUF file.
 *
 *     model folder -> zest_lm_load -> zest_lm_encode -> zest_lm_batch -> zest_lm_losses -> zest_lm_save
 *
 * Three rungs; take the first that is enough:
 *   1. zest_lm_train, _evaluate, _predict              a task from end to end, as the command line does it
 *   2. zest_lm_tuner                                   your own objective, or your own loop, over the weights
 *   3. zest_lm_losses, _logits, _score, _generate      forward passes, of the model or of its lanes
 *
 * Fine-tuning with an objective of your own, in ten lines (examples/finetune.c is the whole program):
 *
 *     static int objective(const zest_lanes *lanes, double *losses, void *user) {
 *         struct job *job = user;                                 // losses: one for each lane
 *         return zest_lm_losses(job->lm, lanes, job->batch, NULL, losses);
 *     }
 *     zest_lm *lm = zest_lm_load(ctx, "roberta-base", "threads=4");
 *     zest_lm_batch *batch = zest_lm_batch_new(lm);               // add examples, then:
 *     zest_tuner *tuner = zest_lm_tuner(lm);                      // a tuner of zest.h, over the weights
 *     zest_tuner_set_all(tuner, "steps=100 lr=1e-4");
 *     zest_tuner_objective_lanes(tuner, objective, &job);
 *     zest_tuner_run(tuner, &result);
 *     zest_lm_save(lm, "tuned");
 *
 * Words, beside those of zest.h:
 *   token      an id of the vocabulary, from 0. Arrays of tokens are int32_t, as in most of the field.
 *   example    what has one loss: a text, a choice between options, a masked token.
 *   batch      examples of one kind, packed without padding.
 *   lane       the model with weights x + scale·v. Lanes are evaluated together and never stored.
 *
 * Errors: a function that fails says so (a status, or NULL) and leaves a sentence in the context that the
 * model was loaded with: zest_ctx_error. Bad input changes nothing.
 *
 * Sizes: a function that fills an array of the caller's takes its capacity and returns in *count how many
 * elements there are. With the array NULL it only counts; an array that is too small is an error, never a
 * silent cut.
 *
 * Threads: a model and everything made from it belong to the thread of its context, one at a time. Forward
 * passes use several threads inside (option "threads"). On the CPU results do not depend on their number, nor
 * on what else is in the batch, bit for bit. On a GPU the last digits depend on its model, on
 * cuBLAS, and on what else is in the batch.
 *
 * Promises: no function prints, exits or goes to the network. Files are replaced only when the new one is whole.
 * The journal of a tuner, or of a run without gradients, makes the same weights again bit for bit, on any machine
 * and device. Not promised: the same losses on different kinds of hardware.
 *
 * Everything made from a model (batches, tuners) is freed before the model, and the model before its context.
 * Every *_free function accepts NULL. */
#ifndef ZEST_LM_H
#define ZEST_LM_H

#include <signal.h>

#include "zest.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Loading and saving ------------------------------------------------------------------------------- */

typedef struct zest_lm zest_lm;

/* `done` of `total` units of work are finished (steps, tokens, examples). Called often: keep it cheap. */
typedef void (*zest_lm_progress)(uint64_t done, uint64_t total, void *user);

/* model: a Hugging Face folder (config.json, safetensors, tokenizer files), a GGUF file, or ORG/NAME of a
 * model that `zest pull` has fetched. options: "name=value name=value ...", or lines "name = value" (for
 * values with blanks), or NULL: see zest_lm_option. NULL on error. */
ZEST_API zest_lm *zest_lm_load(zest_ctx *ctx, const char *model, const char *options);

/* The model of a run of `zest train` (or zest_lm_train) at a step: a number from 0 (the start), "last" or
 * "best"; NULL: "best". It is rebuilt from the journal where no checkpoint has it. The options "model" (where
 * the run's model is now), "device", "compute" and "threads" replace those of the run. progress (or NULL) is
 * told of steps that are replayed. */
ZEST_API zest_lm *zest_lm_open_run(zest_ctx *ctx, const char *folder, const char *step, const char *options,
                                   zest_lm_progress progress, void *user);

/* The tokenizer of a model or run alone: no weights are read. Functions that need weights refuse it. */
ZEST_API zest_lm *zest_lm_load_tokenizer(zest_ctx *ctx, const char *model);

ZEST_API void zest_lm_free(zest_lm *lm);

/* Writes a Hugging Face folder: config.json, model.safetensors and the tokenizer's files. The folder is made
 * if it is not there; each file is replaced only when it is whole. */
ZEST_API zest_status zest_lm_save(zest_lm *lm, const char *folder);

/* Writes a GGUF file, for llama.cpp: weights, tokenizer and chat template of a llama, mistral, qwen2, qwen3, phi3,
 * gpt2, gemma2 or gemma3_text model. type, of the matrices: "f32", "f16", "bf16", "q8_0", "q6_k", "q5_k", "q5_1", "q5_0", "q4_k", "q4_1", "q4_0", "q3_k", "q2_k", or
 * "stored" (16-bit weights as they are, all others f32); NULL: "stored". The file is read back and compared before it
 * replaces an older one. */
ZEST_API zest_status zest_lm_save_gguf(zest_lm *lm, const char *path, const char *type);

/* The i-th option that zest_lm_load takes, 0 <= i; returns 0 past the last. */
ZEST_API int zest_lm_option(size_t i, zest_option *option);

typedef struct {
    const char *family;  /* "roberta", "opt", "llama", ...; "" without weights */
    const char *weights; /* type in memory: "F32", "BF16" or "F16" */
    const char *compute; /* of matrix products: "f32", "bf16" or "f16" */
    const char *device;  /* "cpu" or "cuda" */
    uint64_t parameters; /* of the whole model */
    uint64_t trained;    /* of those that a tuner changes: all, unless train-only or freeze were given */
    uint64_t step;       /* zest_lm_open_run: the step of the run; else 0 */
    size_t vocab_size;   /* logits of a token */
    size_t tokens;       /* the tokenizer's largest id and one; may be less or more than vocab_size */
    size_t hidden_size, layers, heads, kv_heads, ffn_size;
    size_t max_positions; /* tokens of the longest text */
    int causal;           /* 1: continues text; 0: fills masks */
    int has_weights;      /* 0: zest_lm_load_tokenizer */
} zest_lm_info;

/* The texts live as long as the model. */
ZEST_API zest_status zest_lm_get_info(const zest_lm *lm, zest_lm_info *info);

/* ---- Tokens ------------------------------------------------------------------------------------------- */

#define ZEST_LM_WHOLE ((size_t)-1) /* as the size of a text: up to its NUL */

enum {
    ZEST_LM_ADD_SPECIAL = 1,  /* encode: put the model's special tokens around the text, <s> ... </s> */
    ZEST_LM_LITERAL = 2,      /* encode: the text "</s>" stands for itself and not for the special token */
    ZEST_LM_SKIP_SPECIAL = 4, /* decode: leave out special tokens */
};

/* Token for token what Hugging Face's tokenizers give. flags: a sum of ZEST_LM_ADD_SPECIAL and _LITERAL. */
ZEST_API zest_status zest_lm_encode(zest_lm *lm, const char *text, size_t size, unsigned flags, int32_t *ids,
                                    size_t capacity, size_t *count);
/* The text of ids[first .. count), seen behind ids[0 .. first): 0 for a whole text, or the length of the
 * prompt that the others continue. flags: ZEST_LM_SKIP_SPECIAL or 0. *size does not count the NUL that ends
 * the text, capacity does. */
ZEST_API zest_status zest_lm_decode(zest_lm *lm, const int32_t *ids, size_t first, size_t count,
                                    unsigned flags, char *text, size_t capacity, size_t *size);

/* The one token of a text, such as a label word with its blank, " great". A text of several tokens is refused. */
ZEST_API zest_status zest_lm_single_token(zest_lm *lm, const char *text, int32_t *id);

/* The spelling of a token in the vocabulary ("Ġgood", "▁good"), and its length unless size is NULL. Lives as
 * long as the model. NULL: no such token. */
ZEST_API const char *zest_lm_token(const zest_lm *lm, int32_t id, size_t *size);
/* The token with this spelling; -1: none. */
ZEST_API int32_t zest_lm_token_id(const zest_lm *lm, const char *spelling);
ZEST_API int zest_lm_token_is_special(const zest_lm *lm, int32_t id);
/* The bytes that a token stands for, which may be a part of a UTF-8 character: for text shown while it is
 * being generated. No NUL is added. */
ZEST_API zest_status zest_lm_token_bytes(zest_lm *lm, int32_t id, char *bytes, size_t capacity, size_t *size);

typedef enum {
    ZEST_LM_BOS,
    ZEST_LM_EOS,
    ZEST_LM_PAD,
    ZEST_LM_UNK,
    ZEST_LM_MASK,
    ZEST_LM_CLS,
    ZEST_LM_SEP,
} zest_lm_role;

/* The token with this role; -1: the tokenizer has none. */
ZEST_API int32_t zest_lm_special_token(const zest_lm *lm, zest_lm_role role);

/* The text that a model was trained to read for a conversation, ready for the assistant's next turn, by the model's own
 * chat template. messages: a JSON list, [{"role": "user", "content": "Hello"}]. Encode the text with flags 0: a template
 * writes its own special tokens. *size does not count the NUL that ends the text, capacity does. */
ZEST_API zest_status zest_lm_chat_prompt(zest_lm *lm, const char *messages, char *text, size_t capacity,
                                         size_t *size);

/* ---- Batches ------------------------------------------------------------------------------------------ */

/* Examples of one kind, in the order in which they were added. Tokens are copied and checked when they are
 * added: an example that is refused leaves the batch as it was. */
typedef struct zest_lm_batch zest_lm_batch;

ZEST_API zest_lm_batch *zest_lm_batch_new(zest_lm *lm);
ZEST_API void zest_lm_batch_free(zest_lm_batch *batch);
ZEST_API void zest_lm_batch_clear(zest_lm_batch *batch); /* no examples, any kind; label words stay */
ZEST_API size_t zest_lm_batch_count(const zest_lm_batch *batch);

/* Language modelling, causal models: the loss is minus the log-likelihood of ids[first .. count), each token
 * given those before it; 1 <= first < count. The mean over a batch is per token, not per example. */
ZEST_API zest_status zest_lm_batch_add_text(zest_lm_batch *batch, const int32_t *ids, size_t count,
                                            size_t first);
/* Language modelling, masked models: minus the log-likelihood of targets[i] at ids[positions[i]], which is
 * usually the mask token. The mean over a batch is per target. */
ZEST_API zest_status zest_lm_batch_add_mlm(zest_lm_batch *batch, const int32_t *ids, size_t count,
                                           const size_t *positions, const int32_t *targets,
                                           size_t target_count);
/* A choice between options, causal models: the score of an option is the mean log-likelihood of its tokens
 * behind the prompt, the loss is the cross-entropy of the scores. Option i is option_ids[option_starts[i] ..
 * option_starts[i+1]). The prompt is computed once for all options. answer: the right option, from 0. */
ZEST_API zest_status zest_lm_batch_add_choices(zest_lm_batch *batch, const int32_t *prompt, size_t count,
                                               const int32_t *option_ids, const size_t *option_starts,
                                               size_t option_count, size_t answer);
/* A classification, masked models: the loss is the cross-entropy over the logits of a few label words at
 * ids[position], usually the mask token. The label words are set once, before the first example; answer is
 * one of them, from 0. */
ZEST_API zest_status zest_lm_batch_set_label_words(zest_lm_batch *batch, const int32_t *words, size_t count);
ZEST_API zest_status zest_lm_batch_add_masked(zest_lm_batch *batch, const int32_t *ids, size_t count,
                                              size_t position, size_t answer);
/* The same from a text with the mask token in it once: "A fine film. It was<mask>." */
ZEST_API zest_status zest_lm_batch_add_masked_text(zest_lm_batch *batch, const char *text, size_t answer);

/* ---- Forward passes ----------------------------------------------------------------------------------- */

/* Losses of a batch in every lane. lanes: those that a tuner of this model (zest_lm_tuner) asks for; NULL:
 * one lane, the model itself. losses: (lanes, examples); means: (lanes). Either may be NULL. */
ZEST_API zest_status zest_lm_losses(zest_lm *lm, const zest_lanes *lanes, zest_lm_batch *batch,
                                    double *losses, double *means);
/* The option or label word with the highest score, for batches of choices and of masked examples: (lanes,
 * examples). Of equal scores the first is chosen; -1: no score is finite. With it an objective can be an
 * error rate. */
ZEST_API zest_status zest_lm_choose(zest_lm *lm, const zest_lanes *lanes, zest_lm_batch *batch,
                                    int32_t *choices);

/* Logits at some tokens of a text, (rows, vocab_size) floats: rows[i] is the index of a token, whose logits
 * predict the next token (causal) or the token itself (masked). */
ZEST_API zest_status zest_lm_logits(zest_lm *lm, const int32_t *ids, size_t count, const size_t *rows,
                                    size_t row_count, float *logits);

/* Log-probabilities (natural) of the tokens of a text: count numbers. A causal model predicts every token
 * from those before it; a masked one every token that is not special from all others, one mask at a time (the
 * pseudo-log-likelihood). A token that is not predicted gets NaN. */
ZEST_API zest_status zest_lm_score(zest_lm *lm, const int32_t *ids, size_t count, double *log_probabilities);

/* Set to {0} first, so that fields of later versions keep their defaults. */
typedef struct {
    size_t window;                /* tokens that the model sees at once; 0: max_positions, at most 2048 */
    size_t stride;                /* tokens from one window to the next, at most a window; 0: half a window */
    zest_lm_progress on_progress; /* tokens of the text. May be NULL */
    void *user;
} zest_lm_perplexity_options;

typedef struct {
    double perplexity;      /* exp(-log_probability / tokens) */
    double log_probability; /* of all predicted tokens together */
    size_t tokens, windows; /* predicted; looked at */
} zest_lm_perplexity_result;

/* The perplexity of a long text under a causal model, with a sliding window as transformers' documentation defines it:
 * windows begin at tokens 0, stride, 2 stride, ...; each token is predicted in the first window that has it, from the
 * tokens of that window before it. The first token of a window is not predicted unless an earlier window has it, so
 * neither is that of the text. options may be NULL. */
ZEST_API zest_status zest_lm_perplexity(zest_lm *lm, const int32_t *ids, size_t count,
                                        const zest_lm_perplexity_options *options,
                                        zest_lm_perplexity_result *result);

/* Set to {0} first, so that fields of later versions keep their defaults. */
typedef struct {
    size_t max_tokens; /* new tokens at most; 0: 64. A text that fills max_positions ends earlier */
    const int32_t *stops;
    size_t stop_count; /* a text ends behind the first of these tokens, which is kept */
    int ignore_eos;    /* else the model's end tokens are such tokens, too: of a text, or of a turn */
    /* Of a single prompt: what was computed stays with the model, and the next call that asks for this begins where
     * its prompt differs from the text so far, as turns of a conversation do. The same tokens on the CPU. */
    int keep;
    /* Told every new token, of prompt 0, 1, ...; non-zero ends the generation of all. May be NULL. */
    int (*on_token)(size_t prompt, int32_t token, void *user);
    zest_lm_progress on_progress; /* tokens of the longest text so far, of max_tokens. May be NULL */
    void *user;
} zest_lm_generate_options;

/* How the model chooses the next token from now on: "temperature=0.8 top-k=40 top-p=0.95 min-p=0.05 seed=7
 * repetition-penalty=1.1", each as `zest generate` takes it; what is not named has its default. NULL, or a temperature
 * of 0, as after loading: the token with the largest logit, of equal ones the smallest. A draw is a function of the seed,
 * the number of the prompt and the token's position: the same with any number of threads. */
ZEST_API zest_status zest_lm_set_sampling(zest_lm *lm, const char *options);

/* Continuation of a prompt by a causal model. options may be NULL. ids has room for capacity >= 1 tokens, which limits max_tokens. */
ZEST_API zest_status zest_lm_generate(zest_lm *lm, const int32_t *prompt, size_t prompt_count,
                                      const zest_lm_generate_options *options, int32_t *ids, size_t capacity,
                                      size_t *count);
/* The same for several prompts at once, which is faster and, on the CPU, gives the same tokens. Prompt i is
 * ids[starts[i] .. starts[i+1]). new_ids: (prompts, max_tokens), of which counts[i] are there in row i. */
ZEST_API zest_status zest_lm_generate_batch(zest_lm *lm, const int32_t *ids, const size_t *starts,
                                            size_t prompts, const zest_lm_generate_options *options,
                                            int32_t *new_ids, size_t *counts);

/* ---- Weights: your own training loop ------------------------------------------------------------------ */

/* A tuner of zest.h over the model's trained weights, wherever they are: options, stop criteria, ask and tell,
 * journal and resume work as for a vector; the option "threads" is the model's. It starts from rho=0.002 and
 * lr=1e-5. Its objective is one over lanes (zest_tuner_objective_lanes), which calls zest_lm_losses or
 * anything else; lanes of a model are described (zest_lanes_describe), not read. Every step changes the model.
 * One tuner at a time; free it before the model. NULL on error. */
ZEST_API zest_tuner *zest_lm_tuner(zest_lm *lm);

/* Takes the model to the state after `step` steps of a journal. It must hold the weights that the journal was
 * started from, with the same train-only and freeze; they are compared by their fingerprint. The same bits as
 * the run's own, on every machine. journal: opened with the model's context. */
ZEST_API zest_status zest_lm_replay(zest_lm *lm, zest_journal *journal, uint64_t step);

/* A hash of all trained weights: names, types and every byte. Two models with the same fingerprint have the
 * same weights; a journal names its starting point by it. */
ZEST_API zest_status zest_lm_fingerprint(zest_lm *lm, uint64_t *fingerprint);

typedef struct {
    const char *name;  /* as the model's family spells it; lives as long as the model */
    const char *dtype; /* "F32", "BF16" or "F16" */
    size_t rank, shape[2];
    size_t count; /* elements */
    int trained;
} zest_lm_tensor;

/* The i-th tensor, 0 <= i; returns 0 past the last. A tied head is one tensor, the token embeddings. */
ZEST_API int zest_lm_get_tensor(const zest_lm *lm, size_t i, zest_lm_tensor *tensor);
/* Elements first .. first+count-1 of tensor i. Writing rounds to the tensor's type. On a GPU each call copies
 * the whole model. */
ZEST_API zest_status zest_lm_read_tensor(zest_lm *lm, size_t i, size_t first, size_t count, float *values);
ZEST_API zest_status zest_lm_write_tensor(zest_lm *lm, size_t i, size_t first, size_t count,
                                          const float *values);

/* ---- Training on a task ------------------------------------------------------------------------------- */

/* What `zest train`, `zest pretrain` and `zest eval` do, as calls: a task with its data, evaluations, early
 * stopping, the best weights, and a run folder (option "out") that can be resumed and replayed. docs/train.md
 * and docs/own-data.md say what the options mean. For an objective of your own use zest_lm_tuner. */

/* Options by name, with the command's defaults. */
typedef struct zest_lm_options zest_lm_options;

/* command: "train", "pretrain", "eval" or "predict". NULL on error. */
ZEST_API zest_lm_options *zest_lm_options_new(zest_ctx *ctx, const char *command);
ZEST_API void zest_lm_options_free(zest_lm_options *options);
ZEST_API zest_status zest_lm_options_set(zest_lm_options *options, const char *name, const char *value);
/* "name=value name=value ...", or lines "name = value" as in a --config file. */
ZEST_API zest_status zest_lm_options_set_all(zest_lm_options *options, const char *text);
ZEST_API const char *zest_lm_options_get(const zest_lm_options *options,
                                         const char *name); /* NULL: unknown */
/* The i-th option, 0 <= i, with its default for this command; returns 0 past the last. */
ZEST_API int zest_lm_options_list(const zest_lm_options *options, size_t i, zest_option *option);

/* What does not apply, and everything of no examples, is NaN. */
typedef struct {
    size_t n;          /* examples */
    size_t bad;        /* of these: with a score or loss that is not finite */
    double loss;       /* mean over examples, or over tokens where answers are texts */
    double accuracy;   /* of classes and choices */
    double f1;         /* two classes: of class 1; texts: mean token F1 */
    double em;         /* texts: exact match */
    double perplexity; /* of plain text (zest pretrain): exp(loss) */
    double value;      /* by the task's metric */
    double low, high;  /* 95 % interval of value */
} zest_lm_metrics;

/* What a run is going to be. The texts last for the call. */
typedef struct {
    const zest_lm_options *options; /* with every default filled in */
    const char *family, *weights;   /* as in zest_lm_info */
    const char *task, *select; /* select: the metric on the dev examples that says which weights are best */
    uint64_t parameters, trained;
    size_t train, dev, test;    /* examples */
    size_t cut;                 /* texts that are too long and are shortened */
    size_t live;                /* pairs of lanes in memory at once; 0: the method has none */
    uint64_t steps, eval_every; /* how long it will be, and how often the dev examples are evaluated */
    uint64_t step;              /* that a resumed run goes on from */
    uint64_t evaluations;       /* of the dev examples, from the start to the end */
    uint64_t memory;            /* bytes of a step, estimated */
    double epochs;
    double batch_tokens; /* tokens of a batch, on average */
    /* of a dry run, which takes a step or two; else NaN and 0 */
    double step_seconds, total_seconds;
    uint64_t peak_bytes, device_peak_bytes; /* measured */
    int on_device;                          /* memory is the device's */
} zest_lm_train_summary;

/* Where a run stands: told after every step and after every evaluation. A number that the method does not have
 * is NaN. */
typedef struct {
    uint64_t step, steps;
    double loss, lr;
    double effective;         /* effective sample size of the tilt: of the k pairs */
    double spread;            /* standard deviation of the 2k losses */
    double slope, curvature;  /* its two parts: see zest_tilt_report */
    double norm;              /* of the gradient, first-order methods */
    double tokens_per_second; /* of forward passes */
    double seconds;           /* since the start of the run */
    zest_lm_metrics dev;      /* the latest evaluation; n = 0: none yet */
    uint64_t dev_step;
    double dev_seconds; /* that it took; NaN: none yet in this session */
    int evaluated;      /* told for an evaluation, not for a step */
    int best;           /* which is the best so far */
    const char *advice; /* on t, once: what the tilt does; "; " and what would be a better one. NULL: none */
} zest_lm_train_progress;

/* Each may be NULL. Set to {0} first, so that fields of later versions are NULL. */
typedef struct {
    void (*on_start)(const zest_lm_train_summary *summary, void *user);     /* before the first step */
    int (*on_progress)(const zest_lm_train_progress *progress, void *user); /* non-zero ends the run */
    zest_lm_progress on_rebuild;                                            /* steps are replayed */
    zest_lm_progress on_evaluate;                                           /* examples are answered */
    void (*on_note)(const char *sentences, void *user); /* worth knowing, no failure; one a line */
    void *user;
    /* Ends the run after the step in flight when it is not 0: for signal handlers. May be NULL. */
    volatile sig_atomic_t *stop;
} zest_lm_callbacks;

typedef enum {
    ZEST_LM_DONE,        /* all steps are taken */
    ZEST_LM_PATIENCE,    /* the dev examples got no better */
    ZEST_LM_TIME,        /* the option "seconds" */
    ZEST_LM_INTERRUPTED, /* on_progress or *stop ended it; zest_lm_resume goes on */
    ZEST_LM_DIVERGED,    /* the loss has exploded; the best weights are kept and evaluated */
} zest_lm_stop_reason;

ZEST_API const char *zest_lm_stop_reason_name(zest_lm_stop_reason reason);

typedef struct {
    zest_lm_stop_reason reason;
    uint64_t step, best_step;
    zest_lm_metrics start, dev, test; /* dev and test with the best weights; n = 0 when not evaluated */
    double seconds;
    uint64_t peak_bytes;        /* resident, of the process */
    uint64_t device_peak_bytes; /* of the device's memory; 0: the CPU */
    uint64_t dropped_pairs;     /* with a loss that was not finite */
    size_t train, dev_count, test_count;
    size_t cut;      /* texts that were too long and were shortened */
    char metric[16]; /* the task's: "accuracy" */
    /* Of the training loss. ZEST_LM_DIVERGED: divergence_steps steps in a row were above divergence_limit. */
    double first_loss, latest_loss, divergence_limit;
    uint64_t divergence_steps;
} zest_lm_train_result;

/* A new run. With the option "out" it is kept in a folder; without, only the result is left of it. result is
 * valid up to its step after an error, too. callbacks may be NULL. */
ZEST_API zest_status zest_lm_train(zest_ctx *ctx, const zest_lm_options *options,
                                   const zest_lm_callbacks *callbacks, zest_lm_train_result *result);
/* Goes on with the run in a folder. Of the options (or NULL) only what was set counts, and only what may
 * change: how long to go on, and where model and data are now. */
ZEST_API zest_status zest_lm_resume(zest_ctx *ctx, const char *folder, const zest_lm_options *options,
                                    const zest_lm_callbacks *callbacks, zest_lm_train_result *result);
/* Loads and checks everything and takes a step or two, to tell on_start what the run would be: its time and
 * memory. Nothing is written. */
ZEST_API zest_status zest_lm_dry_run(zest_ctx *ctx, const zest_lm_options *options,
                                     const zest_lm_callbacks *callbacks);

typedef struct {
    zest_lm_metrics metrics;
    uint64_t step;   /* of a run */
    int is_run;      /* path was one, not a model */
    double seconds;  /* without loading */
    char metric[16]; /* the task's: "accuracy" */
    char task[256];  /* its name */
} zest_lm_evaluation;

/* Answers the examples of a task (options "split", "step", "task", "data" of "eval") with a run or a model. A
 * run brings its own task and data. */
ZEST_API zest_status zest_lm_evaluate(zest_ctx *ctx, const char *path, const zest_lm_options *options,
                                      const zest_lm_callbacks *callbacks, zest_lm_evaluation *evaluation);

/* Answers rows of your own, as `zest predict` does. */
typedef struct zest_lm_predictor zest_lm_predictor;

/* path: a run, which brings its task, or a model, with the option "task". options: of "predict" or "eval".
 * NULL on error. */
ZEST_API zest_lm_predictor *zest_lm_predictor_new(zest_ctx *ctx, const char *path,
                                                  const zest_lm_options *options,
                                                  const zest_lm_callbacks *callbacks);
ZEST_API void zest_lm_predictor_free(zest_lm_predictor *predictor);
/* The i-th column that the task reads, and the label of its i-th class; NULL past the last. */
ZEST_API const char *zest_lm_predictor_column(zest_lm_predictor *predictor, size_t i);
ZEST_API const char *zest_lm_predictor_class(const zest_lm_predictor *predictor, size_t i);

/* The column that has the label where rows have one; NULL: none. */
ZEST_API const char *zest_lm_predictor_label(const zest_lm_predictor *predictor);

typedef struct {
    const char *name;
    const char *const *texts; /* several where a column holds a list */
    size_t count;
} zest_lm_field;

/* An answer. Valid during the call. */
typedef struct {
    size_t row;       /* from 0; rows that were refused count */
    int32_t choice;   /* the class or option, from 0; -1: no finite score, or the answer is a text */
    int32_t label;    /* the right one, where the row has it; else -1 */
    const char *text; /* the label of the class, or the text that was generated; NULL: an option */
    const double *probabilities; /* of the classes or options; NULL: the answer is a text */
    size_t probability_count;
    int truncated;      /* the row was too long and was shortened */
    const char *record; /* the row as the input has it, where it is a JSON object; else NULL */
    size_t record_size;
    const zest_lm_field *fields; /* what was read of the row */
    size_t field_count;
} zest_lm_prediction;

typedef struct {
    int (*on_prediction)(const zest_lm_prediction *prediction, void *user); /* non-zero ends it */
    /* A row that cannot be answered, with its line in the input and why; the others are. NULL: it is an error. */
    void (*on_refused)(size_t line, const char *message, void *user);
    zest_lm_progress on_progress; /* rows; or NULL */
    void *user;
} zest_lm_predict_callbacks;

typedef struct {
    const char *name;   /* for messages; its ending may tell the format. NULL: "rows" */
    const char *format; /* "auto", "lines", "tsv", "csv" or "jsonl"; NULL: "auto" */
    int single;         /* all of it is one row: a JSON object, or a text */
} zest_lm_rows_format;

/* Answers rows in order. rows: JSON lines {"sentence": "A fine film."}, a Parquet file, a table whose first line names
 * the columns, or, where the task reads one column, a text a line. format NULL: as the rows look. */
ZEST_API zest_status zest_lm_predict(zest_lm_predictor *predictor, const char *rows, size_t size,
                                     const zest_lm_rows_format *format,
                                     const zest_lm_predict_callbacks *callbacks);
/* The same for the task's own examples: split is "train", "dev" or "test". */
ZEST_API zest_status zest_lm_predict_split(zest_lm_predictor *predictor, const char *split,
                                           const zest_lm_predict_callbacks *callbacks);

typedef struct {
    const char *name, *models, *about; /* models: "masked", "causal" or "masked, causal" */
} zest_lm_task_info;

/* The i-th task that is known by name, 0 <= i; returns 0 past the last. */
ZEST_API int zest_lm_task(size_t i, zest_lm_task_info *task);

#ifdef __cplusplus
}
#endif
#endif
