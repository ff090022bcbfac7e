/* Examples: rows of a split encoded as tokens, with their answers. */
#include <stdlib.h>
#include <string.h>

#include "task/examples.h"

enum { ZEST_EXAMPLES_OPTION_FIELDS = 16 };

/* Shared by all rows. */
typedef struct {
    const zest_task *task;
    const zest_rows *rows;
    const zest_split *split;
    const zest_tokenizer *tokenizer;
    const zest_model_config *model;
    int masked;
    zest_template *prompt, *form; /* option_form: NULL: options are used unchanged */
    zest_chat_template *chat;     /* CHAT */
    const char *words[ZEST_TASK_MAX_CLASSES];
    zest_ids before;          /* causal: the start token */
    int32_t start, end, mask; /* masked; start and end -1: none */
    size_t limit;             /* maximum number of tokens of a text */
    size_t max_tokens;        /* TEXT */
    int label;                /* field, or -1 */
    int unlabelled;           /* zest_examples_options */
    int option_fields[ZEST_EXAMPLES_OPTION_FIELDS];
    size_t option_field_count;
} example_maker;

/* One encoded row. */
typedef struct {
    zest_ids tokens;
    zest_buffer learned; /* CHAT: a byte for every token */
    zest_example_text *texts;
    size_t count;
    zest_example_text prompt; /* TEXT */
    uint32_t answer, *right;
    char **gold;
    size_t cut;
} encoded_example;

/* Scratch memory, reused from row to row. */
typedef struct {
    zest_template_segments segments;
    size_t *lengths, *offsets; /* length and offset of the tokens of each segment; one allocation */
    size_t length_capacity;
    zest_ids ids, prompt_ids;
    zest_buffer text;
    const char **options;
    size_t option_count, option_capacity;
} encode_scratch;

/* Sets the error "FILE:LINE: ...". */
__attribute__((format(printf, 4, 5))) static zest_status
row_error(const example_maker *maker, size_t row, zest_error *error, const char *format, ...) {
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

/* ---- Checks of task, model and tokenizer ---- */

static zest_status choose_template(example_maker *maker, zest_error *error) {
    const zest_task *task = maker->task;
    const char *text = maker->masked ? task->masked : task->causal;
    if (maker->masked && task->kind != ZEST_TASK_CLASSES) text = NULL;
    if (!text)
        return zest_error_set(
            error, ZEST_ERROR_ARGUMENT, "%s: the task needs a %s model%s, and %s is a %s one",
            source_of(task), maker->masked ? "causal" : "masked",
            maker->masked ? " (OPT, GPT-2, Llama, Qwen2)" : " (RoBERTa, BERT)",
            maker->model->family ? maker->model->family : "this", maker->masked ? "masked" : "causal");
    if (task->kind == ZEST_TASK_CHAT) {
        maker->chat = zest_chat_template_new(maker->tokenizer, error);
        return maker->chat ? ZEST_OK : error->status;
    }
    zest_template_use use = maker->masked ? ZEST_TEMPLATE_MASKED : ZEST_TEMPLATE_CAUSAL;
    zest_status status = zest_template_parse(text, source_of(task), &maker->prompt, error);
    if (!status) status = zest_template_expect(maker->prompt, use, error);
    if (!status) status = zest_template_check(maker->prompt, maker->rows, error);
    if (status || task->kind != ZEST_TASK_CHOICE || !task->option_form) return status;
    status = zest_template_parse(task->option_form, source_of(task), &maker->form, error);
    if (!status) status = zest_template_expect(maker->form, ZEST_TEMPLATE_OPTION, error);
    return status ? status : zest_template_check(maker->form, maker->rows, error);
}

static void choose_words(example_maker *maker) {
    const zest_task *task = maker->task;
    size_t most = sizeof task->causal_classes / sizeof *task->causal_classes;
    for (size_t i = 0; i < task->class_count; i++) {
        maker->words[i] = task->classes[i].word;
        for (size_t j = 0; !maker->masked && j < most && task->causal_classes[j].label; j++)
            if (!strcmp(task->causal_classes[j].label, task->classes[i].label))
                maker->words[i] = task->causal_classes[j].word;
    }
}

/* The limit of the task, but at most the number of positions of the model. */
static void choose_limit(example_maker *maker) {
    const zest_task *task = maker->task;
    size_t max_length = maker->masked ? task->max_length : task->causal_length;
    maker->limit = maker->model->max_positions;
    if (max_length && max_length < maker->limit) maker->limit = max_length;
    if (maker->limit < 2) maker->limit = 2;
    if (task->kind != ZEST_TASK_TEXT) return;
    maker->max_tokens = task->max_tokens ? task->max_tokens : 50;
    if (maker->max_tokens > maker->limit / 2) maker->max_tokens = maker->limit / 2;
    maker->limit -= maker->max_tokens;
    if (maker->limit < 2) maker->limit = 2;
}

static zest_status choose_special(example_maker *maker, zest_error *error) {
    const zest_tokenizer *t = maker->tokenizer;
    maker->mask = zest_tokenizer_special(t, ZEST_TOKEN_MASK);
    maker->start = zest_tokenizer_special(t, ZEST_TOKEN_CLS);
    maker->end = zest_tokenizer_special(t, ZEST_TOKEN_SEP);
    if (maker->start < 0) maker->start = zest_tokenizer_special(t, ZEST_TOKEN_BOS);
    if (maker->end < 0) maker->end = zest_tokenizer_special(t, ZEST_TOKEN_EOS);
    if (maker->mask < 0)
        return zest_error_set(
            error, ZEST_ERROR_FORMAT,
            "%s: the tokenizer has no mask token; set mask_token in the tokenizer_config.json of the model",
            source_of(maker->task));
    return ZEST_OK;
}

/* The tokens that the tokenizer adds before a text. Those after it are omitted, since the text continues. */
static zest_status choose_start(example_maker *maker, const zest_examples_options *options,
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

static zest_status refuse_word(const example_maker *maker, size_t class, const zest_ids *ids,
                               zest_error *error) {
    zest_buffer tokens = {0};
    for (size_t i = 0; i < ids->count; i++) {
        const char *token = zest_tokenizer_token(maker->tokenizer, ids->data[i], NULL);
        zest_buffer_format(&tokens, "%s'%s'", i ? ", " : "", token ? token : "?");
    }
    zest_status status =
        zest_error_set(error, ZEST_ERROR_ARGUMENT,
                       "%s: the label word '%s' of class '%s' is %zu tokens of this tokenizer (%s), but the "
                       "mask is one token; choose another word",
                       source_of(maker->task), maker->words[class], maker->task->classes[class].label,
                       ids->count, tokens.data && !tokens.failed ? tokens.data : "");
    zest_buffer_free(&tokens);
    return status;
}

static zest_status find_words(const example_maker *maker, zest_examples *examples, zest_error *error) {
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

/* ---- Labels and answers ---- */

static zest_status find_field(const example_maker *maker, const char *name, const char *what, int *field,
                              zest_error *error) {
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

static zest_status find_fields(example_maker *maker, zest_error *error) {
    const zest_task *task = maker->task;
    maker->label = -1;
    if (task->kind == ZEST_TASK_CLASSES) return ZEST_OK;
    if (task->kind == ZEST_TASK_CHAT)
        return find_field(maker, "conversation", "messages", &maker->label, error);
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

static zest_status collect_options(const example_maker *maker, size_t row, encode_scratch *s,
                                   zest_error *error) {
    s->option_count = 0;
    for (size_t f = 0; f < maker->option_field_count; f++) {
        size_t count;
        const char *const *texts = zest_rows_get(maker->rows, row, maker->option_fields[f], &count);
        if (s->option_count + count > s->option_capacity) {
            size_t capacity = 2 * (s->option_count + count);
            const char **more = realloc(s->options, capacity * sizeof *more);
            if (!more) return zest_error_memory(error, "options", capacity * sizeof *more);
            s->options = more;
            s->option_capacity = capacity;
        }
        for (size_t i = 0; i < count; i++) s->options[s->option_count++] = texts[i];
    }
    if (s->option_count < 1)
        return row_error(maker, row, error, "the row has no options; fix its field '%s', or remove the row",
                         maker->task->options ? maker->task->options : "options");
    return ZEST_OK;
}

/* An integer below `count`, or count. */
static size_t as_number(const char *text, size_t count) {
    size_t value = 0, digits = strspn(text, "0123456789");
    if (!digits || digits > 9 || text[digits]) return count;
    for (size_t i = 0; i < digits; i++) value = 10 * value + (size_t)(text[i] - '0');
    return value < count ? value : count;
}

/* The option that a label refers to. */
static zest_status option_of(const example_maker *maker, size_t row, const char *label,
                             const encode_scratch *s, uint32_t *out, zest_error *error) {
    size_t number = as_number(label, s->option_count), text = 0;
    while (text < s->option_count && strcmp(s->options[text], label) != 0) text++;
    if (text == s->option_count && number == s->option_count)
        return row_error(maker, row, error,
                         "the label '%.80s' is neither the text of one of the row's %zu options "
                         "nor a number from 0 to %zu; correct it or remove the row",
                         label, s->option_count, s->option_count - 1);
    if (text < s->option_count && number < s->option_count && text != number)
        return row_error(maker, row, error,
                         "the label '%s' is the text of option %zu and the number of option %zu; "
                         "write the options differently, for example in words",
                         label, text, number);
    *out = (uint32_t)(text < s->option_count ? text : number);
    return ZEST_OK;
}

static zest_status find_right(const example_maker *maker, size_t row, encode_scratch *s,
                              encoded_example *encoded, zest_error *error) {
    size_t count = 0;
    const char *const *labels =
        maker->label >= 0 ? zest_rows_get(maker->rows, row, maker->label, &count) : NULL;
    if (!count && !maker->unlabelled)
        return row_error(maker, row, error, "the row has no label; add one or remove the row");
    encoded->right = calloc(count + 1, sizeof *encoded->right);
    if (!encoded->right) return zest_error_memory(error, "labels", count * sizeof *encoded->right);
    encoded->right[0] = (uint32_t)count;
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < count && !status; i++)
        status = option_of(maker, row, labels[i], s, &encoded->right[i + 1], error);
    if (status && status != ZEST_ERROR_MEMORY && maker->unlabelled) {
        encoded->right[0] = 0; /* no option is known to be right */
        status = ZEST_OK;
    }
    encoded->answer = encoded->right[0] ? encoded->right[1] : 0;
    return status;
}

/* ---- Answers in free text ---- */

/* The accepted texts in one allocation: pointers, then characters. */
static zest_status copy_gold(const example_maker *maker, size_t row, encoded_example *encoded,
                             zest_error *error) {
    static const char *const nothing[] = {""};
    size_t count = 0, bytes = 0;
    const char *const *texts =
        maker->label >= 0 ? zest_rows_get(maker->rows, row, maker->label, &count) : NULL;
    if (!count && !maker->unlabelled)
        return row_error(maker, row, error, "the row has no answer; add one or remove the row");
    if (!count) texts = nothing, count = 1;
    for (size_t i = 0; i < count; i++) bytes += strlen(texts[i]) + 1;
    encoded->gold = malloc((count + 1) * sizeof *encoded->gold + bytes);
    if (!encoded->gold) return zest_error_memory(error, "answers", bytes);
    char *at = (char *)(encoded->gold + count + 1);
    for (size_t i = 0; i < count; i++) {
        encoded->gold[i] = at;
        at = stpcpy(at, texts[i]) + 1;
    }
    encoded->gold[count] = NULL;
    return ZEST_OK;
}

static zest_status find_answer(const example_maker *maker, size_t index, encode_scratch *s,
                               encoded_example *encoded, zest_error *error) {
    size_t row = maker->split->rows[index];
    if (row >= maker->rows->count)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "the split has row index %zu, but there are %zu rows", row, maker->rows->count);
    if (maker->task->kind == ZEST_TASK_CHAT) return ZEST_OK;
    if (maker->task->kind == ZEST_TASK_TEXT) return copy_gold(maker, row, encoded, error);
    if (maker->task->kind == ZEST_TASK_CHOICE) {
        zest_status status = collect_options(maker, row, s, error);
        return status ? status : find_right(maker, row, s, encoded, error);
    }
    if (!maker->split->answers)
        return zest_task_class_of(maker->task, maker->rows, row, &encoded->answer, error);
    encoded->answer = maker->split->answers[index];
    if (encoded->answer >= maker->task->class_count)
        return row_error(maker, row, error, "class %u is out of range: the task has %zu", encoded->answer,
                         maker->task->class_count);
    return ZEST_OK;
}

static zest_status no_memory(zest_error *error, size_t tokens) {
    return zest_error_memory(error, "an example", tokens * sizeof(int32_t));
}

static int make_texts(encoded_example *encoded, size_t count) {
    encoded->texts = calloc(count + 1, sizeof *encoded->texts);
    return encoded->texts != NULL;
}

/* ---- Encoding for masked models ---- */

static zest_status encode_segments(const example_maker *maker, encode_scratch *s, zest_error *error) {
    const zest_template_segments *segments = &s->segments;
    if (s->length_capacity < segments->count) {
        size_t *more = realloc(s->lengths, 2 * segments->count * sizeof *more);
        if (!more) return no_memory(error, segments->count);
        s->lengths = more;
        s->offsets = more + segments->count;
        s->length_capacity = segments->count;
    }
    s->ids.count = 0;
    for (size_t i = 0; i < segments->count; i++) {
        const zest_template_segment *segment = &segments->segments[i];
        s->offsets[i] = s->ids.count;
        unsigned flags = segment->kind == ZEST_TEMPLATE_FIELD ? ZEST_ENCODE_LITERAL : 0;
        zest_status status = ZEST_OK;
        if (segment->kind == ZEST_TEMPLATE_MASK)
            zest_ids_add(&s->ids, maker->mask);
        else if (segment->size)
            status = zest_tokenizer_encode(maker->tokenizer, segments->text.data + segment->first,
                                           segment->size, flags, &s->ids, error);
        if (status) return status;
        s->lengths[i] = s->ids.count - s->offsets[i];
    }
    return s->ids.failed ? no_memory(error, s->ids.count) : ZEST_OK;
}

/* The segments of a text; their lengths are reduced by truncation. */
typedef struct {
    const zest_template_segment *segments;
    size_t *lengths;
    size_t count, mask; /* index of the mask */
} layout;

static void apply_limits(const zest_task *task, const layout *l) {
    for (size_t i = 0; i < l->count; i++) {
        size_t limit = l->segments[i].other ? task->other_limit : task->first_limit;
        if (l->segments[i].kind == ZEST_TEMPLATE_FIELD && limit && l->lengths[i] > limit)
            l->lengths[i] = limit;
    }
}

/* The longest field before the mask; the first of equal ones. NULL: all are empty. */
static size_t *longest_field(const layout *l) {
    size_t *longest = NULL;
    for (size_t i = 0; i < l->mask; i++)
        if (l->segments[i].kind == ZEST_TEMPLATE_FIELD && l->lengths[i] > (longest ? *longest : 0))
            longest = &l->lengths[i];
    return longest;
}

/* Tokens to keep after the mask: the template's text up to the next field, or to the end token. */
static size_t tokens_after_mask(const example_maker *maker, const layout *l) {
    size_t after = 0;
    for (size_t i = l->mask + 1; i < l->count; i++) {
        if (l->segments[i].kind == ZEST_TEMPLATE_FIELD) return after;
        after += l->lengths[i];
    }
    return after + (maker->end >= 0);
}

/* Truncates the fields before the mask if the mask would not fit. 0: it still does not fit. */
static int fit_mask(const example_maker *maker, const layout *l) {
    size_t before = maker->start >= 0, after = tokens_after_mask(maker, l);
    for (size_t i = 0; i < l->mask; i++) before += l->lengths[i];
    if (before + 1 <= maker->limit) return 1;
    while (before + 1 + after > maker->limit) {
        size_t *longest = longest_field(l);
        if (!longest) break;
        --*longest;
        before--;
    }
    return before + 1 <= maker->limit;
}

static zest_status emit_masked(const example_maker *maker, const encode_scratch *s, size_t mask,
                               encoded_example *encoded, zest_error *error) {
    zest_ids *out = &encoded->tokens;
    if (!make_texts(encoded, 1)) return no_memory(error, 1);
    if (maker->start >= 0) zest_ids_add(out, maker->start);
    for (size_t i = 0; i < s->segments.count; i++) {
        if (i == mask) encoded->texts[0].target = (uint32_t)out->count;
        zest_ids_add_all(out, s->ids.data + s->offsets[i], s->lengths[i]);
    }
    if (maker->end >= 0) zest_ids_add(out, maker->end);
    if (out->failed) return no_memory(error, s->ids.count);
    if (out->count > maker->limit) out->count = maker->limit;
    encoded->texts[0].length = (uint32_t)out->count;
    encoded->count = 1;
    return ZEST_OK;
}

static zest_status encode_masked(const example_maker *maker, size_t row, encode_scratch *s,
                                 encoded_example *encoded, zest_error *error) {
    zest_status status = zest_template_render_segments(maker->prompt, maker->rows, row, &s->segments, error);
    if (!status) status = encode_segments(maker, s, error);
    if (status) return status;
    layout l = {s->segments.segments, s->lengths, s->segments.count, 0};
    while (l.segments[l.mask].kind != ZEST_TEMPLATE_MASK) l.mask++;
    apply_limits(maker->task, &l);
    if (!fit_mask(maker, &l))
        return row_error(
            maker, row, error,
            "the mask does not fit into %zu tokens; shorten the template or raise the task's max_length",
            maker->limit);
    status = emit_masked(maker, s, l.mask, encoded, error);
    encoded->cut = encoded->tokens.count < s->ids.count + (maker->start >= 0) + (maker->end >= 0);
    return status;
}

/* ---- Encoding for causal models ---- */

/* Start token and text. */
static zest_status encode_text(const example_maker *maker, const zest_buffer *text, zest_ids *ids,
                               zest_error *error) {
    ids->count = 0;
    zest_ids_add_all(ids, maker->before.data, maker->before.count);
    if (ids->failed) return no_memory(error, maker->before.count);
    return zest_tokenizer_encode(maker->tokenizer, text->data, text->size, 0, ids, error);
}

/* Keeps the start token and the last tokens. Returns the number of removed tokens. */
static size_t truncate_front(const example_maker *maker, zest_ids *ids) {
    if (ids->count <= maker->limit) return 0;
    size_t drop = ids->count - maker->limit, prefix = maker->before.count;
    memmove(ids->data + prefix, ids->data + prefix + drop, (ids->count - prefix - drop) * sizeof *ids->data);
    ids->count -= drop;
    return drop;
}

static size_t common_prefix(const zest_ids *a, const zest_ids *b) {
    size_t i = 0;
    while (i < a->count && i < b->count && a->data[i] == b->data[i]) i++;
    return i;
}

static zest_status append_text(encoded_example *encoded, const zest_ids *ids, size_t target,
                               zest_example_text *text, zest_error *error) {
    *text = (zest_example_text){(uint32_t)encoded->tokens.count, (uint32_t)ids->count, (uint32_t)target};
    zest_ids_add_all(&encoded->tokens, ids->data, ids->count);
    return encoded->tokens.failed ? no_memory(error, ids->count) : ZEST_OK;
}

static zest_status add_answer(const example_maker *maker, size_t row, const char *answer, encode_scratch *s,
                              encoded_example *encoded, zest_error *error) {
    s->text.size = 0;
    zest_status status = zest_template_render(maker->prompt, maker->rows, row, answer, &s->text, error);
    if (!status) status = encode_text(maker, &s->text, &s->ids, error);
    if (status) return status;
    if (s->ids.count < 2)
        return row_error(maker, row, error,
                         "the prompt is empty and the model has no start token, so nothing "
                         "predicts the answer '%.40s'; put text before {answer}",
                         answer);
    size_t target = common_prefix(&s->prompt_ids, &s->ids), min_target = maker->before.count;
    if (target > s->ids.count - 1) target = s->ids.count - 1;
    size_t dropped = truncate_front(maker, &s->ids);
    encoded->cut += dropped > 0;
    target = target > dropped ? target - dropped : 0;
    if (!min_target) min_target = 1;
    if (target < min_target) target = min_target;
    return append_text(encoded, &s->ids, target, &encoded->texts[encoded->count++], error);
}

/* The prompt for generation: the start of the full text unless that was truncated. */
static zest_status add_prompt(const example_maker *maker, encode_scratch *s, encoded_example *encoded,
                              zest_error *error) {
    encoded->cut += truncate_front(maker, &s->prompt_ids) > 0 && !encoded->cut;
    size_t count = s->prompt_ids.count;
    if (common_prefix(&s->prompt_ids, &encoded->tokens) < count)
        return append_text(encoded, &s->prompt_ids, count, &encoded->prompt, error);
    encoded->prompt = (zest_example_text){0, (uint32_t)count, (uint32_t)count};
    return ZEST_OK;
}

static zest_status add_gold(const example_maker *maker, size_t row, encode_scratch *s,
                            encoded_example *encoded, zest_error *error) {
    zest_buffer answer = {0};
    zest_buffer_text(&answer, encoded->gold[0]);
    zest_buffer_text(&answer, "\n");
    zest_status status = answer.failed ? no_memory(error, answer.size)
                                       : add_answer(maker, row, answer.data, s, encoded, error);
    zest_buffer_free(&answer);
    if (!status && !s->prompt_ids.count)
        status = row_error(maker, row, error,
                           "the prompt is empty and the model has no start token, so there is "
                           "nothing to continue; put text before {answer}");
    return status ? status : add_prompt(maker, s, encoded, error);
}

static zest_status add_option(const example_maker *maker, size_t row, const char *option, encode_scratch *s,
                              encoded_example *encoded, zest_error *error) {
    zest_buffer formed = {0};
    if (!maker->form) return add_answer(maker, row, option, s, encoded, error);
    zest_status status = zest_template_render_option(maker->form, maker->rows, row, option, &formed, error);
    if (!status) status = add_answer(maker, row, formed.data, s, encoded, error);
    zest_buffer_free(&formed);
    return status;
}

static zest_status encode_causal(const example_maker *maker, size_t row, encode_scratch *s,
                                 encoded_example *encoded, zest_error *error) {
    zest_task_kind kind = maker->task->kind;
    size_t count = kind == ZEST_TASK_CLASSES  ? maker->task->class_count
                   : kind == ZEST_TASK_CHOICE ? s->option_count
                                              : 1;
    if (!make_texts(encoded, count)) return no_memory(error, count);
    s->text.size = 0;
    zest_status status = zest_template_render(maker->prompt, maker->rows, row, NULL, &s->text, error);
    if (!status) status = encode_text(maker, &s->text, &s->prompt_ids, error);
    for (size_t i = 0; i < count && !status; i++) {
        if (kind == ZEST_TASK_CLASSES)
            status = add_answer(maker, row, maker->words[i], s, encoded, error);
        else if (kind == ZEST_TASK_CHOICE)
            status = add_option(maker, row, s->options[i], s, encoded, error);
        else
            status = add_gold(maker, row, s, encoded, error);
    }
    return status;
}

/* ---- Conversations ---- */

static zest_status encode_chat(const example_maker *maker, size_t row, encoded_example *encoded,
                               zest_error *error) {
    size_t count;
    const char *const *text = zest_rows_get(maker->rows, row, maker->label, &count);
    zest_error inner = {0};
    zest_encoded_chat chat = {0};
    zest_status status = zest_examples_encode_chat(maker->chat, maker->tokenizer, count ? text[0] : "{}",
                                                   maker->limit, &chat, &inner);
    encoded->tokens = chat.tokens;
    encoded->learned = chat.learned;
    encoded->texts = chat.texts;
    encoded->count = chat.count;
    encoded->cut = chat.cut;
    if (status == ZEST_ERROR_FORMAT) return row_error(maker, row, error, "%s", inner.message);
    return status ? zest_error_set(error, status, "%s", inner.message) : ZEST_OK;
}

/* ---- Encoding of rows ---- */

static zest_status make_one(const example_maker *maker, size_t index, encode_scratch *scratch,
                            encoded_example *encoded, zest_error *error) {
    zest_status status = find_answer(maker, index, scratch, encoded, error);
    if (status) return status;
    size_t row = maker->split->rows[index];
    if (maker->chat) return encode_chat(maker, row, encoded, error);
    return maker->masked ? encode_masked(maker, row, scratch, encoded, error)
                         : encode_causal(maker, row, scratch, encoded, error);
}

static void free_scratch(encode_scratch *s) {
    zest_template_segments_free(&s->segments);
    free(s->lengths);
    zest_ids_free(&s->ids);
    zest_ids_free(&s->prompt_ids);
    zest_buffer_free(&s->text);
    free(s->options);
}

/* One thread encodes 20 million tokens a second, so more threads would gain little. */
static zest_status make_all(const example_maker *maker, encoded_example *encoded, zest_error *error) {
    encode_scratch scratch = {0};
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < maker->split->count && !status; i++)
        status = make_one(maker, i, &scratch, &encoded[i], error);
    free_scratch(&scratch);
    return status;
}

/* ---- Joining the rows ---- */

static zest_status allocate(const example_maker *maker, const encoded_example *encoded, zest_examples *e,
                            zest_error *error) {
    size_t texts = 0, count = e->count;
    zest_task_kind kind = maker->task->kind;
    for (size_t i = 0; i < count; i++) {
        e->token_count += encoded[i].tokens.count;
        texts += encoded[i].count;
    }
    if (e->token_count > UINT32_MAX)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "%zu tokens are too many for a set of examples; use a smaller split",
                              e->token_count);
    e->tokens = malloc((e->token_count + 1) * sizeof *e->tokens);
    e->texts = malloc((texts + 1) * sizeof *e->texts);
    e->text_starts = calloc(count + 1, sizeof *e->text_starts);
    e->answers = malloc((count + 1) * sizeof *e->answers);
    e->row = malloc((count + 1) * sizeof *e->row);
    e->truncated = malloc(count + 1);
    if (kind == ZEST_TASK_CHAT) e->learned = malloc(e->token_count + 1);
    if (kind == ZEST_TASK_TEXT) e->gold = calloc(count + 1, sizeof *e->gold);
    if (kind == ZEST_TASK_TEXT) e->prompts = calloc(count + 1, sizeof *e->prompts);
    if (kind == ZEST_TASK_CHOICE) e->right = calloc(count + 1, sizeof *e->right);
    if (!e->tokens || !e->texts || !e->text_starts || !e->answers || !e->row || !e->truncated ||
        (kind == ZEST_TASK_CHAT && !e->learned) || (kind == ZEST_TASK_TEXT && (!e->gold || !e->prompts)) ||
        (kind == ZEST_TASK_CHOICE && !e->right))
        return zest_error_memory(error, "examples", e->token_count * sizeof *e->tokens);
    return ZEST_OK;
}

static zest_status check_token(const example_maker *maker, int32_t token, zest_error *error) {
    if (token >= 0 && (size_t)token < maker->model->vocab_size) return ZEST_OK;
    return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                          "%s: token %d of the tokenizer is outside the model's vocabulary of %zu; use the "
                          "model's own tokenizer",
                          source_of(maker->task), (int)token, maker->model->vocab_size);
}

static zest_status put_together(const example_maker *maker, encoded_example *encoded, zest_examples *e,
                                zest_error *error) {
    zest_status status = allocate(maker, encoded, e, error);
    uint32_t first = 0, text = 0;
    for (size_t i = 0; i < e->count && !status; i++) {
        encoded_example *one = &encoded[i];
        for (size_t t = 0; t < one->tokens.count && !status; t++) {
            status = check_token(maker, one->tokens.data[t], error);
            e->tokens[first + t] = (uint32_t)one->tokens.data[t];
        }
        if (e->learned && one->tokens.count) memcpy(e->learned + first, one->learned.data, one->tokens.count);
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

static zest_status prepare(example_maker *maker, const zest_examples_options *options,
                           zest_examples *examples, zest_error *error) {
    zest_status status = choose_template(maker, error);
    if (!status) status = find_fields(maker, error);
    if (status) return status;
    choose_words(maker);
    choose_limit(maker);
    examples->kind = maker->task->kind;
    examples->masked = maker->masked;
    examples->as_text = maker->task->kind == ZEST_TASK_TEXT || maker->task->kind == ZEST_TASK_CHAT ||
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
    example_maker maker = {.task = task,
                           .rows = rows,
                           .split = split,
                           .tokenizer = tokenizer,
                           .model = model,
                           .masked = !model->causal,
                           .unlabelled = options && options->unlabelled};
    *examples = (zest_examples){0};
    encoded_example *encoded = calloc(split->count + 1, sizeof *encoded);
    zest_status status = encoded ? prepare(&maker, options, examples, error)
                                 : zest_error_memory(error, "examples", split->count * sizeof *encoded);
    if (!status) status = make_all(&maker, encoded, error);
    if (!status) status = put_together(&maker, encoded, examples, error);
    for (size_t i = 0; encoded && i < split->count; i++) {
        zest_ids_free(&encoded[i].tokens);
        zest_buffer_free(&encoded[i].learned);
        free(encoded[i].texts);
        free(encoded[i].right);
        free(encoded[i].gold);
    }
    free(encoded);
    zest_template_free(maker.prompt);
    zest_template_free(maker.form);
    zest_chat_template_free(maker.chat);
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
    free(e->learned);
    free(e->tokens);
    free(e->texts);
    free(e->text_starts);
    free(e->answers);
    free(e->row);
    free(e->truncated);
    *e = (zest_examples){0};
}
