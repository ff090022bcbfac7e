#include "cli/arguments.h"

#include <string.h>

#include "base/option_suggest.h"
#include "cli/config.h"

/* Which commands have an option that this one has not: "; train and pretrain have it". */
static void find_others(const char *name, zest_buffer *out) {
    const zest_command *const *all = zest_command_all();
    const char *found[32];
    size_t count = 0;
    for (; *all && count < sizeof found / sizeof *found; all++)
        if (zest_option_find(name, zest_command_users(*all)) != ZEST_OPTION_COUNT)
            found[count++] = (*all)->name;
    for (size_t i = 0; i < count; i++)
        zest_buffer_format(out, "%s%s", !i ? "; " : i + 1 < count ? ", " : " and ", found[i]);
    if (count) zest_buffer_text(out, count > 1 ? " have it" : " has it");
}

static zest_status unknown(const zest_command *command, const char *word, const char *name,
                           zest_error *error) {
    char suggestion[ZEST_OPTION_SUGGESTION_SIZE];
    zest_buffer others = {0};
    if (zest_option_find(name, zest_command_users(command)) == ZEST_OPTION_COUNT) find_others(name, &others);
    zest_status status =
        others.size
            ? zest_error_set(error, ZEST_ERROR_ARGUMENT, "zest %s has no option --%s%.600s", command->name,
                             name, others.data)
            : zest_error_set(error, ZEST_ERROR_ARGUMENT, "unknown option %.*s%s", (int)strcspn(word, "="),
                             word, zest_option_suggest(name, zest_command_users(command), 0, suggestion));
    zest_buffer_free(&others);
    return status;
}

/* The option that a word names. *value is what follows '=' or the letter, or NULL; *negated for --no-FLAG. */
static zest_option_id find(const zest_command *command, const char *word, char *name, size_t room,
                           const char **value, int *negated) {
    *value = NULL;
    *negated = 0;
    size_t rest = strcspn(word + 1, "=");
    if (word[1] != '-' && zest_option_is_long_name(word + 1, rest, zest_command_users(command))) {
        if (rest >= room) rest = room - 1;
        memcpy(name, word + 1, rest);
        name[rest] = '\0';
        return ZEST_OPTION_COUNT;
    }
    if (word[1] != '-') {
        name[0] = word[1], name[1] = '\0';
        if (word[2]) *value = word + 2 + (word[2] == '=');
        return zest_option_find_letter(word[1], zest_command_users(command));
    }
    const char *equals = strchr(word, '=');
    size_t length = equals ? (size_t)(equals - word - 2) : strlen(word + 2);
    if (length >= room) length = room - 1;
    memcpy(name, word + 2, length);
    name[length] = '\0';
    if (equals) *value = equals + 1;
    zest_option_id id = zest_option_find(name, zest_command_users(command));
    if (id == ZEST_OPTION_COUNT && !equals && !strncmp(name, "no-", 3)) {
        zest_option_id flag = zest_option_find(name + 3, zest_command_users(command));
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
        if (!strcmp(word, "--version")) {
            arguments->version = 1;
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
        if (id == ZEST_OPTION_CONFIG && zest_options_given(options, id))
            return zest_error_set(error, ZEST_ERROR_ARGUMENT,
                                  "--config is given twice; put both files into one");
        zest_status status = zest_command_set(command, options, id, value, error);
        if (status) return status;
    }
    if (arguments->help || arguments->version) return ZEST_OK;
    if (zest_options_given(options, ZEST_OPTION_CONFIG)) {
        zest_status status =
            zest_config_read(command, zest_options_text(options, ZEST_OPTION_CONFIG), options, error);
        if (status) return status;
    }
    if (arguments->count > command->most)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "%s: '%s' is one word too many", command->name,
                              arguments->words[command->most]);
    if (arguments->count < command->least)
        return zest_error_set(error, ZEST_ERROR_ARGUMENT, "%s needs %s", command->name, command->words);
    return ZEST_OK;
}
