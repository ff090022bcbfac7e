/* The SuperGLUE files that need more than their keys: ReCoRD, MultiRC and WSC, each JSONL. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/rows_internal.h"
#include "text/unicode.h"

static const json_t *at_path(const json_t *object, const char *first, const char *second) {
    return json_object_get(json_object_get(object, first), second);
}

static zest_status need_list(zest_rows_builder *b, const json_t *object, const char *key, size_t line,
                             const json_t **list) {
    *list = json_object_get(object, key);
    if (json_is_array(*list)) return ZEST_OK;
    return zest_rows_refuse(b, line, "needs the list \"%s\"", key);
}

/* ---- ReCoRD ----
 * A row for each query. entities: the unique strings that passage.entities marks, in order of their code
 * points; answers: likewise. options: the query with each entity at its "@placeholder"; label: the numbers of
 * the options that are right, in the order of the answers. The passage has its "@highlight\n" turned into
 * "- ". All as MeZO has it by way of Hugging Face's reader. */

/* Strings, sorted and without repeats. */
typedef struct {
    const char **texts; /* owned */
    size_t count;
} set;

static int compare_texts(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* UTF-8 sorts by bytes as by code points. */
static void sort_set(set *s) {
    size_t kept = 0;
    if (s->count) qsort(s->texts, s->count, sizeof *s->texts, compare_texts);
    for (size_t i = 0; i < s->count; i++) {
        if (kept && !strcmp(s->texts[i], s->texts[kept - 1]))
            free((void *)(uintptr_t)s->texts[i]);
        else
            s->texts[kept++] = s->texts[i];
    }
    s->count = kept;
}

static void free_set(set *s) {
    for (size_t i = 0; i < s->count; i++) free((void *)(uintptr_t)s->texts[i]);
    free(s->texts);
    *s = (set){0};
}

static int start_set(zest_rows_builder *b, set *s, size_t room) {
    *s = (set){.texts = calloc(room + 1, sizeof *s->texts)};
    if (!s->texts) b->failed = 1;
    return s->texts != NULL;
}

static void add_to_set(zest_rows_builder *b, set *s, const char *text, size_t size) {
    char *copy = strndup(text, size);
    if (copy)
        s->texts[s->count++] = copy;
    else
        b->failed = 1;
}

/* Where each character begins, and where the last ends; NULL: no memory. */
static size_t *character_starts(const char *text, size_t size, size_t *count) {
    size_t *starts = malloc((size + 1) * sizeof *starts), at = 0;
    uint32_t code;
    *count = 0;
    if (!starts) return NULL;
    for (; at < size; at += zest_unicode_read(text + at, &code)) starts[(*count)++] = at;
    starts[*count] = size;
    return starts;
}

static zest_status cut_entities(zest_rows_builder *b, const json_t *text, const json_t *marks, size_t line,
                                set *entities) {
    const char *bytes = json_string_value(text);
    size_t characters, *starts = character_starts(bytes, json_string_length(text), &characters);
    if (!starts) return zest_error_memory(b->error, b->path, json_string_length(text) * sizeof *starts);
    zest_status status = ZEST_OK;
    if (!start_set(b, entities, json_array_size(marks))) status = zest_error_memory(b->error, b->path, 1);
    for (size_t i = 0; i < json_array_size(marks) && !status; i++) {
        const json_t *mark = json_array_get(marks, i), *start = json_object_get(mark, "start"),
                     *end = json_object_get(mark, "end");
        json_int_t from = json_integer_value(start), to = json_integer_value(end);
        if (!json_is_integer(start) || !json_is_integer(end) || from < 0 || to < from ||
            to >= (json_int_t)characters)
            status = zest_rows_refuse(b, line,
                                      "entity %zu is marked from %lld to %lld, but the passage has the "
                                      "characters 0 to %zu",
                                      i + 1, (long long)from, (long long)to, characters ? characters - 1 : 0);
        else
            add_to_set(b, entities, bytes + starts[from], starts[to + 1] - starts[from]);
    }
    free(starts);
    sort_set(entities);
    return status;
}

static void replace_all(zest_buffer *out, const char *text, const char *old, const char *new) {
    size_t size = strlen(old);
    for (const char *found; (found = strstr(text, old)); text = found + size) {
        zest_buffer_add(out, text, (size_t)(found - text));
        zest_buffer_text(out, new);
    }
    zest_buffer_text(out, text);
}

static size_t keep_replaced(zest_rows_builder *b, const char *text, const char *old, const char *new) {
    zest_buffer out = {0};
    replace_all(&out, text, old, new);
    if (out.failed) b->failed = 1;
    size_t offset = zest_rows_keep(b, out.data ? out.data : "", out.size);
    zest_buffer_free(&out);
    return offset;
}

static void add_set(zest_rows_builder *b, const set *s) {
    for (size_t i = 0; i < s->count; i++)
        zest_rows_add(b, zest_rows_keep(b, s->texts[i], strlen(s->texts[i])));
    zest_rows_end_field(b);
}

/* The numbers of the answers among the entities. */
static size_t add_right(zest_rows_builder *b, const set *entities, const set *answers) {
    size_t right = 0;
    char number[24];
    for (size_t i = 0; i < answers->count; i++) {
        const char **found =
            bsearch(&answers->texts[i], entities->texts, entities->count, sizeof *found, compare_texts);
        if (!found) continue;
        int used = snprintf(number, sizeof number, "%zu", (size_t)(found - entities->texts));
        zest_rows_add(b, zest_rows_keep(b, number, (size_t)used));
        right++;
    }
    zest_rows_end_field(b);
    return right;
}

static zest_status take_answers(zest_rows_builder *b, const json_t *list, size_t line, set *answers) {
    zest_status status = ZEST_OK;
    if (!start_set(b, answers, json_array_size(list))) return zest_error_memory(b->error, b->path, 1);
    for (size_t i = 0; i < json_array_size(list) && !status; i++) {
        const json_t *text;
        status = zest_rows_member(b, json_array_get(list, i), "text", line, &text);
        if (!status) add_to_set(b, answers, json_string_value(text), json_string_length(text));
    }
    sort_set(answers);
    return status;
}

static zest_status take_query(zest_rows_builder *b, const json_t *qa, size_t passage, const set *entities,
                              size_t line) {
    const json_t *query, *list;
    set answers = {0};
    zest_status status = zest_rows_member(b, qa, "query", line, &query);
    if (!status && !strstr(json_string_value(query), "@placeholder"))
        status = zest_rows_refuse(b, line, "the query has no @placeholder");
    if (!status) status = need_list(b, qa, "answers", line, &list);
    if (!status) status = take_answers(b, list, line, &answers);
    if (!status) {
        zest_rows_begin(b, line);
        zest_rows_add_field(b, passage);
        zest_rows_add_field(b, zest_rows_keep_string(b, query));
        add_set(b, entities);
        add_set(b, &answers);
        for (size_t i = 0; i < entities->count; i++)
            zest_rows_add(b, keep_replaced(b, json_string_value(query), "@placeholder", entities->texts[i]));
        zest_rows_end_field(b);
        if (!add_right(b, entities, &answers))
            status = zest_rows_refuse(b, line, "no answer to the query is among the passage's entities");
    }
    free_set(&answers);
    return status;
}

static zest_status take_record(zest_rows_builder *b, const json_t *object, size_t line) {
    const json_t *passage = json_object_get(object, "passage"), *text, *marks, *queries;
    set entities = {0};
    zest_status status = zest_rows_member(b, passage, "text", line, &text);
    if (!status) status = need_list(b, passage, "entities", line, &marks);
    if (!status) status = need_list(b, object, "qas", line, &queries);
    if (!status) status = cut_entities(b, text, marks, line, &entities);
    if (!status) {
        size_t kept = keep_replaced(b, json_string_value(text), "@highlight\n", "- ");
        for (size_t i = 0; i < json_array_size(queries) && !status; i++)
            status = take_query(b, json_array_get(queries, i), kept, &entities, line);
    }
    free_set(&entities);
    return status;
}

zest_status zest_rows_record(zest_rows_builder *b) {
    static const char *const names[] = {"passage", "query", "entities", "answers", "options", "label"};
    zest_rows_name(b, names, 6);
    return zest_rows_each_line(b, take_record);
}

/* ---- MultiRC ---- */

static zest_status take_question(zest_rows_builder *b, const json_t *question, size_t paragraph,
                                 size_t line) {
    const json_t *text, *answers;
    zest_status status = zest_rows_member(b, question, "question", line, &text);
    if (!status) status = need_list(b, question, "answers", line, &answers);
    if (status) return status;
    size_t asked = zest_rows_keep_string(b, text), label;
    for (size_t i = 0; i < json_array_size(answers) && !status; i++) {
        const json_t *answer = json_array_get(answers, i);
        status = zest_rows_member(b, answer, "text", line, &text);
        if (!status && !json_object_get(answer, "label"))
            status = zest_rows_refuse(b, line, "an answer has no \"label\" (test files have none)");
        if (status) break;
        if (!zest_rows_keep_json(b, json_object_get(answer, "label"), &label))
            return zest_rows_refuse(b, line, "the \"label\" of an answer must be 0 or 1");
        zest_rows_begin(b, line);
        zest_rows_add_field(b, paragraph);
        zest_rows_add_field(b, asked);
        zest_rows_add_field(b, zest_rows_keep_string(b, text));
        zest_rows_add_field(b, label);
    }
    return status;
}

static zest_status take_multirc(zest_rows_builder *b, const json_t *object, size_t line) {
    const json_t *passage = json_object_get(object, "passage"), *text, *questions;
    zest_status status = zest_rows_member(b, passage, "text", line, &text);
    if (!status) status = need_list(b, passage, "questions", line, &questions);
    if (status) return status;
    size_t paragraph = zest_rows_keep_string(b, text);
    for (size_t i = 0; i < json_array_size(questions) && !status; i++)
        status = take_question(b, json_array_get(questions, i), paragraph, line);
    return status;
}

zest_status zest_rows_multirc(zest_rows_builder *b) {
    /* "answer" is what a template calls the model's own answer, so the one to judge has another name */
    static const char *const names[] = {"paragraph", "question", "candidate", "label"};
    zest_rows_name(b, names, 4);
    return zest_rows_each_line(b, take_multirc);
}

/* ---- WSC ----
 * Some spans are not in their text letter by letter. As in "wsc.fixed", such a span takes the case of the
 * word at its index, loses dots at its end and has spaces for line breaks. */

/* The word with this number; NULL: there are not so many. */
static const char *word_at(const char *text, json_int_t index) {
    uint32_t code;
    int inside = 0;
    for (size_t length; *text; text += length) {
        length = zest_unicode_read(text, &code);
        int space = (zest_unicode_class(code) & ZEST_UNICODE_SPACE) != 0;
        if (!space && !inside && index-- == 0) return text;
        inside = !space;
    }
    return NULL;
}

static zest_status add_span(zest_rows_builder *b, const json_t *object, const json_t *text, int number,
                            size_t line) {
    char key[16], index_key[16];
    snprintf(key, sizeof key, "span%d_text", number);
    snprintf(index_key, sizeof index_key, "span%d_index", number);
    const json_t *target = json_object_get(object, "target"), *span;
    zest_status status = zest_rows_member(b, target, key, line, &span);
    if (status) return status;
    size_t offset = zest_rows_keep_string(b, span), size = json_string_length(span);
    zest_rows_add_field(b, offset);
    if (!size || strstr(json_string_value(text), json_string_value(span)) || b->memory.failed) return ZEST_OK;
    const json_t *index = at_path(object, "target", index_key);
    const char *word = json_is_integer(index) && json_integer_value(index) >= 0
                           ? word_at(json_string_value(text), json_integer_value(index))
                           : NULL;
    if (!word)
        return zest_rows_refuse(b, line, "\"%s\" is not in the text, and \"%s\" is no number of a word in it",
                                key, index_key);
    char *kept = b->memory.data + offset;
    int lower = *word >= 'a' && *word <= 'z';
    if (lower && *kept >= 'A' && *kept <= 'Z') *kept += 'a' - 'A';
    if (!lower && *kept >= 'a' && *kept <= 'z') *kept -= 'a' - 'A';
    while (size && kept[size - 1] == '.') kept[--size] = '\0';
    for (char *c = kept; (c = strchr(c, '\n'));) *c = ' ';
    return ZEST_OK;
}

static zest_status take_wsc(zest_rows_builder *b, const json_t *object, size_t line) {
    const json_t *text, *label = json_object_get(object, "label");
    size_t offset;
    zest_status status = zest_rows_member(b, object, "text", line, &text);
    if (!status && !label) status = zest_rows_refuse(b, line, "has no \"label\" (test files have none)");
    if (status) return status;
    zest_rows_begin(b, line);
    zest_rows_add_field(b, zest_rows_keep_string(b, text));
    status = add_span(b, object, text, 1, line);
    if (!status) status = add_span(b, object, text, 2, line);
    if (status) return status;
    if (!zest_rows_keep_json(b, label, &offset))
        return zest_rows_refuse(b, line, "the \"label\" must be true or false");
    zest_rows_add_field(b, offset);
    return ZEST_OK;
}

zest_status zest_rows_wsc(zest_rows_builder *b) {
    static const char *const names[] = {"text", "span1_text", "span2_text", "label"};
    zest_rows_name(b, names, 4);
    return zest_rows_each_line(b, take_wsc);
}
