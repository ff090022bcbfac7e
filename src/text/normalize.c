#include "text/normalize.h"

#include <stdlib.h>
#include <string.h>

#include "text/unicode.h"

void zest_normalize_replace(const char *text, size_t size, const char *pattern, size_t pattern_size,
                            const char *content, size_t content_size, zest_buffer *out) {
    const char *at = text, *end = text + size, *hit;
    while (at < end && (hit = memmem(at, (size_t)(end - at), pattern, pattern_size))) {
        zest_buffer_add(out, at, (size_t)(hit - at));
        zest_buffer_add(out, content, content_size);
        at = hit + pattern_size;
    }
    if (at < end) zest_buffer_add(out, at, (size_t)(end - at));
}

static zest_status replace_matches(const zest_normalize_step *step, zest_regex_walk *walk, const char *text,
                                   size_t size, zest_buffer *out, zest_error *error) {
    size_t done = 0, start, end;
    int found = 1;
    zest_status status = zest_regex_begin(walk, step->regex, text, size, error);
    while (!status && (status = zest_regex_next(walk, &found, &start, &end, error)) == ZEST_OK && found) {
        zest_buffer_add(out, text + done, start - done);
        zest_buffer_add(out, step->content, step->content_size);
        done = end;
    }
    if (!status) zest_buffer_add(out, text + done, size - done);
    return status;
}

static zest_status run_step(const zest_normalize_step *step, zest_regex_walk *walk, const char *text,
                            size_t size, zest_buffer *out, zest_error *error) {
    switch (step->kind) {
    case ZEST_NORMALIZE_PREPEND:
        zest_buffer_add(out, step->content, step->content_size);
        zest_buffer_add(out, text, size);
        break;
    case ZEST_NORMALIZE_REPLACE:
        if (step->regex) return replace_matches(step, walk, text, size, out, error);
        zest_normalize_replace(text, size, step->pattern, step->pattern_size, step->content,
                               step->content_size, out);
        break;
    case ZEST_NORMALIZE_COMPOSE: zest_unicode_compose(text, size, out); break;
    }
    return ZEST_OK;
}

zest_status zest_normalize_run(const zest_normalize *normalize, zest_normalize_scratch *scratch,
                               const char *text, size_t size, const char **out, size_t *out_size,
                               zest_error *error) {
    zest_status status = ZEST_OK;
    for (size_t k = 0; k < normalize->count && size && !status; k++) {
        zest_buffer *room = &scratch->text[k % 2];
        room->size = 0;
        status = run_step(&normalize->step[k], &scratch->walk, text, size, room, error);
        if (!status && room->failed) status = zest_error_memory(error, "the normalised text", size);
        text = room->data;
        size = room->size;
    }
    *out = text;
    *out_size = size;
    return status;
}

void zest_normalize_scratch_free(zest_normalize_scratch *scratch) {
    zest_buffer_free(&scratch->text[0]);
    zest_buffer_free(&scratch->text[1]);
    zest_regex_walk_free(&scratch->walk);
}

void zest_normalize_free(zest_normalize *normalize) {
    for (size_t k = 0; k < normalize->count; k++) {
        free(normalize->step[k].content);
        free(normalize->step[k].pattern);
        zest_regex_free(normalize->step[k].regex);
    }
    normalize->count = 0;
}
