/* Options directions, covariance and scales: see directions.h. */
#include "optim/directions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "rng/noise_law.h"
#include "zest.h"

enum { RANK_MOST = 1024, BATCH_MOST = 1 << 20, INPUTS_DEFAULT = 64 };

/* ":4" at *at, or nothing. */
static int read_number(const char **at, int64_t most, size_t *number) {
    char digits[16];
    int64_t value;
    if (**at != ':') return !**at;
    size_t length = strcspn(*at + 1, ":");
    if (length >= sizeof digits) return 0;
    memcpy(digits, *at + 1, length);
    digits[length] = '\0';
    if (!zest_integer_parse(digits, 1, most, &value)) return 0;
    *number = (size_t)value;
    *at += 1 + length;
    return 1;
}

/* "lowrank:R", "example:R:B". */
static int parse(const char *text, zest_directions *directions) {
    int per_example = !strncmp(text, "example", 7);
    *directions = (zest_directions){0};
    if (!*text || !strcmp(text, "dense")) return 1;
    if (!per_example && strncmp(text, "lowrank", 7) != 0) return 0;
    const char *at = text + 7;
    *directions = (zest_directions){.rank = 1, .examples = per_example ? 1 : 0};
    if (!read_number(&at, RANK_MOST, &directions->rank)) return 0;
    return !*at || (per_example && read_number(&at, BATCH_MOST, &directions->examples) && !*at);
}

/* "inputs:S:HEX". */
static int parse_covariance(const char *text, zest_directions *directions) {
    if (!*text || !strcmp(text, "identity")) return 1;
    if (strncmp(text, "inputs", 6) != 0) return 0;
    const char *at = text + 6;
    size_t digits = 0;
    directions->inputs = INPUTS_DEFAULT;
    if (!read_number(&at, ZEST_NOISE_INPUTS, &directions->inputs)) return 0;
    if (!*at) return 1;
    for (const char *hex = ++at; strchr("0123456789abcdef", *hex) && *hex; hex++) digits++;
    directions->has_print = digits == 16 && !at[16];
    if (directions->has_print) directions->print = strtoull(at, NULL, 16);
    return directions->has_print;
}

static zest_status read_covariance(const zest_options *options, zest_directions *directions,
                                   zest_error *error) {
    const char *text = zest_options_text(options, ZEST_OPTION_COVARIANCE);
    if (!parse_covariance(text, directions))
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "--covariance '%.100s' is not allowed; it takes identity, or inputs:S with a "
                              "number S of rows from 1 to %d",
                              text, ZEST_NOISE_INPUTS);
    if (!directions->inputs || directions->rank) return ZEST_OK;
    return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                          "--covariance %.100s is for directions of low rank: set --directions lowrank:R or "
                          "example:R",
                          text);
}

zest_status zest_directions_read(const zest_options *options, zest_directions *directions,
                                 zest_error *error) {
    const char *text = zest_options_text(options, ZEST_OPTION_DIRECTIONS);
    uint64_t distribution = zest_options_whole(options, ZEST_OPTION_DISTRIBUTION);
    if (!parse(text, directions))
        return zest_error_set(
            error, ZEST_ERROR_ARGUMENT,
            "--directions '%.100s' is not allowed; it takes dense, lowrank:R or example:R with "
            "a rank R from 1 to 1024",
            text);
    if (directions->rank && distribution != ZEST_GAUSSIAN && distribution != ZEST_RADEMACHER)
        return zest_error_set(
            error, ZEST_ERROR_ARGUMENT,
            "--directions %.100s are products of normals or signs, which are not uniform on a "
            "sphere or in a ball: set --distribution gaussian or rademacher",
            text);
    if ((double)directions->examples * zest_options_number(options, ZEST_OPTION_K) >=
        (double)ZEST_SEED_ROUNDING)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "--directions %.100s and --k %s: a step can have at most %d directions", text,
                              zest_options_text(options, ZEST_OPTION_K), ZEST_SEED_ROUNDING - 1);
    return read_covariance(options, directions, error);
}

zest_directions zest_directions_of(const zest_options *options) {
    zest_directions directions;
    if (!parse(zest_options_text(options, ZEST_OPTION_DIRECTIONS), &directions)) return (zest_directions){0};
    (void)parse_covariance(zest_options_text(options, ZEST_OPTION_COVARIANCE), &directions);
    return directions;
}

zest_status zest_directions_set_batch(zest_options *options, uint64_t batch, zest_error *error) {
    const char *text = zest_options_text(options, ZEST_OPTION_DIRECTIONS);
    zest_directions directions = zest_directions_of(options);
    char whole[64];
    zest_status status = ZEST_OK;
    if (!strcmp(zest_options_text(options, ZEST_OPTION_COVARIANCE), "identity"))
        status = zest_options_set_id(options, ZEST_OPTION_COVARIANCE, "", error);
    if (status) return status;
    if (!strcmp(text, "dense")) return zest_options_set_id(options, ZEST_OPTION_DIRECTIONS, "", error);
    if (!directions.examples) return ZEST_OK;
    int has_batch = strchr(text, ':') && strchr(strchr(text, ':') + 1, ':');
    if (has_batch && directions.examples != batch)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                              "--directions %.100s is for batches of %zu, and --batch is %llu", text,
                              directions.examples, (unsigned long long)batch);
    snprintf(whole, sizeof whole, "example:%zu:%llu", directions.rank, (unsigned long long)batch);
    return zest_options_set_id(options, ZEST_OPTION_DIRECTIONS, whole, error);
}

zest_status zest_directions_set_print(zest_options *options, uint64_t print, zest_error *error) {
    char whole[64];
    snprintf(whole, sizeof whole, "inputs:%zu:%016llx", zest_directions_of(options).inputs,
             (unsigned long long)print);
    return zest_options_set_id(options, ZEST_OPTION_COVARIANCE, whole, error);
}

zest_status zest_directions_check_vector(const zest_options *options, zest_error *error) {
    if (!zest_directions_are_special(options)) return ZEST_OK;
    return zest_error_set(
        error, ZEST_ERROR_ARGUMENT,
        "directions, covariance and scales are for the tensors of a model (zest train); a vector "
        "has neither matrices nor tensors");
}

int zest_directions_are_special(const zest_options *options) {
    const char *text = zest_options_text(options, ZEST_OPTION_DIRECTIONS),
               *covariance = zest_options_text(options, ZEST_OPTION_COVARIANCE);
    return (*text && strcmp(text, "dense") != 0) || (*covariance && strcmp(covariance, "identity") != 0) ||
           *zest_options_text(options, ZEST_OPTION_SCALES);
}

/* ---- Scales in a file ---- */

enum { SCALES_FILE_MOST = 1 << 20 };

/* "PATTERN = NUMBER # why" as "PATTERN=NUMBER". */
static void add_line(const char *line, size_t length, zest_buffer *out) {
    size_t before = out->size;
    for (size_t i = 0; i < length && line[i] != '#'; i++)
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r') { /* a NUL stays, and is refused */
            if (out->size == before && before) zest_buffer_add(out, ",", 1);
            zest_buffer_add(out, &line[i], 1);
        }
}

zest_status zest_directions_read_scales(zest_options *options, zest_error *error) {
    const char *path = zest_options_text(options, ZEST_OPTION_SCALES);
    zest_buffer text = {0}, line = {0};
    if (!*path || strchr(path, '=')) return ZEST_OK;
    zest_status status = zest_file_read(path, SCALES_FILE_MOST, &text, error);
    for (size_t at = 0; !status && at < text.size;) {
        const char *end = memchr(text.data + at, '\n', text.size - at);
        size_t length = end ? (size_t)(end - text.data) - at : text.size - at;
        add_line(text.data + at, length, &line);
        at += length + 1;
    }
    zest_buffer_add(&line, "", 1);
    if (!status && line.failed) status = zest_error_memory(error, path, text.size);
    if (!status && (memchr(line.data, '\0', line.size - 1) || !strchr(line.data, '=')))
        status = zest_error_set(error, ZEST_ERROR_FORMAT,
                                "--scales %s: has no line PATTERN = NUMBER; or give scales as PATTERN=NUMBER",
                                path);
    if (!status) status = zest_options_set_id(options, ZEST_OPTION_SCALES, line.data, error);
    zest_buffer_free(&text);
    zest_buffer_free(&line);
    return status;
}
