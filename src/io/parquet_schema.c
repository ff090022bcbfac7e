/* The schema of a Parquet file: a tree of columns, structs and lists; and which columns are read. */
#include <stdlib.h>
#include <string.h>

#include "io/parquet_internal.h"

/* ---- Elements, as the file has them ---- */

enum { REQUIRED, OPTIONAL, REPEATED };
enum { NO_TYPE = -1, MAX_PATH_BYTES = 16 << 20 };
enum { CONVERTED_MAP = 1, CONVERTED_MAP_ENTRY = 2, CONVERTED_LIST = 3 };
enum { LOGICAL_MAP = 2, LOGICAL_LIST = 3, LOGICAL_INTEGER = 10, LOGICAL_FLOAT16 = 15 };

typedef struct {
    int type, repetition, converted, logical, is_signed;
    int64_t width, children;
    const char *name;
    size_t name_size;
} element;

/* A union: a struct with one field, whose number says what it is. */
static void read_logical(zest_thrift *t, element *e) {
    for (zest_thrift_field f = {0}; zest_thrift_next(t, &f);) {
        e->logical = f.id;
        if (f.id != LOGICAL_INTEGER || f.type != ZEST_THRIFT_STRUCT) {
            zest_thrift_skip(t, f.type);
            continue;
        }
        for (zest_thrift_field g = {0}; zest_thrift_next(t, &g);) {
            if (g.id == 2) e->is_signed = g.type == ZEST_THRIFT_TRUE;
            zest_thrift_skip(t, g.type);
        }
    }
}

static element read_element(zest_thrift *t) {
    element e = {.type = NO_TYPE, .converted = -1, .is_signed = 1};
    for (zest_thrift_field f = {0}; zest_thrift_next(t, &f);) {
        switch (f.id) {
        case 1: e.type = (int)zest_thrift_bounded(t, f.type, 0, ZEST_PARQUET_FIXED_BYTES); break;
        case 2: e.width = zest_thrift_bounded(t, f.type, 0, INT32_MAX); break;
        case 3: e.repetition = (int)zest_thrift_bounded(t, f.type, REQUIRED, REPEATED); break;
        case 4: e.name = zest_thrift_text(t, f.type, &e.name_size); break;
        case 5: e.children = zest_thrift_bounded(t, f.type, 0, INT32_MAX); break;
        case 6: e.converted = (int)zest_thrift_bounded(t, f.type, 0, INT32_MAX); break;
        case 10:
            if (f.type == ZEST_THRIFT_STRUCT)
                read_logical(t, &e);
            else
                t->failed = 1;
            break;
        default: zest_thrift_skip(t, f.type);
        }
    }
    if (!e.name) t->failed = 1;
    return e;
}

/* ---- What the values of a column are ---- */

static const char *logical_name(int logical) {
    static const char *const names[] = {
        NULL, NULL, "map", NULL,   NULL,   "decimal", "date",    "time",     "timestamp", NULL,
        NULL, NULL, NULL,  "BSON", "UUID", NULL,      "variant", "geometry", "geography"};
    return logical >= 0 && logical < (int)(sizeof names / sizeof *names) ? names[logical] : "unknown";
}

static const char *converted_name(int converted) {
    static const char *const names[] = {
        NULL, "map", "map", NULL, NULL, "decimal", "date", "time", "time", "timestamp", "timestamp",
        NULL, NULL,  NULL,  NULL, NULL, NULL,      NULL,   NULL,   NULL,   "BSON",      "interval"};
    if (converted < 0) return NULL;
    return converted < (int)(sizeof names / sizeof *names) ? names[converted] : "unknown";
}

static void set_meaning(zest_parquet_node *n, const element *e) {
    static const size_t widths[] = {0, 4, 8, 12, 4, 8, 0, 0};
    int integer = n->type == ZEST_PARQUET_INT32 || n->type == ZEST_PARQUET_INT64;
    n->width = n->type == ZEST_PARQUET_FIXED_BYTES ? (int)e->width : (int)widths[n->type];
    n->what = logical_name(e->logical);
    if (!n->what && !e->logical) n->what = converted_name(e->converted);
    if (!n->what && n->type == ZEST_PARQUET_INT96) n->what = "timestamp (INT96)";
    if (!n->what && n->type == ZEST_PARQUET_FIXED_BYTES) {
        if (e->logical == LOGICAL_FLOAT16 && n->width == 2)
            n->meaning = ZEST_PARQUET_FLOAT16;
        else
            n->what = "bytes of a fixed number";
    }
    if (n->what) n->meaning = ZEST_PARQUET_OTHER;
    int is_unsigned =
        (e->logical == LOGICAL_INTEGER && !e->is_signed) || (e->converted >= 11 && e->converted <= 14);
    if (integer && is_unsigned && !n->what) n->meaning = ZEST_PARQUET_UNSIGNED;
}

/* ---- The tree ---- */

typedef struct {
    zest_parquet_schema *schema;
    zest_thrift *t;
    size_t count; /* elements in the file */
    size_t path_bytes;
    const char *name;
    zest_error *error;
} reading;

static zest_status damaged(const reading *r, const char *why) {
    return zest_error_set(r->error, ZEST_ERROR_FORMAT, "%s: is a Parquet file, but %s; download it again",
                          r->name, why);
}

/* Names are UTF-8 without a zero byte, and become keys. */
static zest_status copy_name(const reading *r, const element *e, char **name) {
    json_t *text = memchr(e->name, 0, e->name_size) ? NULL : json_stringn(e->name, e->name_size);
    if (!text) return damaged(r, "the name of a column is not UTF-8");
    json_decref(text);
    *name = strndup(e->name, e->name_size);
    return *name ? ZEST_OK : zest_error_memory(r->error, r->name, e->name_size);
}

/* The path of a column in a row of JSON. inner: that of its parent, with a dot behind it; lists have none. A long name
 * of a struct is in the path of each of its columns, so there is a limit. */
static zest_status set_path(reading *r, zest_parquet_node *n, const char *inner, int named) {
    zest_buffer path = {0};
    r->path_bytes += strlen(inner) + strlen(n->name);
    if (r->path_bytes > MAX_PATH_BYTES) return damaged(r, "the names of its columns are too long");
    zest_buffer_format(&path, "%s%s", inner, named ? n->name : "");
    if (!named && path.size) path.data[--path.size] = '\0'; /* the dot */
    if (path.failed) zest_buffer_free(&path);
    n->path = path.data;
    return n->path ? ZEST_OK : zest_error_memory(r->error, r->name, strlen(inner));
}

/* In a list the repeated node is mostly a struct of the element alone, without a meaning of its own; but in old files
 * it is the element. These are the rules of the format. */
static int is_wrapper(const zest_parquet_node *list, const zest_parquet_node *repeated, const element *e) {
    size_t size = strlen(list->name);
    if (e->type != NO_TYPE || e->children != 1) return 0;
    if (!strcmp(repeated->name, "array")) return 0;
    return strncmp(repeated->name, list->name, size) || strcmp(repeated->name + size, "_tuple");
}

static zest_status read_node(reading *r, size_t parent, const char *inner, int depth);

static zest_status read_children(reading *r, size_t number, const element *e, const char *inner, int named,
                                 int depth) {
    zest_buffer path = {0};
    const zest_parquet_node *n = &r->schema->nodes[number];
    if (named)
        zest_buffer_format(&path, "%s%s.", inner, n->name);
    else
        zest_buffer_text(&path, inner);
    zest_status status = path.failed ? zest_error_memory(r->error, r->name, path.size) : ZEST_OK;
    for (int64_t i = 0; i < e->children && !status; i++) status = read_node(r, number, path.data, depth + 1);
    zest_buffer_free(&path);
    return status;
}

/* Kind and levels of a node that its parent gives it. */
static void set_levels(zest_parquet_node *n, const zest_parquet_node *parent, const element *e) {
    n->optional = e->repetition == OPTIONAL;
    n->repeated = e->repetition == REPEATED;
    n->def = parent->def + (e->repetition != REQUIRED);
    n->rep = parent->rep + n->repeated;
    n->wrapper = n->repeated && parent->kind == ZEST_PARQUET_LISTING && is_wrapper(parent, n, e);
    n->kind = e->type != NO_TYPE ? ZEST_PARQUET_LEAF : ZEST_PARQUET_STRUCT;
    int list = e->logical == LOGICAL_LIST || (!e->logical && e->converted == CONVERTED_LIST);
    if (n->kind == ZEST_PARQUET_STRUCT && list && !n->repeated) n->kind = ZEST_PARQUET_LISTING;
    int map =
        e->logical == LOGICAL_MAP || e->converted == CONVERTED_MAP || e->converted == CONVERTED_MAP_ENTRY;
    n->what = parent->what ? parent->what : map ? "map" : NULL;
    if (n->what) n->meaning = ZEST_PARQUET_OTHER;
}

static zest_status read_leaf(reading *r, zest_parquet_node *n, const element *e, const char *inner,
                             int named) {
    const char *above = n->what;
    n->type = e->type;
    set_meaning(n, e);
    if (above) n->what = above, n->meaning = ZEST_PARQUET_OTHER;
    if (e->children) return damaged(r, "a column has columns in it");
    if (n->type == ZEST_PARQUET_FIXED_BYTES && !n->width)
        return damaged(r, "a column has values of no bytes");
    if (r->schema->leaves == ZEST_PARQUET_MAX_COLUMNS) return damaged(r, "it has more than 16384 columns");
    n->column = r->schema->leaves++;
    return set_path(r, n, inner, named);
}

static zest_status read_node(reading *r, size_t parent, const char *inner, int depth) {
    zest_parquet_schema *s = r->schema;
    if (depth > ZEST_PARQUET_MAX_DEPTH) return damaged(r, "its columns are nested more than 64 deep");
    if (s->count == r->count) return damaged(r, "its schema ends early");
    element e = read_element(r->t);
    if (r->t->failed) return damaged(r, "its schema is damaged");
    size_t number = s->count++;
    zest_parquet_node *n = &s->nodes[number], root = {0};
    const zest_parquet_node *above = depth ? &s->nodes[parent] : &root;
    zest_status status = copy_name(r, &e, &n->name);
    if (status) return status;
    if (depth) {
        set_levels(n, above, &e);
        if (above->kind == ZEST_PARQUET_LISTING && (!n->repeated || number != parent + 1))
            return damaged(r, "a list in its schema is not as the format has it");
    } else {
        n->kind = ZEST_PARQUET_STRUCT;
    }
    /* a list's element has the name of the list */
    int named = depth && !(above->kind == ZEST_PARQUET_LISTING) && !above->wrapper;
    if (n->kind == ZEST_PARQUET_LEAF)
        status = read_leaf(r, n, &e, inner, named);
    else if (!e.children && depth)
        status = damaged(r, "a struct in its schema is empty");
    else
        status = read_children(r, number, &e, inner, named, depth);
    n->end = s->count;
    return status;
}

zest_status zest_parquet_schema_read(zest_parquet_schema *s, zest_thrift *t, int type, const char *name,
                                     zest_error *error) {
    reading r = {.schema = s, .t = t, .name = name, .error = error};
    int kind;
    r.count = zest_thrift_list(t, type, &kind);
    if (t->failed || kind != ZEST_THRIFT_STRUCT || !r.count) return damaged(&r, "it has no schema");
    s->nodes = calloc(r.count, sizeof *s->nodes);
    if (!s->nodes) return zest_error_memory(error, name, r.count * sizeof *s->nodes);
    zest_status status = read_node(&r, 0, "", 0);
    if (!status && s->count != r.count) status = damaged(&r, "its schema has more than its columns");
    return status;
}

void zest_parquet_schema_free(zest_parquet_schema *s) {
    for (size_t i = 0; i < s->count; i++) {
        free(s->nodes[i].name);
        free(s->nodes[i].path);
    }
    free(s->nodes);
    *s = (zest_parquet_schema){0};
}

/* ---- Selection ---- */

/* Whether the path is that of the column, or of something that the column is in. */
static int matches(const char *column, const char *path) {
    size_t size = strlen(path);
    return !strncmp(column, path, size) && (!column[size] || column[size] == '.');
}

static zest_status refuse_selection(const zest_parquet_schema *s, const char *name, zest_error *error) {
    zest_buffer known = {0};
    for (size_t i = 0; i < s->count && known.size < 500; i++) {
        const zest_parquet_node *n = &s->nodes[i];
        if (n->kind != ZEST_PARQUET_LEAF) continue;
        zest_buffer_format(&known, "%s%.100s%s%s%s", known.size ? ", " : "", n->path, n->what ? " (" : "",
                           n->what ? n->what : "", n->what ? ", not read)" : "");
    }
    zest_status status = zest_error_set(error, ZEST_ERROR_FORMAT,
                                        "%s: has none of the columns that are needed; its columns are: %s",
                                        name, known.data ? known.data : "none");
    zest_buffer_free(&known);
    return status;
}

/* Selects the columns of a path. Some may have types that are not read, but not all of them. */
static zest_status select_path(zest_parquet_schema *s, const char *path, const char *name,
                               zest_error *error) {
    const zest_parquet_node *other = NULL;
    int any = 0;
    for (size_t i = 0; i < s->count; i++) {
        zest_parquet_node *n = &s->nodes[i];
        if (n->kind != ZEST_PARQUET_LEAF || (path && !matches(n->path, path))) continue;
        n->selected |= n->meaning != ZEST_PARQUET_OTHER;
        any |= n->selected;
        if (!n->selected) other = n;
    }
    if (any || !other || !path) return ZEST_OK;
    return zest_error_set(
        error, ZEST_ERROR_FORMAT,
        "%s: the column '%.200s' is a %s, which zest does not read; its values must be texts, "
        "integers, floating-point numbers or booleans",
        name, path, other->what);
}

/* A struct or a list is selected with any of its columns. Returns whether the whole has one. */
static int select_parents(zest_parquet_schema *s) {
    for (size_t i = s->count; i-- > 0;) { /* children before their parents */
        zest_parquet_node *n = &s->nodes[i];
        if (n->kind == ZEST_PARQUET_LEAF) continue;
        for (size_t j = i + 1; j < n->end && !n->selected; j = s->nodes[j].end)
            if (s->nodes[j].selected) n->selected = 1, n->column = s->nodes[j].column;
    }
    return s->nodes[0].selected;
}

zest_status zest_parquet_schema_select(zest_parquet_schema *s, const char *const *paths, size_t path_count,
                                       const char *name, zest_error *error) {
    zest_status status = paths ? ZEST_OK : select_path(s, NULL, name, error);
    for (size_t i = 0; paths && i < path_count && !status; i++)
        status = select_path(s, paths[i], name, error);
    if (!status && !select_parents(s)) status = refuse_selection(s, name, error);
    return status;
}
