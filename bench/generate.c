/* Seconds of a prompt and of a new token, beside other programs (bench/llama_cpp.py):
 *
 *     build/bench/generate MODEL TOKENS ROUNDS PROMPT [option=value ...]
 *
 * Greedy, one sequence. One JSON object: the fastest prompt of all rounds; the fastest and the median time between two
 * tokens; the number of tokens in the prompt. The fastest counts on a machine with other work. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "zest_lm.h"

typedef struct {
    double last, first, *gaps;
    size_t count;
} times;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int on_token(size_t prompt, int32_t token, void *user) {
    times *t = user;
    double at = now();
    (void)prompt, (void)token;
    if (t->first < 0)
        t->first = at - t->last;
    else
        t->gaps[t->count++] = at - t->last;
    t->last = at;
    return 0;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int fail(const char *what) {
    fprintf(stderr, "generate: %s\n", what);
    return 1;
}

int main(int argc, char **argv) {
    enum { MOST = 8192 };
    static int32_t prompt[MOST], ids[MOST];
    if (argc < 5) return fail("usage: generate MODEL TOKENS ROUNDS PROMPT [option=value ...]");
    size_t tokens = strtoul(argv[2], NULL, 10), rounds = strtoul(argv[3], NULL, 10), count, made, size = 1;
    if (tokens < 2 || tokens > MOST || rounds < 1 || rounds > 1000)
        return fail("2 to 8192 tokens, 1 to 1000 rounds");
    for (int i = 5; i < argc; i++) size += strlen(argv[i]) + 1;
    char *options = calloc(1, size);
    double *gaps = malloc(tokens * rounds * sizeof *gaps), best = -1;
    zest_ctx *ctx = zest_ctx_new();
    if (!options || !gaps || !ctx) return fail("out of memory");
    for (int i = 5; i < argc; i++) strcat(strcat(options, argv[i]), "\n");
    zest_lm *lm = zest_lm_load(ctx, argv[1], options);
    if (!lm || zest_lm_encode(lm, argv[4], strlen(argv[4]), ZEST_LM_ADD_SPECIAL, prompt, MOST, &count))
        return fail(zest_ctx_error(ctx));
    size_t all = 0;
    for (size_t r = 0; r < rounds; r++) {
        times t = {.last = now(), .first = -1, .gaps = gaps + all};
        zest_lm_generate_options how = {
            .max_tokens = tokens, .ignore_eos = 1, .on_token = on_token, .user = &t};
        if (zest_lm_generate(lm, prompt, count, &how, ids, tokens, &made)) return fail(zest_ctx_error(ctx));
        if (best < 0 || t.first < best) best = t.first;
        all += t.count;
    }
    qsort(gaps, all, sizeof *gaps, by_value);
    printf("{\"prompt_tokens\": %zu, \"prompt_s\": %.6f, \"token_s\": %.6f, \"median_token_s\": %.6f, "
           "\"ids\": [",
           count, best, gaps[0], gaps[all / 2]);
    for (size_t i = 0; i < made; i++) printf("%s%d", i ? ", " : "", (int)ids[i]);
    puts("]}");
    zest_lm_free(lm);
    zest_ctx_free(ctx);
    free(options);
    free(gaps);
    return 0;
}
