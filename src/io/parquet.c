/* Parquet files: their footer, and rows put together from columns.
 *
 * A column stores its values in the order of the rows, each with two numbers: the definition level says how many of the
 * optional and repeated nodes above the value are there, the repetition level which list goes on with it (0: a new row).
 * So a row is built from the root of the schema down, and each column is asked for its next entry when its place comes.
 * The columns of a file need not agree about lists and structs; what does not fit is refused. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "io/parquet_internal.h"

/* Limits on what unpacks beyond all measure: bytes at a time and bytes in all, for each byte of the file. Texts in
 * dictionaries with zstd may unpack to a hundred times their size, so these are far above. */
enum { LIVE_GROWTH = 64, WORK_GROWTH = 1024, LEAST_LIVE = 64 << 20, LEAST_WORK = 64 << 20 };
/* What jansson needs for a value, and for an object or a list, about. */
enum { VALUE_BYTES = 96, GROUP_BYTES = 320 };

struct zest_parquet {
    const unsigned char *bytes;
    size_t size; /* of the pages, up to the footer */
    const char *name;
    zest_parquet_schema schema;
    zest_thrift groups; /* the next row group */
    size_t groups_left;
    int64_t rows_left; /* in the row group */
    zest_parquet_column *columns;
    zest_parquet_budget budget;
    size_t row_used; /* of budget.live, by the row that is being built */
    /* while a row is built */
    zest_error *error;
    zest_status status;
};

static zest_status refuse(const zest_parquet *p, zest_error *error, const char *why) {
    return zest_error_set(error, ZEST_ERROR_FORMAT, "%s: %s", p->name, why);
}

/* ---- Footer ---- */

int zest_parquet_is(const void *bytes, size_t size) { return size >= 4 && !memcmp(bytes, "PAR1", 4); }

static zest_status read_metadata(zest_parquet *p, zest_thrift t, zest_error *error) {
    int schema = 0, groups = 0, element;
    zest_status status = ZEST_OK;
    for (zest_thrift_field f = {0}; !status && zest_thrift_next(&t, &f);) {
        if (f.id == 2 && !schema++) {
            status = zest_parquet_schema_read(&p->schema, &t, f.type, p->name, error);
        } else if (f.id == 4 && !groups++) {
            p->groups = t;
            zest_thrift_skip(&t, f.type);
            p->groups_left = zest_thrift_list(&p->groups, f.type, &element);
        } else {
            zest_thrift_skip(&t, f.type);
        }
    }
    if (!status && (t.failed || !schema || !groups))
        status = refuse(p, error, "is a Parquet file, but its footer is damaged; download it again");
    return status;
}

static zest_status read_footer(zest_parquet *p, const unsigned char *bytes, size_t size, zest_error *error) {
    if (!zest_parquet_is(bytes, size))
        return refuse(p, error, "is no Parquet file: it does not begin with PAR1");
    if (size >= 12 && !memcmp(bytes + size - 4, "PARE", 4))
        return refuse(p, error, "is an encrypted Parquet file, which zest does not read");
    if (size < 12 || memcmp(bytes + size - 4, "PAR1", 4))
        return refuse(p, error, "is a Parquet file that ends early; download it again");
    size_t footer = (size_t)zest_parquet_little(bytes + size - 8, 4);
    if (footer > size - 12)
        return refuse(p, error, "is a Parquet file, but its footer is damaged; download it again");
    p->bytes = bytes;
    p->size = size - 8 - footer;
    return read_metadata(p, (zest_thrift){.at = bytes + p->size, .end = bytes + size - 8}, error);
}

static size_t grown(size_t size, size_t growth, size_t least) {
    size_t most = size > SIZE_MAX / 2 / growth ? SIZE_MAX / 2 : size * growth;
    return most > least ? most : least;
}

zest_status zest_parquet_open(const void *bytes, size_t size, const char *name, const char *const *paths,
                              size_t path_count, zest_parquet **file, zest_error *error) {
    zest_parquet *p = calloc(1, sizeof *p);
    *file = NULL;
    if (!p) return zest_error_memory(error, name, sizeof *p);
    p->name = name;
    p->budget = (zest_parquet_budget){.live = grown(size, LIVE_GROWTH, LEAST_LIVE),
                                      .work = grown(size, WORK_GROWTH, LEAST_WORK)};
    zest_status status = read_footer(p, bytes, size, error);
    if (!status) status = zest_parquet_schema_select(&p->schema, paths, path_count, name, error);
    if (!status) {
        p->columns = calloc(p->schema.leaves, sizeof *p->columns);
        if (!p->columns) status = zest_error_memory(error, name, p->schema.leaves * sizeof *p->columns);
    }
    if (status) {
        zest_parquet_close(p);
        return status;
    }
    for (size_t i = 0; i < p->schema.count; i++)
        if (p->schema.nodes[i].kind == ZEST_PARQUET_LEAF && p->schema.nodes[i].selected)
            p->columns[p->schema.nodes[i].column] =
                (zest_parquet_column){.node = &p->schema.nodes[i], .file = name, .budget = &p->budget};
    *file = p;
    return ZEST_OK;
}

static void close_columns(zest_parquet *p) {
    for (size_t i = 0; p->columns && i < p->schema.leaves; i++) zest_parquet_column_close(&p->columns[i]);
}

void zest_parquet_close(zest_parquet *p) {
    if (!p) return;
    close_columns(p);
    free(p->columns);
    zest_parquet_schema_free(&p->schema);
    free(p);
}

/* ---- Row groups ---- */

static zest_status open_columns(zest_parquet *p, zest_thrift *t, int type, zest_error *error) {
    int element;
    size_t count = zest_thrift_list(t, type, &element);
    zest_status status = ZEST_OK;
    if (t->failed || element != ZEST_THRIFT_STRUCT || count != p->schema.leaves)
        return refuse(p, error, "a row group has not the columns of the schema; download the file again");
    for (size_t i = 0; i < count && !status; i++) {
        if (p->columns[i].node)
            status = zest_parquet_column_open(&p->columns[i], t, p->bytes, p->size, error);
        else
            zest_thrift_skip(t, ZEST_THRIFT_STRUCT);
    }
    return status;
}

static zest_status next_group(zest_parquet *p, zest_error *error) {
    zest_thrift *t = &p->groups;
    zest_status status = ZEST_OK;
    int columns = 0;
    close_columns(p);
    p->groups_left--;
    for (zest_thrift_field f = {0}; !status && zest_thrift_next(t, &f);) {
        if (f.id == 1 && !columns++)
            status = open_columns(p, t, f.type, error);
        else if (f.id == 3)
            p->rows_left = zest_thrift_bounded(t, f.type, 0, INT64_MAX);
        else
            zest_thrift_skip(t, f.type);
    }
    if (!status && (t->failed || !columns))
        status = refuse(p, error, "a row group is damaged; download the file again");
    return status;
}

/* Behind the last row of a row group every column has ended. */
static zest_status check_end(zest_parquet *p, zest_error *error) {
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < p->schema.leaves && !status; i++) {
        zest_parquet_column *c = &p->columns[i];
        if (!c->node) continue;
        status = zest_parquet_column_peek(c, error);
        if (!status && !c->ended)
            status = zest_parquet_column_refuse(c, error, "has more values than there are rows");
    }
    return status;
}

/* ---- Values ---- */

static double half_to_double(uint64_t bits) {
    int exponent = (int)(bits >> 10 & 31), sign = bits >> 15 & 1;
    double fraction = (double)(bits & 1023) / 1024, value = exponent == 31 ? (fraction > 0 ? NAN : INFINITY)
                                                            : exponent ? ldexp(1 + fraction, exponent - 15)
                                                                       : ldexp(fraction, -14);
    return sign ? -value : value;
}

static json_t *make_real(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static json_t *make_integer(const zest_parquet_node *n, uint64_t bits) {
    char digits[24];
    int narrow = n->type == ZEST_PARQUET_INT32;
    if (n->meaning == ZEST_PARQUET_UNSIGNED) {
        if (narrow) bits &= UINT32_MAX;
        if (bits <= INT64_MAX) return json_integer((json_int_t)bits);
        zest_number_format(digits, sizeof digits, "%llu", (unsigned long long)bits);
        return json_string(digits);
    }
    return json_integer(narrow ? (json_int_t)(int32_t)(uint32_t)bits : (json_int_t)(int64_t)bits);
}

/* NULL: p->status is set, or memory is short. */
static json_t *make_text(zest_parquet *p, const zest_parquet_column *c, const zest_parquet_value *value) {
    const char *text = (const char *)value->bytes;
    if (value->size && memchr(text, 0, value->size)) {
        p->status = zest_parquet_column_refuse(c, p->error,
                                               "has a zero byte in a value, which no text may have; name "
                                               "the columns that are text (fields = text label)");
        return NULL;
    }
    json_t *made = json_stringn(text, value->size),
           *any = made ? NULL : json_stringn_nocheck(text, value->size);
    if (any)
        p->status = zest_parquet_column_refuse(c, p->error,
                                               "has a value that is not UTF-8 text; name the columns that "
                                               "are text (fields = text label)");
    json_decref(any);
    return made;
}

static json_t *make_value(zest_parquet *p, const zest_parquet_column *c, const zest_parquet_value *value) {
    float single;
    double real;
    uint32_t low = (uint32_t)value->bits;
    switch (c->node->type) {
    case ZEST_PARQUET_BOOLEAN: return json_boolean(value->bits);
    case ZEST_PARQUET_INT32:
    case ZEST_PARQUET_INT64: return make_integer(c->node, value->bits);
    case ZEST_PARQUET_FLOAT: memcpy(&single, &low, sizeof single); return make_real((double)single);
    case ZEST_PARQUET_DOUBLE: memcpy(&real, &value->bits, sizeof real); return make_real(real);
    case ZEST_PARQUET_FIXED_BYTES: /* a half */
        return make_real(value->size == 2 ? half_to_double(zest_parquet_little(value->bytes, 2)) : NAN);
    default: return make_text(p, c, value);
    }
}

/* ---- Rows ---- */

/* What the next entries must be: the repetition level of the first, and the least and largest definition level. */
typedef struct {
    int rep, least, most;
} place;

/* Counts bytes of the row that is built. */
static int use_live(zest_parquet *p, size_t bytes) {
    if (!p->status && bytes > p->budget.live)
        p->status = refuse(p, p->error, "a row is far too large for a file of this size");
    if (p->status) return 0;
    p->budget.live -= bytes;
    p->row_used += bytes;
    return 1;
}

/* The first selected column below a node, with its next entry. */
static zest_parquet_column *first_column(zest_parquet *p, const zest_parquet_node *n) {
    zest_parquet_column *c = &p->columns[n->column];
    if (!p->status) p->status = zest_parquet_column_peek(c, p->error);
    return c;
}

static json_t *take_leaf(zest_parquet *p, const zest_parquet_node *n, place at) {
    zest_parquet_value value;
    int has;
    zest_parquet_column *c = first_column(p, n);
    if (p->status) return NULL;
    if (c->ended || c->rep != at.rep || c->def < at.least || c->def > at.most) {
        p->status = zest_parquet_column_refuse(
            c, p->error,
            c->ended ? "has fewer values than there are rows"
                     : "has other lists than its neighbours; the file is damaged, download it again");
        return NULL;
    }
    p->status = zest_parquet_column_take(c, &has, &value, p->error);
    if (p->status || !use_live(p, VALUE_BYTES + value.size)) return NULL;
    return has ? make_value(p, c, &value) : json_null();
}

/* Takes the entry of every column below a node that is not there. */
static void take_nothing(zest_parquet *p, size_t number, place at) {
    const zest_parquet_node *nodes = p->schema.nodes;
    for (size_t i = number; i < nodes[number].end && !p->status; i++)
        if (nodes[i].selected && nodes[i].kind == ZEST_PARQUET_LEAF) json_decref(take_leaf(p, &nodes[i], at));
}

static json_t *build_node(zest_parquet *p, size_t number, place at);
static json_t *build_content(zest_parquet *p, size_t number, place at);

/* The elements of a repeated node. */
static json_t *build_list(zest_parquet *p, size_t number, place at) {
    const zest_parquet_node *n = &p->schema.nodes[number];
    const zest_parquet_column *c = first_column(p, n);
    json_t *list = use_live(p, GROUP_BYTES) ? json_array() : NULL;
    if (!list || p->status) return list;
    if (c->ended || c->def < n->def) {
        at.most = at.most < n->def ? at.most : n->def - 1;
        take_nothing(p, number, at);
        return list;
    }
    at.least = n->def;
    do {
        json_t *item = n->wrapper ? build_node(p, number + 1, at) : build_content(p, number, at);
        zest_json_append(&list, item);
        first_column(p, n);
        at.rep = n->rep;
    } while (list && !p->status && !c->ended && c->rep == n->rep);
    return list;
}

static json_t *build_struct(zest_parquet *p, size_t number, place at) {
    const zest_parquet_node *nodes = p->schema.nodes;
    json_t *object = use_live(p, GROUP_BYTES) ? json_object() : NULL;
    for (size_t i = number + 1; i < nodes[number].end && object && !p->status; i = nodes[i].end) {
        if (!nodes[i].selected) continue;
        json_t *value = build_node(p, i, at);
        if (value && json_object_get(object, nodes[i].name)) {
            p->status = zest_error_set(p->error, ZEST_ERROR_FORMAT, "%s: has two columns '%.200s'", p->name,
                                       nodes[i].name);
            json_decref(value);
        } else {
            zest_json_set(&object, nodes[i].name, value);
        }
    }
    return object;
}

static json_t *build_content(zest_parquet *p, size_t number, place at) {
    const zest_parquet_node *n = &p->schema.nodes[number];
    if (n->kind == ZEST_PARQUET_LEAF) return take_leaf(p, n, at);
    return n->kind == ZEST_PARQUET_LISTING ? build_list(p, number + 1, at) : build_struct(p, number, at);
}

/* NULL: p->status is set, or memory is short. */
static json_t *build_node(zest_parquet *p, size_t number, place at) {
    const zest_parquet_node *n = &p->schema.nodes[number];
    if (n->repeated) return build_list(p, number, at);
    if (n->optional && n->kind != ZEST_PARQUET_LEAF) {
        const zest_parquet_column *c = first_column(p, n);
        if (p->status) return NULL;
        if (!c->ended && c->def < n->def) {
            at.most = at.most < n->def ? at.most : n->def - 1;
            take_nothing(p, number, at);
            return json_null();
        }
        at.least = n->def;
    }
    return build_content(p, number, at);
}

zest_status zest_parquet_next(zest_parquet *p, json_t **row, zest_error *error) {
    *row = NULL;
    while (!p->rows_left) {
        zest_status status = check_end(p, error);
        if (status || !p->groups_left) return status;
        status = next_group(p, error);
        if (status) return status;
    }
    p->error = error;
    p->status = ZEST_OK;
    json_t *made = build_struct(p, 0, (place){.rep = 0, .least = 0, .most = 255});
    p->budget.live += p->row_used;
    p->row_used = 0;
    p->rows_left--;
    if (!p->status && !made) p->status = zest_error_memory(error, p->name, 0);
    if (!p->status) {
        *row = made;
        return ZEST_OK;
    }
    json_decref(made);
    return p->status;
}
