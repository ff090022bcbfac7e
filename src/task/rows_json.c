/* Readers of JSON data: JSONL, SQuAD, DROP, and the SuperGLUE files ReCoRD, MultiRC and WSC. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "chat/conversation.h"
#include "task/rows.h"
#include "tokenizer/unicode.h"

/* ---- Shared by the readers ---- */

/* Parses a line (or, as line 0, a whole file) that must be a JSON object. */
static zest_status load_object(zest_rows_builder *b, const char *text, size_t size, size_t line,
                               json_t **json) {
    json_error_t problem;
    *json = zest_json_load(text, size, ZEST_JSON_BIG_AS_TEXT, &problem);
    if (json_is_object(*json)) return ZEST_OK;
    size_t where = line ? line : problem.line > 0 ? (size_t)problem.line : 1;
    if (*json) {
        json_decref(*json);
        *json = NULL;
        return zest_rows_refuse(b, where, "is JSON, but not an object; each %s must be one: {\"text\": ...}",
                                line ? "line" : "file");
    }
    if (json_error_code(&problem) == json_error_out_of_memory)
        return zest_error_memory(b->error, b->path, size);
    if (json_error_code(&problem) == json_error_null_character ||
        json_error_code(&problem) == json_error_null_byte_in_key)
        return zest_rows_refuse(b, where, "has a zero byte in a text, which no text may have; take it out");
    return zest_rows_refuse(
        b, where, "is not a valid JSON object: %s (at column %d)%s", problem.text, problem.column,
        line ? "; JSONL has one complete object on each line" : "; download the file again");
}

static int is_blank(const char *text, size_t size) {
    while (size && (*text == ' ' || *text == '\t' || *text == '\r')) text++, size--;
    return !size;
}

/* Calls on_line for every line that is not blank. */
static zest_status each_line(zest_rows_builder *b, zest_rows_reader *on_line) {
    if (b->is_parquet) return zest_rows_each_parquet(b, on_line);
    const char *at = b->file.data + b->begin, *end = b->file.data + b->file.size;
    zest_status status = ZEST_OK;
    for (size_t line = 1; at < end && !status; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t size = (size_t)((stop ? stop : end) - at);
        json_t *json;
        if (!is_blank(at, size)) {
            status = load_object(b, at, size, line, &json);
            if (!status) status = on_line(b, json, line);
            if (!status) status = zest_rows_check(b);
            json_decref(json);
        }
        at = stop ? stop + 1 : end;
    }
    return status;
}

/* A member that must be a string. */
static zest_status get_member(zest_rows_builder *b, const json_t *object, const char *key, size_t line,
                              const json_t **text) {
    *text = json_object_get(object, key);
    if (json_is_string(*text)) return ZEST_OK;
    return zest_rows_refuse(b, line, "needs the text \"%s\"%s", key,
                            *text ? ", which here is of another kind" : ", which is not there");
}

static size_t store_string(zest_rows_builder *b, const json_t *string) {
    return zest_rows_store(b, json_string_value(string), json_string_length(string));
}

/* The shortest decimal that parses to the same number. */
static int print_real(double value, char *buffer, size_t size) {
    int used = 0;
    for (int digits = 15; digits <= 17; digits++) {
        used = zest_number_format(buffer, size, "%.*g", digits, value);
        if (zest_number_parse(buffer, NULL) == value) break;
    }
    return used;
}

/* Stores a string, or a number or boolean as text; 0: it is neither. null is the empty text. */
static int store_json(zest_rows_builder *b, const json_t *value, size_t *offset) {
    char buffer[64] = "";
    int used = 0;
    if (json_is_string(value)) return *offset = store_string(b, value), 1;
    if (json_is_boolean(value))
        used = snprintf(buffer, sizeof buffer, "%s", json_is_true(value) ? "true" : "false");
    else if (json_is_integer(value))
        used = snprintf(buffer, sizeof buffer, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        used = print_real(json_real_value(value), buffer, sizeof buffer);
    else if (!json_is_null(value))
        return 0;
    *offset = zest_rows_store(b, buffer, (size_t)used);
    return 1;
}

/* ---- JSONL: fields by path ---- */

/* Adds the texts at a path; 0: none, or a value that is not text. Lists are traversed, so that
 * answers.text finds the texts of [{"text": ...}, ...]. */
static int add_texts(zest_rows_builder *b, const json_t *value, const char *path) {
    size_t offset;
    if (json_is_array(value)) {
        for (size_t i = 0; i < json_array_size(value); i++)
            if (!add_texts(b, json_array_get(value, i), path)) return 0;
        return 1;
    }
    if (!*path) {
        if (!value || !store_json(b, value, &offset)) return 0;
        zest_rows_add(b, offset);
        return 1;
    }
    json_t *whole = json_object_get(value, path);
    if (whole) return add_texts(b, whole, "");
    const char *dot = strchr(path, '.');
    char key[256];
    if (!dot || (size_t)(dot - path) >= sizeof key) return 0;
    memcpy(key, path, (size_t)(dot - path));
    key[dot - path] = '\0';
    json_t *part = json_object_get(value, key);
    return part ? add_texts(b, part, dot + 1) : 0;
}

/* Whether a field can have this value. */
static int is_text(const json_t *value) {
    if (!json_is_array(value)) return !json_is_object(value);
    for (size_t i = 0; i < json_array_size(value); i++)
        if (json_is_array(json_array_get(value, i)) || json_is_object(json_array_get(value, i))) return 0;
    return 1;
}

/* Paths of all values in the first object, and of those in its objects, with a dot. Deeper values must be
 * named. */
static void find_names(const json_t *object, const char *before, zest_buffer *names) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        if (json_is_object(value) && !*before)
            find_names(value, key, names);
        else if (is_text(value) && *key && !strpbrk(key, " ,\t="))
            zest_buffer_format(names, "%s%s%s ", before, *before ? "." : "", key);
    }
}

/* The fields are known after the first object. */
static zest_status name_fields(zest_rows_builder *b, const json_t *object, size_t line) {
    zest_buffer names = {0};
    zest_rows_layout found = *b->layout;
    const zest_rows_layout *given = b->layout;
    zest_status status = ZEST_OK;
    if (!given->fields) {
        find_names(object, "", &names);
        if (names.failed) status = zest_error_memory(b->error, b->path, names.size);
        if (!status && !names.size) status = zest_rows_refuse(b, line, "has no text");
        found.fields = names.data;
        b->layout = &found;
    }
    if (!status) status = zest_rows_picks_parse(b, b->picks);
    if (!status) zest_rows_picks_name(b, b->picks);
    b->layout = given;
    zest_buffer_free(&names);
    return status;
}

static zest_status read_jsonl_line(zest_rows_builder *b, const json_t *object, size_t line) {
    zest_status status = b->rows->count ? ZEST_OK : name_fields(b, object, line);
    if (status) return status;
    const zest_rows_picks *picks = b->picks;
    zest_rows_begin(b, line);
    for (size_t i = 0; i < picks->count; i++) {
        int optional = b->layout->optional && !strcmp(picks->picks[i].name, b->layout->optional);
        if (!add_texts(b, object, picks->picks[i].from) && !optional)
            return zest_rows_refuse(b, line, "has no text \"%.60s\"%s", picks->picks[i].from,
                                    b->layout->fields ? "; is the name right, and in every row?"
                                                      : ", which the first row has; name the fields you "
                                                        "need (fields = text label)");
        zest_rows_end_field(b);
    }
    return ZEST_OK;
}

zest_status zest_rows_jsonl(zest_rows_builder *b) {
    zest_rows_picks picks = {0};
    b->picks = &picks;
    zest_status status = each_line(b, read_jsonl_line);
    zest_rows_picks_free(&picks);
    b->picks = NULL;
    return status;
}

/* ---- SQuAD v1.1 and DROP: one JSON object per file; rows are its questions in order ---- */

/* Messages give the number of the question, since jansson does not report its line. */
static zest_status refuse(zest_rows_builder *b, size_t question, const char *why) {
    return zest_error_set(b->error, ZEST_ERROR_FORMAT, "%s, question %zu: %s", b->path, question, why);
}

static zest_status load(zest_rows_builder *b, json_t **json) {
    return load_object(b, b->file.data + b->begin, b->file.size - b->begin, 0, json);
}

/* ---- SQuAD ---- */

typedef struct {
    size_t title, context, characters; /* offsets; length of the context in characters */
} squad_paragraph;

/* answer_start is only checked for plausibility, to detect damaged files. */
static zest_status check_answers(zest_rows_builder *b, const json_t *answers, const squad_paragraph *p,
                                 size_t number) {
    if (!json_array_size(answers))
        return refuse(b, number,
                      "has no answer; zest reads SQuAD v1.1, where every question has one (v2.0 leaves some "
                      "out)");
    for (size_t i = 0; i < json_array_size(answers); i++) {
        const json_t *answer = json_array_get(answers, i), *start = json_object_get(answer, "answer_start");
        json_int_t at = json_integer_value(start);
        if (!json_is_string(json_object_get(answer, "text")))
            return refuse(b, number, "an answer needs its \"text\"");
        if (start && (!json_is_integer(start) || at < 0 || at > (json_int_t)p->characters))
            return refuse(b, number, "\"answer_start\" of an answer is outside the context");
    }
    return ZEST_OK;
}

static zest_status read_squad_question(zest_rows_builder *b, const json_t *qa, const squad_paragraph *p,
                                       size_t number) {
    const json_t *question = json_object_get(qa, "question"), *answers = json_object_get(qa, "answers");
    if (!json_is_string(question)) return refuse(b, number, "needs the text \"question\"");
    zest_status status = check_answers(b, answers, p, number);
    if (status) return status;
    zest_rows_begin(b, number);
    zest_rows_add_field(b, p->title);
    zest_rows_add_field(b, p->context);
    zest_rows_add_field(b, store_string(b, question));
    for (size_t i = 0; i < json_array_size(answers); i++)
        zest_rows_add(b, store_string(b, json_object_get(json_array_get(answers, i), "text")));
    zest_rows_end_field(b);
    return ZEST_OK;
}

static size_t count_characters(const char *text) {
    size_t count = 0;
    for (; *text; text++) count += ((unsigned char)*text & 0xC0) != 0x80;
    return count;
}

static zest_status read_article(zest_rows_builder *b, const json_t *article) {
    const json_t *title = json_object_get(article, "title"),
                 *paragraphs = json_object_get(article, "paragraphs");
    if (!json_is_array(paragraphs))
        return refuse(b, b->rows->count + 1, "its article needs the list \"paragraphs\"");
    squad_paragraph p = {.title = json_is_string(title) ? store_string(b, title) : zest_rows_store(b, "", 0)};
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < json_array_size(paragraphs) && !status; i++) {
        const json_t *one = json_array_get(paragraphs, i), *context = json_object_get(one, "context"),
                     *questions = json_object_get(one, "qas");
        if (!json_is_string(context) || !json_is_array(questions))
            return refuse(b, b->rows->count + 1,
                          "its paragraph needs the text \"context\" and the list \"qas\"");
        p.context = store_string(b, context);
        p.characters = count_characters(json_string_value(context));
        for (size_t j = 0; j < json_array_size(questions) && !status; j++)
            status = read_squad_question(b, json_array_get(questions, j), &p, b->rows->count + 1);
    }
    return status;
}

zest_status zest_rows_squad(zest_rows_builder *b) {
    static const char *const names[] = {"title", "context", "question", "answers"};
    json_t *json;
    zest_rows_name(b, names, 4);
    zest_status status = load(b, &json);
    if (status) return status;
    const json_t *data = json_object_get(json, "data");
    if (!json_is_array(data))
        status = zest_error_set(b->error, ZEST_ERROR_FORMAT,
                                "%s: is not a SQuAD file: it has no list \"data\"", b->path);
    for (size_t i = 0; i < json_array_size(data) && !status; i++)
        status = read_article(b, json_array_get(data, i));
    json_decref(json);
    return status;
}

/* ---- DROP ----
 *
 * An answer is a number, a date or spans. The accepted texts of a question are those of its answers:
 * the number, or the date as "day month year", or each span. A question with none, or with an answer of
 * two kinds, is skipped, as in Hugging Face's reader. */

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* The parts of a date, joined by spaces. */
static size_t store_date(zest_rows_builder *b, const json_t *date) {
    zest_buffer out = {0};
    zest_buffer_format(&out, "%s %s %s", text_of(date, "day"), text_of(date, "month"), text_of(date, "year"));
    if (out.failed) b->failed = 1;
    const char *from = out.data ? out.data + strspn(out.data, " ") : "";
    size_t size = strlen(from);
    while (size && from[size - 1] == ' ') size--;
    size_t offset = zest_rows_store(b, from, size);
    zest_buffer_free(&out);
    return offset;
}

static int has_number(const json_t *answer) {
    const json_t *number = json_object_get(answer, "number");
    return json_is_string(number) ? json_string_length(number) > 0 : json_is_number(number);
}

static int has_date(const json_t *answer) {
    const json_t *date = json_object_get(answer, "date");
    return *text_of(date, "day") || *text_of(date, "month") || *text_of(date, "year");
}

/* The number of kinds of an answer; 3: a part of it is not text. */
static int kinds(const json_t *answer) {
    const json_t *spans = json_object_get(answer, "spans");
    for (size_t i = 0; i < json_array_size(spans); i++)
        if (!json_is_string(json_array_get(spans, i))) return 3;
    return has_number(answer) + has_date(answer) + (json_array_size(spans) > 0);
}

/* Adds the texts of an answer of one kind. */
static void add_answer(zest_rows_builder *b, const json_t *answer) {
    const json_t *spans = json_object_get(answer, "spans");
    size_t offset;
    if (has_number(answer) && store_json(b, json_object_get(answer, "number"), &offset))
        zest_rows_add(b, offset);
    if (has_date(answer)) zest_rows_add(b, store_date(b, json_object_get(answer, "date")));
    for (size_t i = 0; i < json_array_size(spans); i++)
        zest_rows_add(b, store_string(b, json_array_get(spans, i)));
}

static zest_status read_drop_question(zest_rows_builder *b, const json_t *qa, size_t passage, size_t number) {
    const json_t *question = json_object_get(qa, "question"), *first = json_object_get(qa, "answer"),
                 *list = json_object_get(qa, "validated_answers");
    int all = b->layout->all_answers, max_kinds = 0;
    if (!json_is_string(question)) return refuse(b, number, "needs the text \"question\"");
    if (all ? !json_is_array(list) : !json_is_object(first))
        return refuse(b, number,
                      all ? "needs the list \"validated_answers\"" : "needs the object \"answer\"");
    size_t count = all ? json_array_size(list) : 1;
    for (size_t i = 0; i < count; i++) {
        int here = kinds(all ? json_array_get(list, i) : first);
        max_kinds = here > max_kinds ? here : max_kinds;
    }
    if (max_kinds == 3) return refuse(b, number, "a span of its answer is not text");
    if (max_kinds != 1) return ZEST_OK; /* skipped */
    zest_rows_begin(b, number);
    zest_rows_add_field(b, passage);
    zest_rows_add_field(b, store_string(b, question));
    for (size_t i = 0; i < count; i++) add_answer(b, all ? json_array_get(list, i) : first);
    zest_rows_end_field(b);
    return ZEST_OK;
}

zest_status zest_rows_drop(zest_rows_builder *b) {
    static const char *const names[] = {"passage", "question", "answers"};
    json_t *json, *section;
    const char *key;
    size_t number = 0;
    zest_rows_name(b, names, 3);
    zest_status status = load(b, &json);
    if (status) return status;
    json_object_foreach(json, key, section) {
        const json_t *passage = json_object_get(section, "passage"),
                     *questions = json_object_get(section, "qa_pairs");
        if (!json_is_string(passage) || !json_is_array(questions)) {
            status =
                refuse(b, number + 1, "its section needs the text \"passage\" and the list \"qa_pairs\"");
            break;
        }
        size_t offset = store_string(b, passage);
        for (size_t i = 0; i < json_array_size(questions) && !status; i++)
            status = read_drop_question(b, json_array_get(questions, i), offset, ++number);
        if (status) break;
    }
    json_decref(json);
    return status;
}

/* ---- SuperGLUE: ReCoRD, MultiRC and WSC, each JSONL ---- */

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
 *
 * One row per query. entities: the unique strings that passage.entities marks, sorted by code
 * point; answers: likewise. options: the query with each entity in place of "@placeholder"; label: the
 * indices of the right options, in the order of the answers. "@highlight\n" in the passage becomes "- ". All as in MeZO, by way of Hugging Face's reader. */

/* Sorted unique strings. */
typedef struct {
    const char **texts; /* owned */
    size_t count;
} set;

static int compare_texts(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* UTF-8 has the same order by bytes as by code points. */
static void sort_set(set *s) {
    size_t unique = 0;
    if (s->count) qsort(s->texts, s->count, sizeof *s->texts, compare_texts);
    for (size_t i = 0; i < s->count; i++) {
        if (unique && !strcmp(s->texts[i], s->texts[unique - 1]))
            free((void *)(uintptr_t)s->texts[i]);
        else
            s->texts[unique++] = s->texts[i];
    }
    s->count = unique;
}

static void free_set(set *s) {
    for (size_t i = 0; i < s->count; i++) free((void *)(uintptr_t)s->texts[i]);
    free(s->texts);
    *s = (set){0};
}

static int start_set(zest_rows_builder *b, set *s, size_t buffer) {
    *s = (set){.texts = calloc(buffer + 1, sizeof *s->texts)};
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

/* The offset of each character, and the end of the last; NULL: out of memory. */
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
    size_t total = 0;
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
        else if (!zest_rows_fits(b, total += starts[to + 1] - starts[from]))
            status = zest_rows_check(b);
        else
            add_to_set(b, entities, bytes + starts[from], starts[to + 1] - starts[from]);
    }
    free(starts);
    sort_set(entities);
    return status;
}

static void replace_all(zest_rows_builder *b, zest_buffer *out, const char *text, const char *old,
                        const char *new) {
    size_t size = strlen(old);
    for (const char *found; (found = strstr(text, old)); text = found + size) {
        if (!zest_rows_fits(b, out->size)) return;
        zest_buffer_add(out, text, (size_t)(found - text));
        zest_buffer_text(out, new);
    }
    zest_buffer_text(out, text);
}

static size_t store_replaced(zest_rows_builder *b, const char *text, const char *old, const char *new) {
    zest_buffer out = {0};
    replace_all(b, &out, text, old, new);
    if (out.failed) b->failed = 1;
    size_t offset = zest_rows_store(b, out.data ? out.data : "", out.size);
    zest_buffer_free(&out);
    return offset;
}

static void add_set(zest_rows_builder *b, const set *s) {
    for (size_t i = 0; i < s->count && !b->failed; i++)
        zest_rows_add(b, zest_rows_store(b, s->texts[i], strlen(s->texts[i])));
    zest_rows_end_field(b);
}

/* The indices of the answers among the entities. */
static size_t add_right(zest_rows_builder *b, const set *entities, const set *answers) {
    size_t right = 0;
    char number[24];
    for (size_t i = 0; i < answers->count; i++) {
        const char **found =
            bsearch(&answers->texts[i], entities->texts, entities->count, sizeof *found, compare_texts);
        if (!found) continue;
        int used = snprintf(number, sizeof number, "%zu", (size_t)(found - entities->texts));
        zest_rows_add(b, zest_rows_store(b, number, (size_t)used));
        right++;
    }
    zest_rows_end_field(b);
    return right;
}

static zest_status read_answers(zest_rows_builder *b, const json_t *list, size_t line, set *answers) {
    zest_status status = ZEST_OK;
    if (!start_set(b, answers, json_array_size(list))) return zest_error_memory(b->error, b->path, 1);
    for (size_t i = 0; i < json_array_size(list) && !status; i++) {
        const json_t *text;
        status = get_member(b, json_array_get(list, i), "text", line, &text);
        if (!status) add_to_set(b, answers, json_string_value(text), json_string_length(text));
    }
    sort_set(answers);
    return status;
}

static zest_status read_query(zest_rows_builder *b, const json_t *qa, size_t passage, const set *entities,
                              size_t line) {
    const json_t *query, *list;
    set answers = {0};
    zest_status status = get_member(b, qa, "query", line, &query);
    if (!status && !strstr(json_string_value(query), "@placeholder"))
        status = zest_rows_refuse(b, line, "the query has no @placeholder");
    if (!status) status = need_list(b, qa, "answers", line, &list);
    if (!status) status = read_answers(b, list, line, &answers);
    if (!status) {
        zest_rows_begin(b, line);
        zest_rows_add_field(b, passage);
        zest_rows_add_field(b, store_string(b, query));
        add_set(b, entities);
        add_set(b, &answers);
        for (size_t i = 0; i < entities->count && !b->failed; i++)
            zest_rows_add(b, store_replaced(b, json_string_value(query), "@placeholder", entities->texts[i]));
        zest_rows_end_field(b);
        if (!add_right(b, entities, &answers) && !b->failed)
            status = zest_rows_refuse(b, line, "no answer to the query is among the passage's entities");
    }
    free_set(&answers);
    return status;
}

static zest_status read_record_line(zest_rows_builder *b, const json_t *object, size_t line) {
    const json_t *passage = json_object_get(object, "passage"), *text, *marks, *queries;
    set entities = {0};
    zest_status status = get_member(b, passage, "text", line, &text);
    if (!status) status = need_list(b, passage, "entities", line, &marks);
    if (!status) status = need_list(b, object, "qas", line, &queries);
    if (!status) status = cut_entities(b, text, marks, line, &entities);
    if (!status) {
        size_t offset = store_replaced(b, json_string_value(text), "@highlight\n", "- ");
        for (size_t i = 0; i < json_array_size(queries) && !status && !b->failed; i++)
            status = read_query(b, json_array_get(queries, i), offset, &entities, line);
    }
    free_set(&entities);
    return status;
}

zest_status zest_rows_record(zest_rows_builder *b) {
    static const char *const names[] = {"passage", "query", "entities", "answers", "options", "label"};
    zest_rows_name(b, names, 6);
    return each_line(b, read_record_line);
}

/* ---- MultiRC ---- */

static zest_status read_question(zest_rows_builder *b, const json_t *question, size_t paragraph,
                                 size_t line) {
    const json_t *text, *answers;
    zest_status status = get_member(b, question, "question", line, &text);
    if (!status) status = need_list(b, question, "answers", line, &answers);
    if (status) return status;
    size_t asked = store_string(b, text), label;
    for (size_t i = 0; i < json_array_size(answers) && !status; i++) {
        const json_t *answer = json_array_get(answers, i);
        status = get_member(b, answer, "text", line, &text);
        if (!status && !json_object_get(answer, "label"))
            status = zest_rows_refuse(b, line, "an answer has no \"label\" (test files have none)");
        if (status) break;
        if (!store_json(b, json_object_get(answer, "label"), &label))
            return zest_rows_refuse(b, line, "the \"label\" of an answer must be 0 or 1");
        zest_rows_begin(b, line);
        zest_rows_add_field(b, paragraph);
        zest_rows_add_field(b, asked);
        zest_rows_add_field(b, store_string(b, text));
        zest_rows_add_field(b, label);
    }
    return status;
}

static zest_status read_multirc_line(zest_rows_builder *b, const json_t *object, size_t line) {
    const json_t *passage = json_object_get(object, "passage"), *text, *questions;
    zest_status status = get_member(b, passage, "text", line, &text);
    if (!status) status = need_list(b, passage, "questions", line, &questions);
    if (status) return status;
    size_t paragraph = store_string(b, text);
    for (size_t i = 0; i < json_array_size(questions) && !status; i++)
        status = read_question(b, json_array_get(questions, i), paragraph, line);
    return status;
}

zest_status zest_rows_multirc(zest_rows_builder *b) {
    /* "answer" is the name of the model's own answer in a template, so the one to judge has another name */
    static const char *const names[] = {"paragraph", "question", "candidate", "label"};
    zest_rows_name(b, names, 4);
    return each_line(b, read_multirc_line);
}

/* ---- WSC ----
 *
 * Some spans do not occur literally in their text. As in "wsc.fixed", such a span gets the case of
 * the word at its index, loses trailing dots and has spaces for line breaks. */

/* The word with this index; NULL: out of range. */
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
    zest_status status = get_member(b, target, key, line, &span);
    if (status) return status;
    size_t offset = store_string(b, span), size = json_string_length(span);
    zest_rows_add_field(b, offset);
    if (!size || strstr(json_string_value(text), json_string_value(span)) || b->failed || b->memory.failed)
        return ZEST_OK;
    const json_t *index = at_path(object, "target", index_key);
    const char *word = json_is_integer(index) && json_integer_value(index) >= 0
                           ? word_at(json_string_value(text), json_integer_value(index))
                           : NULL;
    if (!word)
        return zest_rows_refuse(b, line,
                                "\"%s\" is not in the text, and \"%s\" is not the index of a word in it", key,
                                index_key);
    char *stored = b->memory.data + offset;
    int lower = *word >= 'a' && *word <= 'z';
    if (lower && *stored >= 'A' && *stored <= 'Z') *stored += 'a' - 'A';
    if (!lower && *stored >= 'a' && *stored <= 'z') *stored -= 'a' - 'A';
    while (size && stored[size - 1] == '.') stored[--size] = '\0';
    for (char *c = stored; (c = strchr(c, '\n'));) *c = ' ';
    return ZEST_OK;
}

static zest_status read_wsc_line(zest_rows_builder *b, const json_t *object, size_t line) {
    const json_t *text, *label = json_object_get(object, "label");
    size_t offset;
    zest_status status = get_member(b, object, "text", line, &text);
    if (!status && !label) status = zest_rows_refuse(b, line, "has no \"label\" (test files have none)");
    if (status) return status;
    zest_rows_begin(b, line);
    zest_rows_add_field(b, store_string(b, text));
    status = add_span(b, object, text, 1, line);
    if (!status) status = add_span(b, object, text, 2, line);
    if (status) return status;
    if (!store_json(b, label, &offset))
        return zest_rows_refuse(b, line, "the \"label\" must be true or false");
    zest_rows_add_field(b, offset);
    return ZEST_OK;
}

zest_status zest_rows_wsc(zest_rows_builder *b) {
    static const char *const names[] = {"text", "span1_text", "span2_text", "label"};
    zest_rows_name(b, names, 4);
    return each_line(b, read_wsc_line);
}

/* ---- Conversations ---- */

static zest_status add_conversation(zest_rows_builder *b, const json_t *row, size_t line) {
    char problem[200];
    json_t *messages = zest_conversation_read(row, problem), *tools = json_object_get(row, "tools");
    if (!messages) return zest_rows_refuse(b, line, "%s", problem);
    json_t *whole = json_pack("{s:o}", "messages", messages);
    if (json_is_array(tools) && json_array_size(tools)) json_object_set(whole, "tools", tools);
    char *text = whole ? zest_json_dump(whole, JSON_COMPACT) : NULL;
    json_decref(whole);
    if (!text) return zest_error_memory(b->error, b->path, 0);
    zest_rows_begin(b, line);
    zest_rows_add_field(b, zest_rows_store(b, text, strlen(text)));
    free(text);
    return ZEST_OK;
}

/* A list of conversations instead of lines. */
static zest_status add_list(zest_rows_builder *b) {
    json_error_t problem;
    json_t *list =
        zest_json_load(b->file.data + b->begin, b->file.size - b->begin, ZEST_JSON_BIG_AS_TEXT, &problem);
    zest_status status = ZEST_OK;
    if (!list)
        return zest_rows_refuse(b, problem.line > 0 ? (size_t)problem.line : 1,
                                "is not a valid list of JSON: %s", problem.text);
    for (size_t i = 0; i < json_array_size(list) && !status; i++) {
        status = add_conversation(b, json_array_get(list, i), i + 1);
        if (!status) status = zest_rows_check(b);
    }
    json_decref(list);
    return status;
}

zest_status zest_rows_chat(zest_rows_builder *b) {
    static const char *const name = "conversation";
    size_t at = b->begin;
    zest_rows_name(b, &name, 1);
    while (at < b->file.size && (b->file.data[at] == '\n' || is_blank(b->file.data + at, 1))) at++;
    return at < b->file.size && b->file.data[at] == '[' ? add_list(b) : each_line(b, add_conversation);
}
