#include "cli/arguments.h"

#include <string.h>

static zest_status unknown(const zest_command *command, const char *word, const char *name,
                           zest_error *error) {
    const char *nearest = zest_option_nearest(name, command->users | command->lists);
    return zest_error_set(error, ZEST_ERROR_ARGUMENT, "%s does not take %s%s%s%s", command->name, word,
                          nearest ? "; did you mean --" : "", nearest ? nearest : "", nearest ? "?" : "");
}

/* The option that a word names. *value is what follows '=' or the letter, or NULL; *negated for --no-FLAG. */
static zest_option_id find(const zest_command *command, const char *word, char *name, size_t room,
                           const char **value, int *negated) {
    *value = NULL;
    *negated = 0;
    if (word[1] != '-') {
        name[0] = word[1], name[1] = '\0';
        if (word[2]) *value = word + 2 + (word[2] == '=');
        return zest_option_find_letter(word[1], command->users | command->lists);
    }
    const char *equals = strchr(word, '=');
    size_t length = equals ? (size_t)(equals - word - 2) : strlen(word + 2);
    if (length >= room) length = room - 1;
    memcpy(name, word + 2, length);
    name[length] = '\0';
    if (equals) *value = equals + 1;
    zest_option_id id = zest_option_find(name, command->users | command->lists);
    if (id == ZEST_OPTION_COUNT && !equals && !strncmp(name, "no-", 3)) {
        zest_option_id flag = zest_option_find(name + 3, command->users | command->lists);
        if (flag != ZEST_OPTION_COUNT && zest_option_row_at(flag)->kind == ZEST_KIND_FLAG)
            *negated = 1, id = flag;
    }
    return id;
}

/* A negative number is a value, not an option. */
static int is_option(const char *word) {
    return word[0] == '-' && word[1] && !strchr("0123456789.", word[1]);
}

zest_status zest_arguments_parse(const zest_command *command, int argc, char **argv, zest_options *options,
                                 zest_arguments *arguments, zest_error *error) {
    *arguments = (zest_arguments){.words = argv};
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i], *value;
        if (!strcmp(word, "--")) {
            while (++i < argc) arguments->words[arguments->count++] = argv[i];
            break;
        }
        if (!is_option(word)) {
            arguments->words[arguments->count++] = argv[i];
            continue;
        }
        if (!strcmp(word, "--help") || !strcmp(word, "-h")) {
            arguments->help = 1;
            continue;
        }
        char name[64];
        int negated;
        zest_option_id id = find(command, word, name, sizeof name, &value, &negated);
        if (id == ZEST_OPTION_COUNT) return unknown(command, word, name, error);
        if (zest_option_row_at(id)->kind == ZEST_KIND_FLAG)
            value = value ? value : negated ? "no" : "yes";
        else if (!value && i + 1 < argc)
            value = argv[++i];
        if (!value) return zest_error_set(error, ZEST_ERROR_ARGUMENT, "%s needs a value", word);
        zest_status status = zest_option_row_at(id)->users & command->users
                                 ? zest_options_set_id(options, id, value, error)
                                 : zest_options_keep(options, id, value, error);
        if (status) return status;
    }
    if (arguments->help) return ZEST_OK;
    if (arguments->count > command->most)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "%s: '%s' is one word too many", command->name,
                              arguments->words[command->most]);
    if (arguments->count < command->least)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "%s needs %s", command->name, command->words);
    return ZEST_OK;
}
