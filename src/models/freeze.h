/* Training some tensors and leaving the others as they are. */
#ifndef ZEST_MODELS_FREEZE_H
#define ZEST_MODELS_FREEZE_H

#include "models/model.h"

/* Patterns of names as a shell writes them (* ? [a-z]), several separated by commas; each is matched against
 * the whole name. Trained is what matches `only` (empty: everything) and does not match `not_these`. Elements
 * of the trained tensors are numbered anew, without gaps. Before a runner is made, and once: a pattern that
 * matches nothing is refused, and so is a model with nothing left to train. */
zest_status zest_freeze(zest_model *model, const char *only, const char *not_these, zest_error *error);

#endif
