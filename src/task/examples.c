#include <stdlib.h>
#include <string.h>

#include "task/examples.h"

/* ---- Messages ---- */

zest_status zest_examples_refuse(const zest_examples_maker *maker, size_t row, zest_error *error,
                                 const char *format, ...) {
    const zest_rows *rows = maker->rows;
    zest_buffer what = {0};
    va_list arguments;
    va_start(arguments, format);
    zest_buffer_vformat(&what, format, arguments);
    va_end(arguments);
    zest_error_set(error, ZEST_ERROR_FORMAT, "%s:%zu: %s", rows->path ? rows->path : "row",
                   rows->lines ? rows->lines[row] : row, what.data && !what.failed ? what.data : "bad row");
    zest_buffer_free(&what);
    return ZEST_ERROR_FORMAT;
}

static const char *source_of(const zest_task *task) { return task->path ? task->path : task->name; }

/* ---- What all rows share ---- */

static zest_status choose_template(zest_examples_maker *maker, zest_error *error) {
    const zest_task *task = maker->task;
    const char *text = maker->masked ? task->masked : task->causal;
    if (maker->masked && task->kind != ZEST_TASK_CLASSES) text = NULL;
    if (!text)
        return zest_error_set(
            error, ZEST_ERROR_ARGUMENT, "%s: the task needs a %s model%s, and %s is a %s one",
            source_of(task), maker->masked ? "causal" : "masked",
            maker->masked ? " (OPT, GPT-2, Llama, Qwen2)" : " (RoBERTa, BERT)",
            maker->model->family ? maker->model->family : "this", maker->masked ? "masked" : "causal");
    zest_template_use use = maker->masked ? ZEST_TEMPLATE_MASKED : ZEST_TEMPLATE_CAUSAL;
    zest_status status = zest_template_parse(text, source_of(task), &maker->prompt, error);
    if (!status) status = zest_template_expect(maker->prompt, use, error);
    if (!status) status = zest_template_check(maker->prompt, maker->rows, error);
    if (status || task->kind != ZEST_TASK_CHOICE || !task->option_form) return status;
    status = zest_template_parse(task->option_form, source_of(task), &maker->form, error);
    if (!status) status = zest_template_expect(maker->form, ZEST_TEMPLATE_OPTION, error);
    return status ? status : zest_template_check(maker->form, maker->rows, error);
}

static void choose_words(zest_examples_maker *maker) {
    const zest_task *task = maker->task;
    size_t most = sizeof task->causal_classes / sizeof *task->causal_classes;
    for (size_t i = 0; i < task->class_count; i++) {
        maker->words[i] = task->classes[i].word;
        for (size_t j = 0; !maker->masked && j < most && task->causal_classes[j].label; j++)
            if (!strcmp(task->causal_classes[j].label, task->classes[i].label))
                maker->words[i] = task->causal_classes[j].word;
    }
}

/* A task may forbid more than a model; a model has no more room than it has. */
static void choose_limit(zest_examples_maker *maker) {
    const zest_task *task = maker->task;
    size_t wanted = maker->masked ? task->max_length : task->causal_length;
    maker->limit = maker->model->max_positions;
    if (wanted && wanted < maker->limit) maker->limit = wanted;
    if (maker->limit < 2) maker->limit = 2;
    if (task->kind != ZEST_TASK_TEXT) return;
    maker->max_tokens = task->max_tokens ? task->max_tokens : 50;
    if (maker->max_tokens > maker->limit / 2) maker->max_tokens = maker->limit / 2;
    maker->limit -= maker->max_tokens;
    if (maker->limit < 2) maker->limit = 2;
}

static zest_status choose_special(zest_examples_maker *maker, zest_error *error) {
    const zest_tokenizer *t = maker->tokenizer;
    maker->mask = zest_tokenizer_special(t, ZEST_TOKEN_MASK);
    maker->start = zest_tokenizer_special(t, ZEST_TOKEN_CLS);
    maker->end = zest_tokenizer_special(t, ZEST_TOKEN_SEP);
    if (maker->start < 0) maker->start = zest_tokenizer_special(t, ZEST_TOKEN_BOS);
    if (maker->end < 0) maker->end = zest_tokenizer_special(t, ZEST_TOKEN_EOS);
    if (maker->mask < 0)
        return zest_error_set(error, ZEST_ERROR_FORMAT,
                              "%s: the tokenizer has no mask token; name it as mask_token in the "
                              "tokenizer_config.json beside the model",
                              source_of(maker->task));
    return ZEST_OK;
}

/* What the tokenizer puts before a text by itself. What it puts behind one is left out: the text goes on. */
static zest_status choose_start(zest_examples_maker *maker, const zest_examples_options *options,
                                zest_error *error) {
    zest_ids plain = {0}, dressed = {0};
    if (options && options->start_given) {
        if (options->start >= 0) zest_ids_add(&maker->before, options->start);
        return maker->before.failed ? zest_error_memory(error, "a token", 4) : ZEST_OK;
    }
    zest_status status = zest_tokenizer_encode(maker->tokenizer, "a", 1, 0, &plain, error);
    if (!status)
        status = zest_tokenizer_encode(maker->tokenizer, "a", 1, ZEST_ENCODE_TEMPLATE, &dressed, error);
    size_t at = 0;
    while (!status && at + plain.count < dressed.count &&
           memcmp(dressed.data + at, plain.data, plain.count * sizeof *plain.data) != 0)
        at++;
    if (!status && at) zest_ids_add_all(&maker->before, dressed.data, at);
    if (maker->before.failed) status = zest_error_memory(error, "the start token", at * sizeof(int32_t));
    zest_ids_free(&plain);
    zest_ids_free(&dressed);
    return status;
}

/* ---- Label words ---- */

static zest_status refuse_word(const zest_examples_maker *maker, size_t class, const zest_ids *ids,
                               zest_error *error) {
    zest_buffer tokens = {0};
    for (size_t i = 0; i < ids->count; i++) {
        const char *token = zest_tokenizer_token(maker->tokenizer, ids->data[i], NULL);
        zest_buffer_format(&tokens, "%s'%s'", i ? ", " : "", token ? token : "?");
    }
    zest_status status = zest_error_set(
        error, ZEST_ERROR_ARGUMENT,
        "%s: the label word '%s' of class '%s' is %zu tokens of this tokenizer (%s), but one stands at the "
        "mask; choose another word",
        source_of(maker->task), maker->words[class], maker->task->classes[class].label, ids->count,
        tokens.data && !tokens.failed ? tokens.data : "");
    zest_buffer_free(&tokens);
    return status;
}

static zest_status find_words(const zest_examples_maker *maker, zest_examples *examples, zest_error *error) {
    zest_status status = ZEST_OK;
    zest_ids ids = {0};
    zest_buffer word = {0};
    examples->word_count = maker->task->class_count;
    for (size_t i = 0; i < examples->word_count && !status; i++) {
        ids.count = word.size = 0;
        zest_buffer_format(&word, " %s", maker->words[i]);
        status = word.failed ? zest_error_memory(error, "a label word", 64)
                             : zest_tokenizer_encode(maker->tokenizer, word.data, word.size,
                                                     ZEST_ENCODE_LITERAL, &ids, error);
        if (!status && ids.count != 1) status = refuse_word(maker, i, &ids, error);
        if (!status && ids.data[0] == zest_tokenizer_special(maker->tokenizer, ZEST_TOKEN_UNK))
            status =
                zest_error_set(error, ZEST_ERROR_ARGUMENT,
                               "%s: the label word '%s' of class '%s' is not in the tokenizer's vocabulary; "
                               "choose another word",
                               source_of(maker->task), maker->words[i], maker->task->classes[i].label);
        for (size_t j = 0; j < i && !status; j++)
            if (examples->words[j] == (uint32_t)ids.data[0])
                status = zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                        "%s: classes '%s' and '%s' have the same label word '%s'; choose "
                                        "another word for one of them",
                                        source_of(maker->task), maker->task->classes[j].label,
                                        maker->task->classes[i].label, maker->words[i]);
        if (!status) examples->words[i] = (uint32_t)ids.data[0];
    }
    zest_ids_free(&ids);
    zest_buffer_free(&word);
    return status;
}

/* ---- Rows ---- */

static zest_status make_one(const zest_examples_maker *maker, size_t index, zest_examples_scratch *scratch,
                            zest_examples_made *made, zest_error *error) {
    zest_status status = zest_examples_find_answer(maker, index, scratch, made, error);
    if (status) return status;
    size_t row = maker->split->rows[index];
    return maker->masked ? zest_examples_encode_masked(maker, row, scratch, made, error)
                         : zest_examples_encode_causal(maker, row, scratch, made, error);
}

static void free_scratch(zest_examples_scratch *s) {
    zest_template_parts_free(&s->parts);
    free(s->lengths);
    zest_ids_free(&s->ids);
    zest_ids_free(&s->prompt_ids);
    zest_buffer_free(&s->text);
    free(s->options);
}

/* One thread does 20 million tokens a second: more of them would gain nothing that is felt. */
static zest_status make_all(const zest_examples_maker *maker, zest_examples_made *made, zest_error *error) {
    zest_examples_scratch scratch = {0};
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < maker->split->count && !status; i++)
        status = make_one(maker, i, &scratch, &made[i], error);
    free_scratch(&scratch);
    return status;
}

/* ---- Putting together ---- */

static zest_status make_room(const zest_examples_maker *maker, const zest_examples_made *made,
                             zest_examples *e, zest_error *error) {
    size_t texts = 0, count = e->count;
    zest_task_kind kind = maker->task->kind;
    for (size_t i = 0; i < count; i++) {
        e->token_count += made[i].tokens.count;
        texts += made[i].count;
    }
    if (e->token_count > UINT32_MAX)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "%zu tokens are too many for one set of examples; use a smaller split",
                              e->token_count);
    e->tokens = malloc((e->token_count + 1) * sizeof *e->tokens);
    e->texts = malloc((texts + 1) * sizeof *e->texts);
    e->text_starts = calloc(count + 1, sizeof *e->text_starts);
    e->answers = malloc((count + 1) * sizeof *e->answers);
    e->row = malloc((count + 1) * sizeof *e->row);
    e->truncated = malloc(count + 1);
    if (kind == ZEST_TASK_TEXT) e->gold = calloc(count + 1, sizeof *e->gold);
    if (kind == ZEST_TASK_TEXT) e->prompts = calloc(count + 1, sizeof *e->prompts);
    if (kind == ZEST_TASK_CHOICE) e->right = calloc(count + 1, sizeof *e->right);
    if (!e->tokens || !e->texts || !e->text_starts || !e->answers || !e->row || !e->truncated ||
        (kind == ZEST_TASK_TEXT && (!e->gold || !e->prompts)) || (kind == ZEST_TASK_CHOICE && !e->right))
        return zest_error_memory(error, "examples", e->token_count * sizeof *e->tokens);
    return ZEST_OK;
}

static zest_status check_token(const zest_examples_maker *maker, int32_t token, zest_error *error) {
    if (token >= 0 && (size_t)token < maker->model->vocab_size) return ZEST_OK;
    return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                          "%s: the tokenizer gives token %d, but the model knows %zu; do the two belong "
                          "together?",
                          source_of(maker->task), (int)token, maker->model->vocab_size);
}

static zest_status put_together(const zest_examples_maker *maker, zest_examples_made *made, zest_examples *e,
                                zest_error *error) {
    zest_status status = make_room(maker, made, e, error);
    uint32_t first = 0, text = 0;
    for (size_t i = 0; i < e->count && !status; i++) {
        zest_examples_made *one = &made[i];
        for (size_t t = 0; t < one->tokens.count && !status; t++) {
            status = check_token(maker, one->tokens.data[t], error);
            e->tokens[first + t] = (uint32_t)one->tokens.data[t];
        }
        for (size_t t = 0; t < one->count; t++) {
            e->texts[text] = one->texts[t];
            e->texts[text++].first += first;
        }
        e->text_starts[i + 1] = text;
        e->answers[i] = one->answer;
        e->row[i] = maker->split->rows[i];
        e->cut += one->cut;
        e->truncated[i] = one->cut > 0;
        if (e->prompts) e->prompts[i] = one->prompt, e->prompts[i].first += first;
        if (e->gold) e->gold[i] = one->gold, one->gold = NULL;
        if (e->right) e->right[i] = one->right, one->right = NULL;
        first += (uint32_t)one->tokens.count;
    }
    for (size_t i = 0; i < e->word_count && !status; i++)
        status = check_token(maker, (int32_t)e->words[i], error);
    return status;
}

static zest_status prepare(zest_examples_maker *maker, const zest_examples_options *options,
                           zest_examples *examples, zest_error *error) {
    zest_status status = choose_template(maker, error);
    if (!status) status = zest_examples_find_fields(maker, error);
    if (status) return status;
    choose_words(maker);
    choose_limit(maker);
    examples->kind = maker->task->kind;
    examples->masked = maker->masked;
    examples->as_text = maker->task->kind == ZEST_TASK_TEXT ||
                        (maker->task->kind == ZEST_TASK_CHOICE && maker->task->train_as_text);
    examples->max_tokens = maker->max_tokens;
    examples->count = maker->split->count;
    if (!maker->masked) return choose_start(maker, options, error);
    status = choose_special(maker, error);
    return status ? status : find_words(maker, examples, error);
}

zest_status zest_examples_make_with(const zest_task *task, const zest_rows *rows, const zest_split *split,
                                    const zest_tokenizer *tokenizer, const zest_model_config *model,
                                    const zest_examples_options *options, zest_examples *examples,
                                    zest_error *error) {
    zest_examples_maker maker = {.task = task,
                                 .rows = rows,
                                 .split = split,
                                 .tokenizer = tokenizer,
                                 .model = model,
                                 .masked = !model->causal,
                                 .unlabelled = options && options->unlabelled};
    *examples = (zest_examples){0};
    zest_examples_made *made = calloc(split->count + 1, sizeof *made);
    zest_status status = made ? prepare(&maker, options, examples, error)
                              : zest_error_memory(error, "examples", split->count * sizeof *made);
    if (!status) status = make_all(&maker, made, error);
    if (!status) status = put_together(&maker, made, examples, error);
    for (size_t i = 0; made && i < split->count; i++) {
        zest_ids_free(&made[i].tokens);
        free(made[i].texts);
        free(made[i].right);
        free(made[i].gold);
    }
    free(made);
    zest_template_free(maker.prompt);
    zest_template_free(maker.form);
    zest_ids_free(&maker.before);
    if (status) zest_examples_free(examples);
    return status;
}

zest_status zest_examples_make(const zest_task *task, const zest_rows *rows, const zest_split *split,
                               const zest_tokenizer *tokenizer, const zest_model_config *model,
                               zest_examples *examples, zest_error *error) {
    return zest_examples_make_with(task, rows, split, tokenizer, model, NULL, examples, error);
}

void zest_examples_free(zest_examples *e) {
    for (size_t i = 0; i < e->count && e->gold; i++) free(e->gold[i]);
    for (size_t i = 0; i < e->count && e->right; i++) free(e->right[i]);
    free(e->gold);
    free(e->right);
    free(e->prompts);
    free(e->tokens);
    free(e->texts);
    free(e->text_starts);
    free(e->answers);
    free(e->row);
    free(e->truncated);
    *e = (zest_examples){0};
}

/* What is right in a row. */

/* ---- Fields ---- */

static zest_status find_field(const zest_examples_maker *maker, const char *name, const char *what,
                              int *field, zest_error *error) {
    const zest_task *task = maker->task;
    *field = zest_rows_field(maker->rows, name);
    if (*field >= 0) return ZEST_OK;
    zest_buffer has = {0};
    for (size_t f = 0; f < maker->rows->name_count; f++)
        zest_buffer_format(&has, "%s%s", f ? ", " : "", maker->rows->names[f]);
    zest_error_set(error, ZEST_ERROR_ARGUMENT, "%s: %s has no field '%s' for the %s; it has %s",
                   task->path ? task->path : task->name, maker->rows->path ? maker->rows->path : "the data",
                   name, what, has.data && !has.failed ? has.data : "none");
    zest_buffer_free(&has);
    return ZEST_ERROR_ARGUMENT;
}

zest_status zest_examples_find_fields(zest_examples_maker *maker, zest_error *error) {
    const zest_task *task = maker->task;
    maker->label = -1;
    if (task->kind == ZEST_TASK_CLASSES) return ZEST_OK;
    zest_status status =
        find_field(maker, task->label ? task->label : "label", "label", &maker->label, error);
    if (status && maker->unlabelled) status = ZEST_OK;
    if (status || task->kind != ZEST_TASK_CHOICE) return status;
    const char *at = task->options ? task->options : "options";
    while (!status) {
        at += strspn(at, " ");
        size_t size = strcspn(at, " ");
        char name[256];
        if (!size) break;
        if (size >= sizeof name || maker->option_field_count == ZEST_EXAMPLES_OPTION_FIELDS)
            return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                  "%s: at most %d fields of options, with names below 256 bytes; put them "
                                  "into one field with several texts",
                                  task->name, ZEST_EXAMPLES_OPTION_FIELDS);
        memcpy(name, at, size);
        name[size] = 0;
        at += size;
        status =
            find_field(maker, name, "options", &maker->option_fields[maker->option_field_count++], error);
    }
    return status;
}

/* ---- Options ---- */

static zest_status collect_options(const zest_examples_maker *maker, size_t row, zest_examples_scratch *s,
                                   zest_error *error) {
    s->option_count = 0;
    for (size_t f = 0; f < maker->option_field_count; f++) {
        size_t count;
        const char *const *texts = zest_rows_get(maker->rows, row, maker->option_fields[f], &count);
        if (s->option_count + count > s->option_room) {
            size_t room = 2 * (s->option_count + count);
            const char **more = realloc(s->options, room * sizeof *more);
            if (!more) return zest_error_memory(error, "options", room * sizeof *more);
            s->options = more;
            s->option_room = room;
        }
        for (size_t i = 0; i < count; i++) s->options[s->option_count++] = texts[i];
    }
    if (s->option_count < 1)
        return zest_examples_refuse(maker, row, error,
                                    "the row has no options; look at its field '%s', or take the row out",
                                    maker->task->options ? maker->task->options : "options");
    return ZEST_OK;
}

/* A whole number below `count`, or count. */
static size_t as_number(const char *text, size_t count) {
    size_t value = 0, digits = strspn(text, "0123456789");
    if (!digits || digits > 9 || text[digits]) return count;
    for (size_t i = 0; i < digits; i++) value = 10 * value + (size_t)(text[i] - '0');
    return value < count ? value : count;
}

/* The option that a label means. */
static zest_status option_of(const zest_examples_maker *maker, size_t row, const char *label,
                             const zest_examples_scratch *s, uint32_t *out, zest_error *error) {
    size_t number = as_number(label, s->option_count), text = 0;
    while (text < s->option_count && strcmp(s->options[text], label) != 0) text++;
    if (text == s->option_count && number == s->option_count)
        return zest_examples_refuse(maker, row, error,
                                    "the label '%.80s' is neither the text of one of the row's %zu options "
                                    "nor a number from 0 to %zu; correct it or take the row out",
                                    label, s->option_count, s->option_count - 1);
    if (text < s->option_count && number < s->option_count && text != number)
        return zest_examples_refuse(maker, row, error,
                                    "the label '%s' is the text of option %zu and the number of option %zu; "
                                    "write the options differently, for example in words",
                                    label, text, number);
    *out = (uint32_t)(text < s->option_count ? text : number);
    return ZEST_OK;
}

static zest_status find_right(const zest_examples_maker *maker, size_t row, zest_examples_scratch *s,
                              zest_examples_made *made, zest_error *error) {
    size_t count = 0;
    const char *const *labels =
        maker->label >= 0 ? zest_rows_get(maker->rows, row, maker->label, &count) : NULL;
    if (!count && !maker->unlabelled)
        return zest_examples_refuse(maker, row, error, "the row has no label; give it one or take it out");
    made->right = calloc(count + 1, sizeof *made->right);
    if (!made->right) return zest_error_memory(error, "labels", count * sizeof *made->right);
    made->right[0] = (uint32_t)count;
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < count && !status; i++)
        status = option_of(maker, row, labels[i], s, &made->right[i + 1], error);
    if (status && status != ZEST_ERROR_MEMORY && maker->unlabelled) {
        made->right[0] = 0; /* none is known to be right */
        status = ZEST_OK;
    }
    made->answer = made->right[0] ? made->right[1] : 0;
    return status;
}

/* ---- Texts ---- */

/* The right texts in one block of memory: pointers, then characters. */
static zest_status copy_gold(const zest_examples_maker *maker, size_t row, zest_examples_made *made,
                             zest_error *error) {
    static const char *const nothing[] = {""};
    size_t count = 0, bytes = 0;
    const char *const *texts =
        maker->label >= 0 ? zest_rows_get(maker->rows, row, maker->label, &count) : NULL;
    if (!count && !maker->unlabelled)
        return zest_examples_refuse(maker, row, error, "the row has no answer; give it one or take it out");
    if (!count) texts = nothing, count = 1;
    for (size_t i = 0; i < count; i++) bytes += strlen(texts[i]) + 1;
    made->gold = malloc((count + 1) * sizeof *made->gold + bytes);
    if (!made->gold) return zest_error_memory(error, "answers", bytes);
    char *at = (char *)(made->gold + count + 1);
    for (size_t i = 0; i < count; i++) {
        made->gold[i] = at;
        at = stpcpy(at, texts[i]) + 1;
    }
    made->gold[count] = NULL;
    return ZEST_OK;
}

zest_status zest_examples_find_answer(const zest_examples_maker *maker, size_t index,
                                      zest_examples_scratch *s, zest_examples_made *made, zest_error *error) {
    size_t row = maker->split->rows[index];
    if (row >= maker->rows->count)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "the split asks for row %zu of %zu", row,
                              maker->rows->count);
    if (maker->task->kind == ZEST_TASK_TEXT) return copy_gold(maker, row, made, error);
    if (maker->task->kind == ZEST_TASK_CHOICE) {
        zest_status status = collect_options(maker, row, s, error);
        return status ? status : find_right(maker, row, s, made, error);
    }
    if (!maker->split->answers)
        return zest_task_class_of(maker->task, maker->rows, row, &made->answer, error);
    made->answer = maker->split->answers[index];
    if (made->answer >= maker->task->class_count)
        return zest_examples_refuse(maker, row, error, "class %u is beyond the task's %zu", made->answer,
                                    maker->task->class_count);
    return ZEST_OK;
}
