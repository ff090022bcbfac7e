/* Writing a tokenizer as Hugging Face's tokenizer.json, for models that came from a GGUF file. */
#ifndef ZEST_TOKENIZER_SAVE_H
#define ZEST_TOKENIZER_SAVE_H

#include "tokenizer/tokenizer.h"

/* Can it be written? Byte-level BPE can, cut by the patterns that GGUF files name. */
int zest_save_can(const zest_tokenizer *tokenizer);

/* Writes tokenizer.json and tokenizer_config.json (special tokens by their role) into the folder. */
zest_status zest_save_tokenizer(const zest_tokenizer *tokenizer, const char *folder, zest_error *error);

#endif
