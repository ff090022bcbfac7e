/* Which names of repositories, revisions and files are accepted. They become parts of paths and of URLs, and
 * most of them come from a server. */
#ifndef ZEST_IO_HUB_FILES_H
#define ZEST_IO_HUB_FILES_H

#include "io/hub.h"

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

/* The list of a repository's files as the Hub sends it, and which of them zest needs. */

typedef struct {
    char commit[ZEST_SHA_1_DIGITS + 1];
    zest_hub_file *files; /* in the order of the Hub; those whose names are not accepted are left out */
    size_t count;
    const char *auto_class; /* of Python's transformers: AutoModelForMaskedLM or AutoModelForCausalLM */
} zest_hub_list;

/* The answer to GET /api/models/ORG/NAME/revision/REVISION?blobs=true. Free it whatever this says. */
zest_status zest_hub_list_parse(const char *text, size_t size, const char *source, zest_hub_list *list,
                                zest_error *error);
void zest_hub_list_free(zest_hub_list *list);
/* NULL: there is none of this name. */
const zest_hub_file *zest_hub_list_find(const zest_hub_list *list, const char *name);

/* Those to download, as pointers into a list, in the order in which they are downloaded and placed: a model's
 * config.json comes last, since a folder without one is no model yet. */
typedef struct {
    const zest_hub_file **files;
    size_t count;
    const zest_hub_file *index; /* of the shards, which are still to be added; NULL: there is none */
} zest_hub_choice;

/* `only`: this file; "": what a model is made of. repo is for messages. Free it whatever this says. */
zest_status zest_hub_choice_make(zest_hub_choice *choice, const zest_hub_list *list, const char *only,
                                 const char *repo, zest_error *error);
/* Adds the shards that the downloaded index names. */
zest_status zest_hub_choice_shards(zest_hub_choice *choice, const zest_hub_list *list, const char *index_path,
                                   const char *repo, zest_error *error);
void zest_hub_choice_free(zest_hub_choice *choice);

#endif
