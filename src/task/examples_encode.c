/* One row as tokens. */
#include <stdlib.h>
#include <string.h>

#include "task/examples.h"

static zest_status no_memory(zest_error *error, size_t tokens) {
    return zest_error_memory(error, "an example", tokens * sizeof(int32_t));
}

static int make_texts(zest_examples_made *made, size_t count) {
    made->texts = calloc(count + 1, sizeof *made->texts);
    return made->texts != NULL;
}

/* ---- Masked models ---- */

static zest_status encode_parts(const zest_examples_maker *maker, zest_examples_scratch *s,
                                zest_error *error) {
    const zest_template_parts *parts = &s->parts;
    if (s->length_room < parts->count) {
        size_t *more = realloc(s->lengths, 2 * parts->count * sizeof *more);
        if (!more) return no_memory(error, parts->count);
        s->lengths = more;
        s->places = more + parts->count;
        s->length_room = parts->count;
    }
    s->ids.count = 0;
    for (size_t i = 0; i < parts->count; i++) {
        const zest_template_part *part = &parts->parts[i];
        s->places[i] = s->ids.count;
        unsigned flags = part->kind == ZEST_TEMPLATE_FIELD ? ZEST_ENCODE_LITERAL : 0;
        zest_status status = ZEST_OK;
        if (part->kind == ZEST_TEMPLATE_MASK)
            zest_ids_add(&s->ids, maker->mask);
        else if (part->size)
            status = zest_tokenizer_encode(maker->tokenizer, parts->text.data + part->first, part->size,
                                           flags, &s->ids, error);
        if (status) return status;
        s->lengths[i] = s->ids.count - s->places[i];
    }
    return s->ids.failed ? no_memory(error, s->ids.count) : ZEST_OK;
}

/* The parts of a text; their lengths shrink when they are cut. */
typedef struct {
    const zest_template_part *parts;
    size_t *lengths;
    size_t count, mask; /* the mask's number */
} layout;

static void apply_limits(const zest_task *task, const layout *l) {
    for (size_t i = 0; i < l->count; i++) {
        size_t limit = l->parts[i].other ? task->other_limit : task->first_limit;
        if (l->parts[i].kind == ZEST_TEMPLATE_FIELD && limit && l->lengths[i] > limit) l->lengths[i] = limit;
    }
}

/* The longest field before the mask; of equal ones the first. NULL: all are empty. */
static size_t *longest_field(const layout *l) {
    size_t *longest = NULL;
    for (size_t i = 0; i < l->mask; i++)
        if (l->parts[i].kind == ZEST_TEMPLATE_FIELD && l->lengths[i] > (longest ? *longest : 0))
            longest = &l->lengths[i];
    return longest;
}

/* Tokens that should stay behind the mask: the template's text up to the next field, or to the end token. */
static size_t wanted_behind(const zest_examples_maker *maker, const layout *l) {
    size_t wanted = 0;
    for (size_t i = l->mask + 1; i < l->count; i++) {
        if (l->parts[i].kind == ZEST_TEMPLATE_FIELD) return wanted;
        wanted += l->lengths[i];
    }
    return wanted + (maker->end >= 0);
}

/* Shortens the fields before the mask when the mask would not fit. 0: it does not fit even so. */
static int save_mask(const zest_examples_maker *maker, const layout *l) {
    size_t before = maker->start >= 0, wanted = wanted_behind(maker, l);
    for (size_t i = 0; i < l->mask; i++) before += l->lengths[i];
    if (before + 1 <= maker->limit) return 1;
    while (before + 1 + wanted > maker->limit) {
        size_t *longest = longest_field(l);
        if (!longest) break;
        --*longest;
        before--;
    }
    return before + 1 <= maker->limit;
}

static zest_status emit_masked(const zest_examples_maker *maker, const zest_examples_scratch *s, size_t mask,
                               zest_examples_made *made, zest_error *error) {
    zest_ids *out = &made->tokens;
    if (!make_texts(made, 1)) return no_memory(error, 1);
    if (maker->start >= 0) zest_ids_add(out, maker->start);
    for (size_t i = 0; i < s->parts.count; i++) {
        if (i == mask) made->texts[0].asked = (uint32_t)out->count;
        zest_ids_add_all(out, s->ids.data + s->places[i], s->lengths[i]);
    }
    if (maker->end >= 0) zest_ids_add(out, maker->end);
    if (out->failed) return no_memory(error, s->ids.count);
    if (out->count > maker->limit) out->count = maker->limit;
    made->texts[0].length = (uint32_t)out->count;
    made->count = 1;
    return ZEST_OK;
}

zest_status zest_examples_encode_masked(const zest_examples_maker *maker, size_t row,
                                        zest_examples_scratch *s, zest_examples_made *made,
                                        zest_error *error) {
    zest_status status = zest_template_render_parts(maker->prompt, maker->rows, row, &s->parts, error);
    if (!status) status = encode_parts(maker, s, error);
    if (status) return status;
    layout l = {s->parts.parts, s->lengths, s->parts.count, 0};
    while (l.parts[l.mask].kind != ZEST_TEMPLATE_MASK) l.mask++;
    apply_limits(maker->task, &l);
    if (!save_mask(maker, &l))
        return zest_examples_refuse(maker, row, error,
                                    "the template's own text leaves no room for the mask in %zu tokens; "
                                    "shorten it or raise the task's max_length",
                                    maker->limit);
    status = emit_masked(maker, s, l.mask, made, error);
    made->cut = made->tokens.count < s->ids.count + (maker->start >= 0) + (maker->end >= 0);
    return status;
}

/* ---- Causal models ---- */

/* Start token and text. */
static zest_status encode_text(const zest_examples_maker *maker, const zest_buffer *text, zest_ids *ids,
                               zest_error *error) {
    ids->count = 0;
    zest_ids_add_all(ids, maker->before.data, maker->before.count);
    if (ids->failed) return no_memory(error, maker->before.count);
    return zest_tokenizer_encode(maker->tokenizer, text->data, text->size, 0, ids, error);
}

/* Keeps the start token and the last tokens. Returns how many are gone. */
static size_t cut_front(const zest_examples_maker *maker, zest_ids *ids) {
    if (ids->count <= maker->limit) return 0;
    size_t drop = ids->count - maker->limit, kept = maker->before.count;
    memmove(ids->data + kept, ids->data + kept + drop, (ids->count - kept - drop) * sizeof *ids->data);
    ids->count -= drop;
    return drop;
}

static size_t common_prefix(const zest_ids *a, const zest_ids *b) {
    size_t i = 0;
    while (i < a->count && i < b->count && a->data[i] == b->data[i]) i++;
    return i;
}

static zest_status append_text(zest_examples_made *made, const zest_ids *ids, size_t asked,
                               zest_example_text *text, zest_error *error) {
    *text = (zest_example_text){(uint32_t)made->tokens.count, (uint32_t)ids->count, (uint32_t)asked};
    zest_ids_add_all(&made->tokens, ids->data, ids->count);
    return made->tokens.failed ? no_memory(error, ids->count) : ZEST_OK;
}

static zest_status add_answer(const zest_examples_maker *maker, size_t row, const char *answer,
                              zest_examples_scratch *s, zest_examples_made *made, zest_error *error) {
    s->text.size = 0;
    zest_status status = zest_template_render(maker->prompt, maker->rows, row, answer, &s->text, error);
    if (!status) status = encode_text(maker, &s->text, &s->ids, error);
    if (status) return status;
    if (s->ids.count < 2)
        return zest_examples_refuse(maker, row, error,
                                    "the prompt is empty and the model has no start token, so nothing "
                                    "predicts the answer '%.40s'; put a text before {answer}",
                                    answer);
    size_t asked = common_prefix(&s->prompt_ids, &s->ids), least = maker->before.count;
    if (asked > s->ids.count - 1) asked = s->ids.count - 1;
    size_t dropped = cut_front(maker, &s->ids);
    made->cut += dropped > 0;
    asked = asked > dropped ? asked - dropped : 0;
    if (!least) least = 1;
    if (asked < least) asked = least;
    return append_text(made, &s->ids, asked, &made->texts[made->count++], error);
}

/* What generation continues. It is the beginning of the full text unless that was cut. */
static zest_status add_prompt(const zest_examples_maker *maker, zest_examples_scratch *s,
                              zest_examples_made *made, zest_error *error) {
    made->cut += cut_front(maker, &s->prompt_ids) > 0 && !made->cut;
    size_t count = s->prompt_ids.count;
    if (common_prefix(&s->prompt_ids, &made->tokens) < count)
        return append_text(made, &s->prompt_ids, count, &made->prompt, error);
    made->prompt = (zest_example_text){0, (uint32_t)count, (uint32_t)count};
    return ZEST_OK;
}

static zest_status add_gold(const zest_examples_maker *maker, size_t row, zest_examples_scratch *s,
                            zest_examples_made *made, zest_error *error) {
    zest_buffer answer = {0};
    zest_buffer_text(&answer, made->gold[0]);
    zest_buffer_text(&answer, "\n");
    zest_status status =
        answer.failed ? no_memory(error, answer.size) : add_answer(maker, row, answer.data, s, made, error);
    zest_buffer_free(&answer);
    if (!status && !s->prompt_ids.count)
        status = zest_examples_refuse(maker, row, error,
                                      "the prompt is empty and the model has no start token, so there is "
                                      "nothing to continue; put a text before {answer}");
    return status ? status : add_prompt(maker, s, made, error);
}

static zest_status add_option(const zest_examples_maker *maker, size_t row, const char *option,
                              zest_examples_scratch *s, zest_examples_made *made, zest_error *error) {
    zest_buffer formed = {0};
    if (!maker->form) return add_answer(maker, row, option, s, made, error);
    zest_status status = zest_template_render_option(maker->form, maker->rows, row, option, &formed, error);
    if (!status) status = add_answer(maker, row, formed.data, s, made, error);
    zest_buffer_free(&formed);
    return status;
}

zest_status zest_examples_encode_causal(const zest_examples_maker *maker, size_t row,
                                        zest_examples_scratch *s, zest_examples_made *made,
                                        zest_error *error) {
    zest_task_kind kind = maker->task->kind;
    size_t count = kind == ZEST_TASK_CLASSES  ? maker->task->class_count
                   : kind == ZEST_TASK_CHOICE ? s->option_count
                                              : 1;
    if (!make_texts(made, count)) return no_memory(error, count);
    s->text.size = 0;
    zest_status status = zest_template_render(maker->prompt, maker->rows, row, NULL, &s->text, error);
    if (!status) status = encode_text(maker, &s->text, &s->prompt_ids, error);
    for (size_t i = 0; i < count && !status; i++) {
        if (kind == ZEST_TASK_CLASSES)
            status = add_answer(maker, row, maker->words[i], s, made, error);
        else if (kind == ZEST_TASK_CHOICE)
            status = add_option(maker, row, s->options[i], s, made, error);
        else
            status = add_gold(maker, row, s, made, error);
    }
    return status;
}
