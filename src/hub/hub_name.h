/* Which names of repositories, revisions and files are accepted. They become parts of paths and of URLs, and
 * most of them come from a server. */
#ifndef ZEST_HUB_HUB_NAME_H
#define ZEST_HUB_HUB_NAME_H

#include "hub/hub.h"

enum { ZEST_HUB_REVISION_SIZE = 201, ZEST_HUB_FILE_SIZE = 256 };

/* ORG/NAME, or a NAME alone (repositories of the Hub's first years), by the Hub's rules. */
int zest_hub_name_repo(const char *name);
int zest_hub_name_has_org(const char *name);
/* A branch, tag or commit; may have slashes, never leads out of a folder. */
int zest_hub_name_revision(const char *name);
/* A file in a repository: relative, no empty part, no "." or "..", no backslash, no control character. */
int zest_hub_name_file(const char *name);
/* `digits` lower-case hexadecimal digits. */
int zest_hub_name_hex(const char *text, size_t digits);

/* Takes "ORG/NAME@REVISION" or "ORG/NAME" apart (revision: "main" then). 0: it is neither. */
int zest_hub_name_split(const char *name, char repo[ZEST_HUB_REPO_SIZE],
                        char revision[ZEST_HUB_REVISION_SIZE]);

/* The repository that a well-known short name means: "roberta-base" is FacebookAI/roberta-base. NULL: none.
 */
const char *zest_hub_name_known(const char *name);

/* Replaces control characters, for text of a server that a message shows. */
void zest_hub_name_clean(char *text);

#endif
