/* SQuAD v1.1 and DROP: one JSON object a file, rows are its questions in the file's order. */
#include <string.h>

#include "data/rows_internal.h"

/* Messages name the question, since jansson does not tell its line. */
static zest_status refuse(zest_rows_builder *b, size_t question, const char *why) {
    return zest_error_set(b->error, ZEST_ERROR_FORMAT, "%s, question %zu: %s", b->path, question, why);
}

static zest_status load(zest_rows_builder *b, json_t **json) {
    return zest_rows_load_json(b, b->file.data + b->begin, b->file.size - b->begin, 0, json);
}

/* ---- SQuAD ---- */

typedef struct {
    size_t title, context, characters; /* offsets, and the context's length */
} paragraph;

/* Where answers begin is only checked for sense, as a sign of a damaged file. */
static zest_status check_answers(zest_rows_builder *b, const json_t *answers, const paragraph *p,
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
            return refuse(b, number, "\"answer_start\" of an answer lies outside the context");
    }
    return ZEST_OK;
}

static zest_status take_squad(zest_rows_builder *b, const json_t *qa, const paragraph *p, size_t number) {
    const json_t *question = json_object_get(qa, "question"), *answers = json_object_get(qa, "answers");
    if (!json_is_string(question)) return refuse(b, number, "needs the text \"question\"");
    zest_status status = check_answers(b, answers, p, number);
    if (status) return status;
    zest_rows_begin(b, number);
    zest_rows_add_field(b, p->title);
    zest_rows_add_field(b, p->context);
    zest_rows_add_field(b, zest_rows_keep_string(b, question));
    for (size_t i = 0; i < json_array_size(answers); i++)
        zest_rows_add(b, zest_rows_keep_string(b, json_object_get(json_array_get(answers, i), "text")));
    zest_rows_end_field(b);
    return ZEST_OK;
}

static size_t count_characters(const char *text) {
    size_t count = 0;
    for (; *text; text++) count += ((unsigned char)*text & 0xC0) != 0x80;
    return count;
}

static zest_status take_article(zest_rows_builder *b, const json_t *article) {
    const json_t *title = json_object_get(article, "title"),
                 *paragraphs = json_object_get(article, "paragraphs");
    if (!json_is_array(paragraphs))
        return refuse(b, b->rows->count + 1, "its article needs the list \"paragraphs\"");
    paragraph p = {.title =
                       json_is_string(title) ? zest_rows_keep_string(b, title) : zest_rows_keep(b, "", 0)};
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < json_array_size(paragraphs) && !status; i++) {
        const json_t *one = json_array_get(paragraphs, i), *context = json_object_get(one, "context"),
                     *questions = json_object_get(one, "qas");
        if (!json_is_string(context) || !json_is_array(questions))
            return refuse(b, b->rows->count + 1,
                          "its paragraph needs the text \"context\" and the list \"qas\"");
        p.context = zest_rows_keep_string(b, context);
        p.characters = count_characters(json_string_value(context));
        for (size_t j = 0; j < json_array_size(questions) && !status; j++)
            status = take_squad(b, json_array_get(questions, j), &p, b->rows->count + 1);
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
        status = zest_error_set(b->error, ZEST_ERROR_FORMAT, "%s: is no SQuAD file: it has no list \"data\"",
                                b->path);
    for (size_t i = 0; i < json_array_size(data) && !status; i++)
        status = take_article(b, json_array_get(data, i));
    json_decref(json);
    return status;
}

/* ---- DROP ----
 * An answer is a number, a date or spans. The right texts of a question are those of its answers: the number,
 * or the date as "day month year", or each span. A question with none, or with an answer of two kinds, is
 * left out, as Hugging Face's reader does. */

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* The date's parts with a space between them and none at the ends. */
static size_t keep_date(zest_rows_builder *b, const json_t *date) {
    zest_buffer out = {0};
    zest_buffer_format(&out, "%s %s %s", text_of(date, "day"), text_of(date, "month"), text_of(date, "year"));
    if (out.failed) b->failed = 1;
    const char *from = out.data ? out.data + strspn(out.data, " ") : "";
    size_t size = strlen(from);
    while (size && from[size - 1] == ' ') size--;
    size_t offset = zest_rows_keep(b, from, size);
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

/* Of how many kinds an answer is; 3: something in it is no text. */
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
    if (has_number(answer) && zest_rows_keep_json(b, json_object_get(answer, "number"), &offset))
        zest_rows_add(b, offset);
    if (has_date(answer)) zest_rows_add(b, keep_date(b, json_object_get(answer, "date")));
    for (size_t i = 0; i < json_array_size(spans); i++)
        zest_rows_add(b, zest_rows_keep_string(b, json_array_get(spans, i)));
}

static zest_status take_drop(zest_rows_builder *b, const json_t *qa, size_t passage, size_t number) {
    const json_t *question = json_object_get(qa, "question"), *first = json_object_get(qa, "answer"),
                 *list = json_object_get(qa, "validated_answers");
    int all = b->layout->all_answers, most = 0;
    if (!json_is_string(question)) return refuse(b, number, "needs the text \"question\"");
    if (all ? !json_is_array(list) : !json_is_object(first))
        return refuse(b, number,
                      all ? "needs the list \"validated_answers\"" : "needs the object \"answer\"");
    size_t count = all ? json_array_size(list) : 1;
    for (size_t i = 0; i < count; i++) {
        int here = kinds(all ? json_array_get(list, i) : first);
        most = here > most ? here : most;
    }
    if (most == 3) return refuse(b, number, "a span of its answer is no text");
    if (most != 1) return ZEST_OK; /* left out */
    zest_rows_begin(b, number);
    zest_rows_add_field(b, passage);
    zest_rows_add_field(b, zest_rows_keep_string(b, question));
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
        size_t kept = zest_rows_keep_string(b, passage);
        for (size_t i = 0; i < json_array_size(questions) && !status; i++)
            status = take_drop(b, json_array_get(questions, i), kept, ++number);
        if (status) break;
    }
    json_decref(json);
    return status;
}
