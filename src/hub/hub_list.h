/* The list of a repository's files as the Hub sends it, and which of them zest needs. */
#ifndef ZEST_HUB_HUB_LIST_H
#define ZEST_HUB_HUB_LIST_H

#include "hub/hub.h"

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
