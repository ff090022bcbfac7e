/* The shapes of well-known models, for benchmarks and memory plans on random weights. */
#ifndef ZEST_MODELS_SHAPES_H
#define ZEST_MODELS_SHAPES_H

/* What config.json of that model says; NULL: unknown. */
const char *zest_shapes_config(const char *name);
/* The i-th name; NULL behind the last. */
const char *zest_shapes_name(int i);

#endif
