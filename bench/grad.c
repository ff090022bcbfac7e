/* Speed of a gradient: bench/grad [roberta-base|opt-125m] [BATCH] [TOKENS] [bf16|f32] [THREADS] [recompute]
 * prints the seconds of losses alone and of losses and gradient, with random weights and one asked row a
 * sequence (8 for causal models), and how much of the machine's ceiling that is. The last line is JSON. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/ceiling.h"
#include "base/clock.h"
#include "grad/grad.h"

static const char roberta[] =
    "{\"model_type\": \"roberta\", \"architectures\": [\"RobertaForMaskedLM\"], \"vocab_size\": 50265, "
    "\"hidden_size\": 768, \"num_hidden_layers\": 12, \"num_attention_heads\": 12, \"intermediate_size\": "
    "3072, "
    "\"hidden_act\": \"gelu\", \"max_position_embeddings\": 514, \"type_vocab_size\": 1, \"layer_norm_eps\": "
    "1e-5, \"pad_token_id\": 1}";
static const char opt[] =
    "{\"model_type\": \"opt\", \"architectures\": [\"OPTForCausalLM\"], \"vocab_size\": 50272, "
    "\"hidden_size\": "
    "768, \"num_hidden_layers\": 12, \"num_attention_heads\": 12, \"ffn_dim\": 3072, "
    "\"max_position_embeddings\": 2048, \"activation_function\": \"relu\", \"do_layer_norm_before\": true, "
    "\"word_embed_proj_dim\": 768}";

static const zest_forward *inner;
static double product_seconds, product_work;

static int timed_linear(const zest_linear *job, int threads, zest_scratch *scratch) {
    double began = zest_clock_now();
    int failed = inner->linear(job, threads, scratch);
    product_seconds += zest_clock_now() - began;
    product_work += 2.0 * (double)job->rows * (double)job->weight.rows * (double)job->weight.columns;
    return failed;
}

enum { ANSWER = 8 };
static const uint32_t words[2] = {372, 6587};

/* The same batch and objective as zest bench step. */
static zest_model_objective make_objective(const zest_model *model, size_t batch, size_t length,
                                           zest_model_batch *packed) {
    uint32_t *tokens = malloc(batch * length * sizeof *tokens),
             *starts = malloc((batch + 1) * sizeof *starts);
    uint32_t *rows = malloc(batch * ANSWER * sizeof *rows),
             *targets = malloc(batch * ANSWER * sizeof *targets);
    uint32_t *items = calloc(batch + 1, sizeof *items), *answers = calloc(batch, sizeof *answers), asked = 0;
    if (!tokens || !starts || !rows || !targets || !items || !answers) exit(1);
    for (size_t i = 0; i < batch * length; i++)
        tokens[i] = (uint32_t)(10 + (i * 2654435761u) % (model->is.vocabulary - 20));
    for (size_t s = 0; s <= batch; s++) starts[s] = (uint32_t)(s * length);
    for (size_t s = 0; s < batch; s++) {
        uint32_t several = model->is.causal ? (length - 1 < ANSWER ? (uint32_t)length - 1 : ANSWER) : 1;
        for (uint32_t j = 0; j < several; j++, asked++) {
            rows[asked] =
                model->is.causal ? starts[s + 1] - 1 - several + j : starts[s] + (uint32_t)length / 2;
            targets[asked] = tokens[(rows[asked] + 1) % (batch * length)];
        }
        items[s + 1] = asked;
        answers[s] = s % 2;
    }
    *packed = (zest_model_batch){.tokens = tokens, .starts = starts, .sequences = batch};
    return (zest_model_objective){.kind = model->is.causal ? ZEST_MODEL_TOKENS : ZEST_MODEL_WORDS,
                                  .batch = packed,
                                  .items = batch,
                                  .item_starts = items,
                                  .rows = rows,
                                  .targets = targets,
                                  .words = words,
                                  .word_count = 2,
                                  .answers = answers};
}

typedef struct {
    double seconds, products, work;
} timing;

/* The best of some rounds. */
static timing measure(zest_grad *grad, const zest_grad_job *job, zest_error *error) {
    timing best = {1e30, 0, 0};
    double began = zest_clock_now(), mean;
    for (int round = 0; round < 3 || (zest_clock_now() - began < 5 && round < 20); round++) {
        double start = zest_clock_now();
        product_seconds = product_work = 0;
        if (zest_grad_losses(grad, job, NULL, &mean, error)) {
            fprintf(stderr, "%s\n", error->message);
            exit(1);
        }
        timing now = {zest_clock_now() - start, product_seconds, product_work};
        if (round && now.seconds < best.seconds) best = now;
    }
    return best;
}

int main(int argc, char **argv) {
    const char *shape = argc > 1 ? argv[1] : "roberta-base";
    size_t batch = argc > 2 ? strtoul(argv[2], NULL, 10) : 64,
           tokens = argc > 3 ? strtoul(argv[3], NULL, 10) : 64;
    zest_compute compute = argc > 4 && !strcmp(argv[4], "f32") ? ZEST_COMPUTE_F32 : ZEST_COMPUTE_BF16;
    zest_grad_options options = {.compute = compute,
                                 .threads = argc > 5 ? atoi(argv[5]) : omp_get_max_threads()};
    options.recompute = argc > 6;
    zest_model_options how = {.storage = compute == ZEST_COMPUTE_BF16 ? ZEST_MODEL_BF16 : ZEST_MODEL_F32};
    zest_model *model;
    zest_grad *grad;
    zest_error error = {0};
    zest_cpu cpu;
    if (!zest_cpu_detect(&cpu)) return 2;
    inner = zest_forward_for(cpu);
    zest_forward timed = *inner;
    timed.linear = timed_linear;
    double ceiling = zest_ceiling_measure(cpu, compute, options.threads);
    if (zest_model_random(strcmp(shape, "opt-125m") ? roberta : opt, 1, &how, &model, &error) ||
        zest_grad_new(model, &timed, &options, &grad, &error))
        return fprintf(stderr, "%s\n", error.message), 1;
    zest_model_batch packed;
    zest_model_objective objective = make_objective(model, batch, tokens, &packed);
    zest_grad_job job = {.objective = &objective, .factor = 1};
    timing forward = measure(grad, &job, &error);
    job.gradient = calloc(model->params.dimension, sizeof(float));
    if (!job.gradient) return 1;
    timing both = measure(grad, &job, &error);
    printf("%s, %zu × %zu tokens, compute %s, %s, %d threads%s\n", shape, batch, tokens,
           compute == ZEST_COMPUTE_BF16 ? "bf16" : "f32", zest_cpu_name(cpu), options.threads,
           options.recompute ? ", recomputing" : "");
    printf("losses %.4f s (products %.4f); losses and gradient %.4f s (products %.4f, rest %.4f)\n",
           forward.seconds, forward.products, both.seconds, both.products, both.seconds - both.products);
    printf("%.1f GFLOP of products, %.1f GFLOP/s, in the products %.1f; ceiling %.1f: %.1f %%; activations "
           "%.1f MiB\n",
           both.work / 1e9, both.work / both.seconds / 1e9, both.work / both.products / 1e9, ceiling / 1e9,
           100 * both.work / both.seconds / ceiling, (double)zest_grad_memory(grad) / 1048576);
    printf("{\"shape\": \"%s\", \"batch\": %zu, \"tokens\": %zu, \"threads\": %d, \"forward_seconds\": %.5f, "
           "\"seconds\": %.5f, \"ceiling_fraction\": %.4f}\n",
           shape, batch, tokens, options.threads, forward.seconds, both.seconds,
           both.work / both.seconds / ceiling);
    return 0; /* the process ends: so does its memory */
}
