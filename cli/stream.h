/* Generated text shown token by token. A token may end within a UTF-8 character: its bytes wait for the rest. */
#ifndef ZEST_CLI_STREAM_H
#define ZEST_CLI_STREAM_H

#include "cli/lm.h"

typedef struct {
    zest_lm *lm;
    zest_buffer bytes; /* not shown yet */
    int skip_space; /* leave out a space in front of everything: tokenizers put one before a reply's first word */
    zest_buffer *copy; /* gets what is shown, too; or NULL */
    int silent;        /* show nothing: the copy alone */
    int failed;        /* out of memory */
} zest_cli_stream;

/* Bytes at the end of a text that more bytes could make a character of: 0 to 3. */
size_t zest_cli_stream_incomplete(const char *text, size_t size);

/* Shows what is complete. Special tokens are left out. */
void zest_cli_stream_token(zest_cli_stream *stream, int32_t token);
/* Shows the rest, with U+FFFD for what is no character. */
void zest_cli_stream_end(zest_cli_stream *stream);

#endif
