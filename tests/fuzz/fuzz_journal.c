/* Any bytes as a journal: opened, read and replayed without a crash. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "zest.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    char path[] = "/tmp/zest-fuzz-XXXXXX";
    int file = mkstemp(path);
    if (file < 0 || write(file, data, size) != (ssize_t)size) abort();
    close(file);
    zest_ctx *ctx = zest_ctx_new();
    zest_journal *journal = zest_journal_open(ctx, path);
    if (journal) {
        double x[64] = {0};
        zest_record record;
        for (uint64_t step = 1; step <= zest_journal_steps(journal); step++)
            zest_journal_read(journal, step, &record);
        if (zest_journal_dimension(journal) <= 64)
            zest_journal_replay_f64(journal, zest_journal_steps(journal), x,
                                    (size_t)zest_journal_dimension(journal));
    }
    zest_journal_close(journal);
    zest_ctx_free(ctx);
    unlink(path);
    return 0;
}
