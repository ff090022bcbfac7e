/* Speed of a gradient: bench/grad [roberta-base|opt-125m] [BATCH] [TOKENS] [bf16|f32] [THREADS] [recompute]
 * [--device cuda] prints the seconds of losses alone and of losses and gradient, with random weights and one
 * output row a sequence (8 for causal models), and how much of the machine's peak that is. The last line is
 * JSON. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ops.h"
#include "base/clock.h"
#include "grad/grad.h"

static const char roberta[] =
    "{\"model_type\": \"roberta\", \"architectures\": [\"RobertaForMaskedLM\"], \"vocab_size\": 50265, "
    "\"hidden_size\": 768, \"num_hidden_layers\": 12, \"num_attention_heads\": 12, \"intermediate_size\": "
    "3072, \"hidden_act\": \"gelu\", \"max_position_embeddings\": 514, \"type_vocab_size\": 1, "
    "\"layer_norm_eps\": 1e-5, \"pad_token_id\": 1}";
static const char opt[] =
    "{\"model_type\": \"opt\", \"architectures\": [\"OPTForCausalLM\"], \"vocab_size\": 50272, "
    "\"hidden_size\": 768, \"num_hidden_layers\": 12, \"num_attention_heads\": 12, \"ffn_dim\": 3072, "
    "\"max_position_embeddings\": 2048, \"activation_function\": \"relu\", \"do_layer_norm_before\": true, "
    "\"word_embed_proj_dim\": 768}";

static const zest_ops *inner;
static double product_seconds, product_work;

static int timed_linear(const zest_linear *job, int threads, zest_workspace *scratch) {
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
        tokens[i] = (uint32_t)(10 + (i * 2654435761u) % (model->config.vocab_size - 20));
    for (size_t s = 0; s <= batch; s++) starts[s] = (uint32_t)(s * length);
    for (size_t s = 0; s < batch; s++) {
        uint32_t several = model->config.causal ? (length - 1 < ANSWER ? (uint32_t)length - 1 : ANSWER) : 1;
        for (uint32_t j = 0; j < several; j++, asked++) {
            rows[asked] =
                model->config.causal ? starts[s + 1] - 1 - several + j : starts[s] + (uint32_t)length / 2;
            targets[asked] = tokens[(rows[asked] + 1) % (batch * length)];
        }
        items[s + 1] = asked;
        answers[s] = s % 2;
    }
    *packed = (zest_model_batch){.tokens = tokens, .starts = starts, .sequences = batch};
    return (zest_model_objective){.kind = model->config.causal ? ZEST_LOSS_TOKENS : ZEST_LOSS_LABEL_WORDS,
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

static void need(int failed, const zest_error *error) {
    if (!failed) return;
    fprintf(stderr, "%s\n", error->message);
    exit(1);
}

/* The minimum of several rounds. */
static timing measure(zest_grad *grad, const zest_grad_job *job, zest_error *error) {
    timing best = {1e30, 0, 0};
    double began = zest_clock_now(), mean;
    for (int round = 0; round < 3 || (zest_clock_now() - began < 5 && round < 20); round++) {
        double start = zest_clock_now();
        product_seconds = product_work = 0;
        need(zest_grad_losses(grad, job, NULL, &mean, error) != ZEST_OK, error);
        timing now = {zest_clock_now() - start, product_seconds, product_work};
        if (round && now.seconds < best.seconds) best = now;
    }
    return best;
}

typedef struct {
    const char *shape, *type;
    size_t batch, tokens;
    int threads, recompute;
    zest_compute compute;
} settings;

static void print_json(const settings *s, const char *device, double forward, double both, double fraction) {
    printf("{\"shape\": \"%s\", \"batch\": %zu, \"tokens\": %zu, \"type\": \"%s\", \"device\": \"%s\", "
           "\"threads\": %d, \"forward_seconds\": %.6f, \"seconds\": %.6f, \"peak_fraction\": %.4f}\n",
           s->shape, s->batch, s->tokens, s->type, device, s->threads, forward, both, fraction);
}

static int on_cpu(const settings *s, const zest_model *model, zest_grad_job *job) {
    zest_grad_options options = {.compute = s->compute, .threads = s->threads, .recompute = s->recompute};
    zest_grad *grad;
    zest_error error = {0};
    zest_cpu cpu;
    if (zest_cpu_detect(&cpu, &error)) return 2;
    inner = zest_ops_for(cpu);
    zest_ops timed = *inner;
    timed.linear = timed_linear;
    double peak_flops = zest_peak_measure(cpu, s->compute, s->threads);
    need(zest_grad_new(model, &timed, &options, &grad, &error) != ZEST_OK, &error);
    timing forward = measure(grad, job, &error);
    job->gradient = calloc(model->params.dimension, sizeof(float));
    if (!job->gradient) return 1;
    timing both = measure(grad, job, &error);
    printf("%s, %zu × %zu tokens, compute %s, %s, %d threads%s\n", s->shape, s->batch, s->tokens, s->type,
           zest_cpu_name(cpu), s->threads, s->recompute ? ", recomputing" : "");
    printf("losses %.4f s (products %.4f); losses and gradient %.4f s (products %.4f, rest %.4f)\n",
           forward.seconds, forward.products, both.seconds, both.products, both.seconds - both.products);
    printf("%.1f GFLOP of products, %.1f GFLOP/s, in the products %.1f; peak %.1f: %.1f %%; activations "
           "%.1f MiB\n",
           both.work / 1e9, both.work / both.seconds / 1e9, both.work / both.products / 1e9, peak_flops / 1e9,
           100 * both.work / both.seconds / peak_flops, (double)zest_grad_memory(grad) / 1048576);
    print_json(s, "cpu", forward.seconds, both.seconds, both.work / both.seconds / peak_flops);
    return 0; /* the process ends, and frees its memory */
}

/* ---- On a device ---- */

/* Multiply-adds of a forward pass's products times two, with the last layer's rest and the head for asked
 * rows alone. Words are no product. */
static double work_of(const zest_model *model, const zest_model_objective *objective) {
    const zest_model_config *config = &model->config;
    double q = (double)(config->heads * config->head_dim), kv = (double)(config->kv_heads * config->head_dim),
           width = (double)config->hidden_size;
    double rows = (double)objective->batch->starts[objective->batch->sequences],
           asked = (double)objective->item_starts[objective->items];
    double within = q * width + width * (double)config->ffn_size * (config->gated ? 3 : 2);
    double sum = (double)config->layers * rows * width * (q + 2 * kv) +
                 ((double)config->layers - 1) * rows * within + asked * within;
    if (config->head_transform) sum += asked * width * width;
    if (objective->kind != ZEST_LOSS_LABEL_WORDS)
        sum += asked * (double)config->vocab_size * (double)config->embedding_size;
    return 2 * sum;
}

/* Seconds per pass: several in a row, with a final synchronisation; the minimum of several rounds. */
static double time_there(zest_grad *grad, const zest_grad_job *job, zest_device *device, const void *any) {
    enum { ROUNDS = 6, PASSES = 10 };
    double best = 1e30, mean;
    float one;
    zest_error error = {0};
    for (int round = 0; round < ROUNDS; round++) {
        double start = zest_clock_now();
        for (int pass = 0; pass < PASSES; pass++)
            need(zest_grad_losses(grad, job, NULL, &mean, &error) != ZEST_OK, &error);
        need(device->operations->device->download(device, &one, any, sizeof one), &error);
        double seconds = (zest_clock_now() - start) / PASSES;
        if (round && seconds < best) best = seconds;
    }
    return best;
}

/* The time of each part of a pass; the timers have a cost, too. */
static void print_parts(zest_grad *grad, const zest_grad_job *job, zest_device *device) {
    static const char *const names[ZEST_PROFILE_PARTS] = {"weights", "products", "attention", "norms",
                                                          "rows",    "loss",     "update"};
    const zest_device_table *table = device->operations->device;
    double seconds[ZEST_PROFILE_PARTS];
    zest_error error = {0};
    if (table->profile(device, 1) || zest_grad_losses(grad, job, NULL, NULL, &error) ||
        table->profile_read(device, seconds) || table->profile(device, 0))
        return;
    printf("a pass, watched:");
    for (int i = 0; i < ZEST_PROFILE_PARTS; i++) printf(" %s %.3f", names[i], 1e3 * seconds[i]);
    printf(" ms\n");
}

static int on_device(const settings *s, const zest_model *model, zest_grad_job *job) {
    zest_model_runner_options options = {.compute = s->compute, .device = ZEST_DEVICE_CUDA};
    zest_model_runner *runner;
    zest_grad *grad;
    zest_error error = {0};
    need(zest_model_open_runner(model, &options, &runner, &error) != ZEST_OK, &error);
    zest_device *device = zest_model_runner_device(runner);
    const zest_device_table *table = device->operations->device;
    zest_grad_options how = {.recompute = s->recompute, .runner = runner};
    need(zest_grad_new(model, NULL, &how, &grad, &error) != ZEST_OK, &error);
    zest_device_peak peaks;
    size_t bytes = model->params.dimension * sizeof(float), peak;
    float *gradient = table->allocate(device, bytes), *zeros = calloc(1, bytes);
    if (!gradient || !zeros || table->upload(device, gradient, zeros, bytes) || table->peak(device, &peaks))
        return fprintf(stderr, "%s\n", device->error.message), 1;
    double forward = time_there(grad, job, device, gradient), work = 3 * work_of(model, job->objective);
    job->gradient = gradient;
    double both = time_there(grad, job, device, gradient);
    if (s->recompute) work *= 4.0 / 3;
    (void)table->bytes_allocated(device, &peak);
    printf("%s, %zu × %zu tokens, compute %s, %s%s\n", s->shape, s->batch, s->tokens, s->type,
           table->name(device), s->recompute ? ", recomputing" : "");
    printf("losses %.3f ms; losses and gradient %.3f ms; %.2f TFLOP of products, %.1f TFLOP/s; peak "
           "%.1f: %.1f %%; activations %.1f MiB, peak memory %.1f\n",
           1e3 * forward, 1e3 * both, work / 1e12, work / both / 1e12, peaks.gemm_flops / 1e12,
           100 * work / both / peaks.gemm_flops, (double)zest_grad_memory(grad) / 1048576,
           (double)peak / 1048576);
    print_parts(grad, job, device);
    print_json(s, "cuda", forward, both, work / both / peaks.gemm_flops);
    return 0;
}

int main(int argc, char **argv) {
    int cuda = 0, count = 1;
    for (int i = 1; i < argc; i++) { /* the option may be anywhere */
        if (!strcmp(argv[i], "--device") && i + 1 < argc)
            cuda = !strcmp(argv[++i], "cuda");
        else
            argv[count++] = argv[i];
    }
    settings s = {.shape = count > 1 ? argv[1] : "roberta-base",
                  .batch = count > 2 ? strtoul(argv[2], NULL, 10) : 64,
                  .tokens = count > 3 ? strtoul(argv[3], NULL, 10) : 64,
                  .type = count > 4 && !strcmp(argv[4], "f32") ? "f32" : "bf16",
                  .threads = count > 5 ? atoi(argv[5]) : omp_get_max_threads(),
                  .recompute = count > 6};
    s.compute = strcmp(s.type, "f32") ? ZEST_COMPUTE_BF16 : ZEST_COMPUTE_F32;
    zest_model_options how = {.storage = s.compute == ZEST_COMPUTE_BF16 ? ZEST_MODEL_BF16 : ZEST_MODEL_F32};
    zest_model *model;
    zest_error error = {0};
    need(zest_model_random(strcmp(s.shape, "opt-125m") ? roberta : opt, 1, &how, &model, &error) != ZEST_OK,
         &error);
    zest_model_batch packed;
    zest_model_objective objective = make_objective(model, s.batch, s.tokens, &packed);
    zest_grad_job job = {.objective = &objective, .factor = 1};
    return cuda ? on_device(&s, model, &job) : on_cpu(&s, model, &job);
}
