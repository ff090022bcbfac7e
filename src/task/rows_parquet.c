/* The rows of a Parquet file, which go the way of lines of JSON. Only the columns that are needed are read: data sets of
 * the Hugging Face Hub have others, such as pictures. */
#include <stdlib.h>

#include "io/parquet.h"
#include "task/rows.h"

/* The columns of conversations (chat/conversation.h). */
static const char *const conversation[] = {"messages", "conversations", "instruction", "input",
                                           "output",   "system",        "tools"};

/* The columns of the fields that the layout selects; *paths NULL: all columns. They live as long as picks. */
static zest_status choose_columns(zest_rows_builder *b, zest_rows_picks *picks, const char ***paths,
                                  size_t *count) {
    zest_status status = zest_rows_picks_parse(b, picks);
    *count = picks->count;
    if (status || !picks->count) return status;
    *paths = calloc(picks->count, sizeof **paths);
    if (!*paths) return zest_error_memory(b->error, b->path, picks->count * sizeof **paths);
    for (size_t i = 0; i < picks->count; i++) (*paths)[i] = picks->picks[i].from;
    return ZEST_OK;
}

static zest_status read_rows(zest_rows_builder *b, zest_parquet *file, zest_rows_reader *on_row) {
    for (size_t number = 1;; number++) {
        json_t *row;
        zest_status status = zest_parquet_next(file, &row, b->error);
        if (status || !row) return status;
        status = on_row(b, row, number);
        if (!status) status = zest_rows_check(b);
        json_decref(row);
        if (status) return status;
    }
}

zest_status zest_rows_each_parquet(zest_rows_builder *b, zest_rows_reader *on_row) {
    zest_rows_picks picks = {0};
    const char **chosen = NULL;
    const char *const *paths = conversation;
    size_t count = sizeof conversation / sizeof *conversation;
    zest_parquet *file = NULL;
    zest_status status = ZEST_OK;
    if (b->layout->format != ZEST_ROWS_CHAT) {
        status = choose_columns(b, &picks, &chosen, &count);
        paths = chosen;
    }
    if (!status)
        status = zest_parquet_open(b->file.data, b->file.size, b->path, paths, count, &file, b->error);
    if (!status) status = read_rows(b, file, on_row);
    zest_parquet_close(file);
    free(chosen);
    zest_rows_picks_free(&picks);
    return status;
}
