/* Speed of encoding and decoding: bench/tokenizer TOKENIZER TEXT-FILE prints MB/s on one core, for the
 * whole file and by lines. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "tokenizer/tokenizer.h"

/* Processor time of this thread: other work on the machine is not counted. */
static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* One pass over the text; by_line: a call for every line. Returns the number of tokens. */
static size_t encode(const zest_tokenizer *tokenizer, const zest_buffer *text, int by_line, zest_ids *ids) {
    const char *at = text->data, *end = at + text->size;
    zest_error error;
    ids->count = 0;
    while (at < end) {
        const char *newline = by_line ? memchr(at, '\n', (size_t)(end - at)) : NULL;
        const char *stop = newline ? newline + 1 : end;
        if (zest_tokenizer_encode(tokenizer, at, (size_t)(stop - at), 0, ids, &error)) return 0;
        at = stop;
    }
    return ids->count;
}

static void report(const char *what, size_t bytes, size_t tokens, int passes, double stats) {
    printf("%-16s %8.2f MB/s  %10zu tokens  %d passes\n", what, 1e-6 * (double)bytes * passes / stats, tokens,
           passes);
}

int main(int argc, char **argv) {
    zest_error error = {0};
    zest_buffer text = {0}, back = {0};
    zest_ids ids = {0};
    if (argc != 3) return fprintf(stderr, "usage: %s TOKENIZER TEXT-FILE\n", argv[0]), 2;
    double start = seconds();
    zest_tokenizer *tokenizer = zest_tokenizer_open(argv[1], &error);
    printf("%-16s %8.1f ms\n", "open", 1e3 * (seconds() - start));
    if (!tokenizer || zest_file_read(argv[2], (size_t)1 << 28, &text, &error))
        return fprintf(stderr, "%s\n", error.message), 1;
    for (int by_line = 0; by_line < 2; by_line++) {
        int passes = 0;
        size_t tokens = 0;
        for (start = seconds(); seconds() - start < 1.0; passes++)
            tokens = encode(tokenizer, &text, by_line, &ids);
        report(by_line ? "encode by lines" : "encode whole", text.size, tokens, passes, seconds() - start);
    }
    int passes = 0;
    for (start = seconds(); seconds() - start < 1.0; passes++) {
        back.size = 0;
        if (zest_tokenizer_decode(tokenizer, ids.data, ids.count, 0, &back, &error)) return 1;
    }
    report("decode", back.size, ids.count, passes, seconds() - start);
    zest_ids_free(&ids);
    zest_buffer_free(&text);
    zest_buffer_free(&back);
    zest_tokenizer_free(tokenizer);
    return 0;
}
