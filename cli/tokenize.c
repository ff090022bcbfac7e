/* zest tokenize: what a model's tokenizer makes of texts, and back. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/lm.h"
#include "cli/output.h"
#include "cli/progress.h"

typedef struct {
    zest_cli_lm *m;
    const zest_options *options;
    zest_lines *lines;
    json_t **results; /* NULL: text is printed */
    size_t printed;
} job;

/* ---- Encoding ---- */

/* A token as the vocabulary spells it, on one line. */
static void add_token(const zest_lm *lm, int32_t id, zest_buffer *out) {
    static const char special[] = "\n\r\t\\", letters[] = "nrt\\";
    const char *token = zest_lm_token(lm, id, NULL);
    for (const char *c = token ? token : ""; *c; c++) {
        const char *found = strchr(special, *c);
        if (found)
            zest_buffer_format(out, "\\%c", letters[found - special]);
        else
            zest_buffer_add(out, c, 1);
    }
}

static void print_ids(const zest_cli_tokens *ids) {
    zest_buffer text = {0};
    for (size_t i = 0; i < ids->count; i++)
        zest_buffer_format(&text, "%s%d", i ? " " : "", (int)ids->data[i]);
    zest_output_print("%s\n", text.failed || !text.data ? "" : text.data);
    zest_buffer_free(&text);
}

/* A line for every token; an empty one between texts. */
static void print_tokens(job *j, const zest_cli_tokens *ids) {
    zest_buffer text = {0};
    if (j->printed) zest_buffer_text(&text, "\n");
    for (size_t i = 0; i < ids->count; i++) {
        zest_buffer_format(&text, "%7d  ", (int)ids->data[i]);
        add_token(j->m->lm, ids->data[i], &text);
        zest_buffer_text(&text, "\n");
    }
    zest_output_buffer(&text);
}

static json_t *encoded_json(const job *j, size_t line, const zest_cli_tokens *ids) {
    json_t *numbers = json_array(), *tokens = json_array();
    for (size_t i = 0; i < ids->count; i++) {
        const char *token = zest_lm_token(j->m->lm, ids->data[i], NULL);
        zest_output_append(&numbers, json_integer(ids->data[i]));
        zest_output_append(&tokens, zest_output_string(token ? token : ""));
    }
    return json_pack("{s:I, s:o, s:I, s:o, s:o}", "line", (json_int_t)j->lines->number[line], "text",
                     zest_output_string(j->lines->text[line]), "count", (json_int_t)ids->count, "ids",
                     numbers, "tokens", tokens);
}

static zest_status encode(job *j, size_t line, zest_error *error) {
    zest_cli_tokens ids = {0};
    const char *text = j->lines->text[line];
    unsigned flags = zest_options_whole(j->options, ZEST_OPTION_SPECIAL) ? ZEST_LM_ADD_SPECIAL : 0;
    zest_status status = zest_cli_lm_encode(j->m, text, flags, &ids, error);
    if (!status && j->results)
        zest_output_append(j->results, encoded_json(j, line, &ids));
    else if (!status && zest_options_whole(j->options, ZEST_OPTION_COUNT_TOKENS))
        zest_output_print("%zu\n", ids.count);
    else if (!status && zest_options_whole(j->options, ZEST_OPTION_IDS))
        print_ids(&ids);
    else if (!status)
        print_tokens(j, &ids);
    free(ids.data);
    return status;
}

/* ---- Decoding ---- */

/* Numbers with blanks, commas or brackets between them: "0 31414 2" or "[0, 31414, 2]". */
static zest_status read_ids(const job *j, const char *text, zest_cli_tokens *ids, zest_error *error) {
    ids->data = malloc((strlen(text) + 1) * sizeof *ids->data);
    if (!ids->data) return zest_error_memory(error, "the ids", strlen(text) * sizeof *ids->data);
    for (const char *at = text; *at;) {
        if (isspace((unsigned char)*at) || strchr(",[]", *at)) {
            at++;
            continue;
        }
        char *end;
        long id = isdigit((unsigned char)*at) ? strtol(at, &end, 10) : -1;
        if (id < 0)
            return zest_error_set(
                error, ZEST_ERROR_ARGUMENT,
                "'%.20s' is not a token id; --decode takes numbers with blanks between them", at);
        if (id >= (long)j->m->info.tokens || !zest_lm_token(j->m->lm, (int32_t)id, NULL))
            return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                  "the tokenizer has no token %ld; its ids end at %d", id,
                                  (int)j->m->info.tokens - 1);
        ids->data[ids->count++] = (int32_t)id;
        at = end;
    }
    return ZEST_OK;
}

static zest_status decode(job *j, size_t line, zest_error *error) {
    zest_cli_tokens ids = {0};
    zest_buffer text = {0};
    unsigned flags = zest_options_whole(j->options, ZEST_OPTION_SPECIAL) ? 0 : ZEST_LM_SKIP_SPECIAL;
    zest_status status = read_ids(j, j->lines->text[line], &ids, error);
    if (!status) status = zest_cli_lm_decode(j->m, ids.data, 0, ids.count, flags, &text, error);
    const char *shown = text.data ? text.data : "";
    if (!status && j->results)
        zest_output_append(j->results,
                           json_pack("{s:I, s:o, s:I}", "line", (json_int_t)j->lines->number[line], "text",
                                     zest_output_string(shown), "count", (json_int_t)ids.count));
    else if (!status)
        zest_output_print("%s\n", shown);
    zest_buffer_free(&text);
    free(ids.data);
    return status;
}

/* ---- The command ---- */

static int run(const zest_options *options, char **words, int count) {
    (void)count;
    zest_error error = {0};
    zest_lines lines = {0};
    int json = (int)zest_options_whole(options, ZEST_OPTION_JSON);
    json_t *results = json ? json_array() : NULL;
    zest_cli_lm m;
    zest_status status = zest_cli_lm_open(&m, words[0], 1, options, &error);
    if (!status) status = zest_lines_read(&lines, options, ZEST_OPTION_TEXT, &error);
    job j = {.m = &m, .options = options, .lines = &lines, .results = json ? &results : NULL};
    zest_status (*work)(job *, size_t, zest_error *) =
        zest_options_whole(options, ZEST_OPTION_DECODE) ? decode : encode;
    zest_progress progress;
    zest_progress_begin(&progress, "tokenize", "texts", (int)zest_options_whole(options, ZEST_OPTION_QUIET));
    for (size_t i = 0; i < lines.count && !status && !ferror(stdout); i++, j.printed++) {
        zest_progress_clear(&progress);
        if (work(&j, i, &error)) zest_lines_refuse(&lines, i, error.message, j.results);
        zest_progress_update(&progress, (double)i + 1, (double)lines.count, NULL);
    }
    zest_progress_end(&progress);
    int code = status         ? zest_output_fail(status, error.message)
               : lines.failed ? ZEST_EXIT_FAILURE
                              : ZEST_EXIT_OK;
    if (!status && json) {
        int printed = zest_output_json(json_pack("{s:o}", "results", results));
        if (printed) code = printed;
    } else {
        json_decref(results);
    }
    zest_lines_free(&lines);
    zest_cli_lm_close(&m);
    return code;
}

const zest_command zest_command_tokenize = {
    .name = "tokenize",
    .words = "MODEL|RUN",
    .min_words = 1,
    .max_words = 1,
    .summary = "show how a model's tokenizer splits texts",
    .description =
        "Prints every token of --text, or of each line of standard input, with its id: one token a line, "
        "and an empty line between texts. Tokens are spelt as in the vocabulary (a leading blank is "
        "\\xC4\\xA0 in byte-level tokenizers and \\xE2\\x96\\x81 in SentencePiece's); newline, tab and "
        "backslash are escaped.\n\n"
        "--ids prints the ids alone, one text a line, and --decode turns such lines into text again. "
        "--count prints the number of tokens of each text. Only the tokenizer's files are read, no weights.",
    .examples = "zest tokenize FacebookAI/roberta-base --text 'A lovely day.'\ttokens and ids\n"
                "zest tokenize FacebookAI/roberta-base --count < reviews.txt\thow long are my texts?\n"
                "zest tokenize FacebookAI/roberta-base --text 'A lovely day.' --ids --no-special\tids "
                "alone, without <s> and </s>\n"
                "zest tokenize FacebookAI/roberta-base --decode --text '0 250 9869 183 4 2'\tback to text",
    .defaults = "",
    .users = ZEST_FOR_TOKENIZE,
    .run = run,
};
