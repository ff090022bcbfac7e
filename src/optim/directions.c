/* Options directions and scales: see directions.h. */
#include "optim/directions.h"

#include <string.h>

#include "base/text.h"

/* "lowrank:4": the number behind the word, from 1 to 1024; without one 1. */
static int read_rank(const char *text, const char *word, size_t *rank) {
    size_t length = strlen(word);
    int64_t number = 1;
    if (strncmp(text, word, length)) return 0;
    if (text[length] && !(text[length] == ':' && zest_integer_parse(text + length + 1, 1, 1024, &number)))
        return 0;
    *rank = (size_t)number;
    return 1;
}

zest_status zest_directions_read(const zest_options *options, zest_directions *directions,
                                 zest_error *error) {
    const char *text = zest_options_text(options, ZEST_OPTION_DIRECTIONS);
    uint64_t distribution = zest_options_whole(options, ZEST_OPTION_DISTRIBUTION);
    *directions = (zest_directions){0};
    if (!*text || !strcmp(text, "dense")) return ZEST_OK;
    if (!read_rank(text, "lowrank", &directions->rank))
        return zest_error_set(
            error, ZEST_ERROR_ARGUMENT,
            "--directions '%.100s' is not allowed; it takes dense or lowrank:R with a rank R "
            "from 1 to 1024",
            text);
    if (distribution != ZEST_GAUSSIAN && distribution != ZEST_RADEMACHER)
        return zest_error_set(
            error, ZEST_ERROR_ARGUMENT,
            "--directions %.100s are products of normals or signs, which are not uniform on a "
            "sphere or in a ball: set --distribution gaussian or rademacher",
            text);
    return ZEST_OK;
}

zest_status zest_directions_check_vector(const zest_options *options, zest_error *error) {
    if (!zest_directions_are_special(options)) return ZEST_OK;
    return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                          "directions and scales are for the tensors of a model (zest train); a vector has "
                          "neither matrices nor tensors");
}

int zest_directions_are_special(const zest_options *options) {
    const char *text = zest_options_text(options, ZEST_OPTION_DIRECTIONS);
    return (*text && strcmp(text, "dense") != 0) || *zest_options_text(options, ZEST_OPTION_SCALES);
}
