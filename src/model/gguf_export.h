/* Writing a model as a GGUF file, for llama.cpp and what is built on it.
 *
 *     zest_gguf_metadata metadata = {0};
 *     zest_model_put_gguf(...), zest_tokenizer_put_gguf(...), zest_model_write_gguf(...)
 *
 * Vectors, and the positions of GPT-2, stay F32. Matrices have the type asked for, with two exceptions: the output
 * matrix (and embeddings that are also the output matrix) is Q6_K where the type has fewer bits, since its errors reach
 * every logit; and rows that are no multiple of a type's block take the next type with smaller blocks: of the K types
 * Q4_0, Q5_0, Q5_1 or Q8_0, of those F16. */
#ifndef ZEST_MODEL_GGUF_EXPORT_H
#define ZEST_MODEL_GGUF_EXPORT_H

#include "io/gguf_write.h"
#include "model/model.h"

/* Types that matrices can have, by name in any case: "q4_k"; "stored": 16-bit weights as they are, all others F32.
 * ZEST_GGUF_TYPE_STORED is no type of a file. 0: no such type. */
enum { ZEST_GGUF_TYPE_STORED = -1 };
int zest_model_find_gguf_type(const char *name, int *type);

/* The keys of the model. Refuses a family that llama.cpp does not have, or has without something that zest uses. */
zest_status zest_model_put_gguf(const zest_model *model, int type, zest_gguf_metadata *metadata,
                                zest_error *error);

/* The file, with metadata that are complete. The model's weights are those on the host: see zest_model_download. */
zest_status zest_model_write_gguf(const zest_model *model, int type, const zest_gguf_metadata *metadata,
                                  const char *path, int threads, zest_error *error);

#endif
