/* What somebody may have meant who named an option that does not exist. */
#ifndef ZEST_BASE_OPTION_SUGGEST_H
#define ZEST_BASE_OPTION_SUGGEST_H

#include "base/option.h"

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
