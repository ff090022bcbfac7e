/* Options by name, from the one table in option_table.h. */
#ifndef ZEST_BASE_OPTION_H
#define ZEST_BASE_OPTION_H

#include <stdint.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/option_table.h"

typedef enum {
    ZEST_KIND_FLAG,
    ZEST_KIND_REAL,
    ZEST_KIND_COUNT,
    ZEST_KIND_SEED,
    ZEST_KIND_CHOICE,
    ZEST_KIND_TEXT,
    ZEST_KIND_LIST,
} zest_option_kind;

typedef struct {
    const char *name;
    char letter; /* 0: none */
    zest_option_kind kind;
    const char *fallback;
    double low, high;     /* for numbers; both ends belong to the range unless open */
    int open;             /* low itself is not allowed */
    const char *choices;  /* of a number: words that may stand for it */
    const char *argument; /* what help calls the value */
    const char *section;
    unsigned users;
    unsigned methods; /* bit i: the i-th choice of --method takes it */
    unsigned changes; /* ZEST_CHANGES_* */
    zest_sweep_role sweep;
    const char *help;
} zest_option_row;

#define ZEST_OPTION_ID(id, ...) ZEST_OPTION_##id,
typedef enum { ZEST_OPTION_TABLE(ZEST_OPTION_ID) ZEST_OPTION_COUNT } zest_option_id;
#undef ZEST_OPTION_ID

const zest_option_row *zest_option_row_at(zest_option_id id);
/* The row that `users` know under this name; ZEST_OPTION_COUNT: none. */
zest_option_id zest_option_find(const char *name, unsigned users);
zest_option_id zest_option_find_letter(char letter, unsigned users);
/* "> 0", "1 to 1024", "zest-n, zest-bc or mezo"; "" when anything goes. Writes into out and returns it. */
const char *zest_option_range(const zest_option_row *row, char *out, size_t size);
/* Whether it is a number, and not a word that may stand for one. */
int zest_option_is_number(const char *text);
const char *zest_option_kind_name(zest_option_kind kind);

/* The methods that need forward passes only, and those that take gradients, as bits of a row's `methods`. */
enum {
    ZEST_METHODS_FORWARD = (1 << ZEST_CHOICE_SGD) - 1,
    ZEST_METHODS_GRADIENT = (1 << ZEST_CHOICE_COUNT) - 1 - ZEST_METHODS_FORWARD
};
/* The position of a method in the choices of --method; ZEST_CHOICE_COUNT: there is none of this name. */
unsigned zest_option_find_method(const char *name);
static inline int zest_option_takes(const zest_option_row *row, uint64_t method) {
    return row->methods >> method & 1;
}
/* "sgd, sam, esam and tsam" for a set of methods; word: "and" or "or". Writes into out and returns it. */
const char *zest_option_name_methods(unsigned methods, const char *word, char *out, size_t size);

/* A value for every option. */
typedef struct {
    char *text[ZEST_OPTION_COUNT]; /* as given; NULL: the default */
    double number[ZEST_OPTION_COUNT];
    /* counts and seeds; the position of a choice; 0 or 1 for a flag; of a word instead of a number 1 and its position */
    uint64_t whole[ZEST_OPTION_COUNT];
    unsigned char given[ZEST_OPTION_COUNT];
} zest_options;

void zest_options_init(zest_options *options);
void zest_options_free(zest_options *options);
zest_status zest_options_copy(zest_options *to, const zest_options *from, zest_error *error);

/* Checks and stores. `users` says whose names are known. */
zest_status zest_options_set(zest_options *options, unsigned users, const char *name, const char *value,
                             zest_error *error);
zest_status zest_options_set_id(zest_options *options, zest_option_id id, const char *value,
                                zest_error *error);
/* Stores a text unchecked: a list of values that the caller splits and checks. */
zest_status zest_options_set_unchecked(zest_options *options, zest_option_id id, const char *text,
                                       zest_error *error);
/* Calls set for each of "name=value name=value ..." or of lines "name = value" with # comments, up to the first
 * that fails. source is for messages. */
typedef zest_status zest_option_setter(void *user, const char *name, const char *value, zest_error *error);
zest_status zest_options_parse(const char *text, const char *source, zest_option_setter *set, void *user,
                               zest_error *error);
/* The same with zest_options_set. */
zest_status zest_options_set_all(zest_options *options, unsigned users, const char *text, const char *source,
                                 zest_error *error);
/* Replaces a default: like set, but the option does not count as given. */
zest_status zest_options_set_default(zest_options *options, const char *text, zest_error *error);
/* "name=value\n" for every option of these users, in table order; set_all reads it back. */
void zest_options_print(const zest_options *options, unsigned users, zest_buffer *out);

/* t=auto of a method that has it: the tilt is chosen from the losses (optim/auto_t.h). */
static inline int zest_options_auto_t(const zest_options *o) {
    return o->whole[ZEST_OPTION_T] && o->whole[ZEST_OPTION_METHOD] < ZEST_CHOICE_MEZO;
}

static inline int zest_options_first_order(const zest_options *o) {
    return o->whole[ZEST_OPTION_METHOD] >= ZEST_CHOICE_SGD;
}

/* Refuses options that were switched on for a method that does not take them. given: where to look; method: the
 * run's. Options that are on by default, such as rho, may be given to any method. */
zest_status zest_options_check_method(const zest_options *given, uint64_t method, zest_error *error);
/* Refuses t=auto where no run chooses it. */
zest_status zest_options_check_t(const zest_options *options, zest_error *error);

const char *zest_options_text(const zest_options *options, zest_option_id id);
static inline double zest_options_number(const zest_options *o, zest_option_id id) { return o->number[id]; }
static inline uint64_t zest_options_whole(const zest_options *o, zest_option_id id) { return o->whole[id]; }
static inline int zest_options_given(const zest_options *o, zest_option_id id) { return o->given[id]; }
/* A list option: comma-separated numbers. *values is to be freed. */
zest_status zest_options_list(const zest_options *options, zest_option_id id, double **values, size_t *count,
                              zest_error *error);

/* ---- Suggestions for names that do not exist ---- */

enum { ZEST_OPTION_SUGGESTION_SIZE = 96 };

/* The end of a sentence: "; zest calls it --lr" for a name that other tools have, "; did you mean --batch?"
 * for one that is mistyped, and "" when neither fits. Only options of `users` are suggested; underscores
 * count as hyphens. quoted: 'lr' instead of --lr, as in a file. Writes into text, of
 * ZEST_OPTION_SUGGESTION_SIZE, and returns it. */
const char *zest_option_suggest(const char *name, unsigned users, int quoted, char *text);

/* Is this a name that zest or another tool has for an option of `users`? -steps or -ngl, of which only the
 * first letter would be read, are then no letters with a value. */
int zest_option_is_long_name(const char *name, size_t size, unsigned users);

#endif
