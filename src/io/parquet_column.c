/* One column of a row group of a Parquet file: its pages, and its entries one after the other. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/parquet_internal.h"

zest_status zest_parquet_column_refuse(const zest_parquet_column *c, zest_error *error, const char *format,
                                       ...) {
    char sentence[500];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    return zest_error_set(error, ZEST_ERROR_FORMAT, "%s, column '%.200s': %s", c->file, c->node->path,
                          sentence);
}

/* ---- Column chunks ---- */

/* What is not in this file, or encrypted, is refused when a column needs it. */
typedef struct {
    int64_t type, codec, values, size, data, dictionary;
    int elsewhere, encrypted, found;
} chunk;

static void read_metadata(zest_thrift *t, chunk *k) {
    k->found = 1;
    for (zest_thrift_field f = {0}; zest_thrift_next(t, &f);) {
        switch (f.id) {
        case 1: k->type = zest_thrift_integer(t, f.type); break;
        case 4: k->codec = zest_thrift_bounded(t, f.type, 0, INT32_MAX); break;
        case 5: k->values = zest_thrift_bounded(t, f.type, 0, INT64_MAX); break;
        case 7: k->size = zest_thrift_bounded(t, f.type, 0, INT64_MAX); break;
        case 9: k->data = zest_thrift_bounded(t, f.type, 0, INT64_MAX); break;
        case 11: k->dictionary = zest_thrift_bounded(t, f.type, 0, INT64_MAX); break;
        default: zest_thrift_skip(t, f.type);
        }
    }
}

static chunk read_chunk(zest_thrift *t) {
    chunk k = {0};
    for (zest_thrift_field f = {0}; zest_thrift_next(t, &f);) {
        k.elsewhere |= f.id == 1;
        k.encrypted |= f.id == 8;
        if (f.id == 3 && f.type == ZEST_THRIFT_STRUCT)
            read_metadata(t, &k);
        else
            zest_thrift_skip(t, f.type);
    }
    return k;
}

zest_status zest_parquet_column_open(zest_parquet_column *c, zest_thrift *t, const unsigned char *bytes,
                                     size_t size, zest_error *error) {
    chunk k = read_chunk(t);
    if (t->failed)
        return zest_parquet_column_refuse(c, error, "its metadata is damaged; download the file again");
    if (k.elsewhere)
        return zest_parquet_column_refuse(c, error, "is in another file, which zest does not read");
    if (k.encrypted || !k.found)
        return zest_parquet_column_refuse(c, error, "is encrypted, which zest does not read");
    if (k.type != c->node->type)
        return zest_parquet_column_refuse(c, error, "has two types; the file is damaged, download it again");
    uint64_t start = (uint64_t)(k.dictionary > 0 && k.dictionary < k.data ? k.dictionary : k.data);
    if (start > size || (uint64_t)k.size > size - start)
        return zest_parquet_column_refuse(c, error,
                                          "reaches beyond the file, which is damaged; download it again");
    c->codec = (int)k.codec;
    c->at = bytes + start;
    c->end = c->at + k.size;
    c->left = (uint64_t)k.values;
    c->has_pages = c->loaded = c->ended = 0;
    c->page_left = 0;
    c->values.type = c->node->type;
    c->values.width = (size_t)c->node->width;
    c->values.dictionary = NULL;
    return ZEST_OK;
}

static void free_dictionary(zest_parquet_column *c) {
    c->budget->live += c->dictionary.page.capacity;
    if (c->dictionary.offsets) c->budget->live += c->dictionary.count * sizeof(size_t);
    zest_buffer_free(&c->dictionary.page);
    free(c->dictionary.offsets);
    c->dictionary = (zest_parquet_dictionary){0};
    c->values.dictionary = NULL;
}

void zest_parquet_column_close(zest_parquet_column *c) {
    if (!c->budget) return;
    free_dictionary(c);
    c->budget->live += c->page.capacity;
    zest_buffer_free(&c->page);
    zest_buffer_free(&c->values.text);
}

/* ---- Pages ---- */

enum { DATA_PAGE, INDEX_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 };

typedef struct {
    int64_t type, size, packed_size; /* unpacked, and in the file */
    int64_t count, encoding, def_encoding, rep_encoding, def_size, rep_size;
    int is_packed, has_details;
} header;

/* The fields of DataPageHeader and DictionaryPageHeader, which begin alike. */
static void read_details(zest_thrift *t, header *h) {
    h->has_details = 1;
    for (zest_thrift_field f = {0}; zest_thrift_next(t, &f);) {
        int integer = f.type == ZEST_THRIFT_I32;
        if (f.id == 1)
            h->count = zest_thrift_bounded(t, f.type, 0, INT32_MAX);
        else if (f.id == 2)
            h->encoding = zest_thrift_bounded(t, f.type, 0, INT32_MAX);
        else if (f.id == 3 && integer)
            h->def_encoding = zest_thrift_integer(t, f.type);
        else if (f.id == 4 && integer)
            h->rep_encoding = zest_thrift_integer(t, f.type);
        else
            zest_thrift_skip(t, f.type);
    }
}

static void read_details_v2(zest_thrift *t, header *h) {
    h->has_details = h->is_packed = 1;
    for (zest_thrift_field f = {0}; zest_thrift_next(t, &f);) {
        switch (f.id) {
        case 1: h->count = zest_thrift_bounded(t, f.type, 0, INT32_MAX); break;
        case 4: h->encoding = zest_thrift_bounded(t, f.type, 0, INT32_MAX); break;
        case 5: h->def_size = zest_thrift_bounded(t, f.type, 0, INT32_MAX); break;
        case 6: h->rep_size = zest_thrift_bounded(t, f.type, 0, INT32_MAX); break;
        case 7: h->is_packed = f.type == ZEST_THRIFT_TRUE; break;
        default: zest_thrift_skip(t, f.type);
        }
    }
}

static int read_header(zest_thrift *t, header *h) {
    *h = (header){.type = -1};
    for (zest_thrift_field f = {0}; zest_thrift_next(t, &f);) {
        int details = f.type == ZEST_THRIFT_STRUCT;
        if (f.id == 1)
            h->type = zest_thrift_bounded(t, f.type, 0, INT32_MAX);
        else if (f.id == 2)
            h->size = zest_thrift_bounded(t, f.type, 0, INT32_MAX);
        else if (f.id == 3)
            h->packed_size = zest_thrift_bounded(t, f.type, 0, INT32_MAX);
        else if (details &&
                 ((f.id == 5 && h->type == DATA_PAGE) || (f.id == 7 && h->type == DICTIONARY_PAGE)))
            read_details(t, h);
        else if (details && f.id == 8 && h->type == DATA_PAGE_V2)
            read_details_v2(t, h);
        else
            zest_thrift_skip(t, f.type);
    }
    return !t->failed && h->size <= INT32_MAX && (h->has_details || h->type == INDEX_PAGE);
}

static zest_status use_work(zest_parquet_column *c, size_t bytes, zest_error *error) {
    if (bytes > c->budget->work)
        return zest_parquet_column_refuse(
            c, error,
            "unpacks to more than any real data; if it is real, write the file in "
            "several parts");
    c->budget->work -= bytes;
    return ZEST_OK;
}

/* Makes room for exactly so many bytes, which count as live. */
static zest_status make_room(zest_parquet_column *c, zest_buffer *buffer, size_t size, zest_error *error) {
    if (size <= buffer->capacity) return ZEST_OK;
    c->budget->live += buffer->capacity;
    zest_buffer_free(buffer);
    if (size > c->budget->live)
        return zest_parquet_column_refuse(c, error,
                                          "a page unpacks to %zu bytes, too many for a file of its size; "
                                          "if it is real, write it with smaller pages",
                                          size);
    buffer->data = malloc(size);
    if (!buffer->data) return zest_error_memory(error, c->file, size);
    buffer->capacity = size;
    c->budget->live -= size;
    return ZEST_OK;
}

/* Unpacks bytes of the file, unless they are plain already. */
static zest_status unpack(zest_parquet_column *c, zest_buffer *buffer, const unsigned char **at,
                          size_t packed, size_t size, int is_packed, zest_error *error) {
    zest_status status = use_work(c, packed, error);
    if (!status) status = use_work(c, size, error);
    if (status) return status;
    if (!is_packed || zest_parquet_is_plain(c->codec)) {
        if (packed != size) return zest_parquet_column_refuse(c, error, "a page has two sizes");
        return ZEST_OK;
    }
    if (!size) return ZEST_OK;
    status = make_room(c, buffer, size, error);
    if (status) return status;
    const char *problem = zest_parquet_unpack(c->codec, *at, packed, (unsigned char *)buffer->data, size);
    if (problem) return zest_parquet_column_refuse(c, error, "%s", problem);
    *at = (const unsigned char *)buffer->data;
    return ZEST_OK;
}

static zest_status read_dictionary(zest_parquet_column *c, const header *h, const unsigned char *at,
                                   zest_error *error) {
    zest_parquet_dictionary *d = &c->dictionary;
    if (c->has_pages) return zest_parquet_column_refuse(c, error, "has a dictionary behind its first page");
    if (h->encoding != 0 && h->encoding != 2)
        return zest_parquet_column_refuse(c, error, "its dictionary has an encoding that zest does not read");
    zest_status status = unpack(c, &d->page, &at, (size_t)h->packed_size, (size_t)h->size, 1, error);
    if (status) return status;
    d->bytes = at;
    d->end = at + h->size;
    size_t offsets = c->values.width ? 0 : (size_t)h->count * sizeof(size_t);
    if (offsets > c->budget->live) return zest_parquet_column_refuse(c, error, "its dictionary ends early");
    const char *problem = zest_parquet_dictionary_read(d, c->values.type, c->values.width, (size_t)h->count);
    c->budget->live -= d->offsets ? offsets : 0;
    if (problem) return zest_parquet_column_refuse(c, error, "%s", problem);
    c->values.dictionary = d;
    return ZEST_OK;
}

static unsigned bits_for(int level) {
    unsigned bits = 0;
    for (; level >> bits; bits++) {
    }
    return bits;
}

/* Levels of version 1 stand before the values, packed with them, behind their size. */
static zest_status begin_levels(zest_parquet_column *c, zest_parquet_runs *levels, int max, int64_t encoding,
                                const unsigned char **at, const unsigned char *end, zest_error *error) {
    *levels = (zest_parquet_runs){0};
    if (!max) return ZEST_OK;
    if (encoding != 3)
        return zest_parquet_column_refuse(c, error,
                                          "its levels have an old encoding, which zest does not read; write "
                                          "the file with a library of today");
    size_t rest = (size_t)(end - *at), size = rest < 4 ? 0 : (size_t)zest_parquet_little(*at, 4);
    if (rest < 4 || size > rest - 4)
        return zest_parquet_column_refuse(c, error, "the levels of a page end early");
    *levels = (zest_parquet_runs){.at = *at + 4, .end = *at + 4 + size, .width = bits_for(max)};
    *at = levels->end;
    return ZEST_OK;
}

static zest_status begin_values(zest_parquet_column *c, const header *h, const unsigned char *at,
                                const unsigned char *end, zest_error *error) {
    const char *problem = zest_parquet_values_begin(&c->values, (int)h->encoding, at, end, (size_t)h->count);
    return problem ? zest_parquet_column_refuse(c, error, "%s", problem) : ZEST_OK;
}

static zest_status read_data(zest_parquet_column *c, const header *h, const unsigned char *at,
                             zest_error *error) {
    zest_status status = unpack(c, &c->page, &at, (size_t)h->packed_size, (size_t)h->size, 1, error);
    const unsigned char *end = at + h->size;
    if (!status) status = begin_levels(c, &c->reps, c->node->rep, h->rep_encoding, &at, end, error);
    if (!status) status = begin_levels(c, &c->defs, c->node->def, h->def_encoding, &at, end, error);
    return status ? status : begin_values(c, h, at, end, error);
}

/* Those of version 2 are never packed. */
static zest_status read_data_v2(zest_parquet_column *c, const header *h, const unsigned char *at,
                                zest_error *error) {
    int64_t levels = h->rep_size + h->def_size;
    if (levels > h->packed_size || levels > h->size)
        return zest_parquet_column_refuse(c, error, "the levels of a page end early");
    c->reps = (zest_parquet_runs){.at = at, .end = at + h->rep_size, .width = bits_for(c->node->rep)};
    at += h->rep_size;
    c->defs = (zest_parquet_runs){.at = at, .end = at + h->def_size, .width = bits_for(c->node->def)};
    at += h->def_size;
    size_t size = (size_t)(h->size - levels);
    zest_status status =
        unpack(c, &c->page, &at, (size_t)(h->packed_size - levels), size, h->is_packed, error);
    return status ? status : begin_values(c, h, at, at + size, error);
}

static zest_status next_page(zest_parquet_column *c, zest_error *error) {
    zest_thrift t = {.at = c->at, .end = c->end};
    header h;
    if (!read_header(&t, &h) || h.packed_size > c->end - t.at)
        return zest_parquet_column_refuse(c, error, "a page is damaged; download the file again");
    const unsigned char *at = t.at;
    c->at = at + h.packed_size;
    if (h.type == INDEX_PAGE) return ZEST_OK;
    zest_status status;
    if (h.type == DICTIONARY_PAGE) {
        status = read_dictionary(c, &h, at, error);
    } else {
        if ((uint64_t)h.count > c->left)
            return zest_parquet_column_refuse(c, error, "its pages have too many values");
        c->left -= (uint64_t)h.count;
        c->page_left = (size_t)h.count;
        status = h.type == DATA_PAGE ? read_data(c, &h, at, error) : read_data_v2(c, &h, at, error);
    }
    c->has_pages = 1;
    return status;
}

/* ---- Entries ---- */

static int next_level(zest_parquet_runs *levels, int max, int *level) {
    uint32_t value;
    *level = 0;
    if (!max) return 1;
    if (!zest_parquet_runs_next(levels, &value) || value > (uint32_t)max) return 0;
    *level = (int)value;
    return 1;
}

zest_status zest_parquet_column_peek(zest_parquet_column *c, zest_error *error) {
    if (c->loaded || c->ended) return ZEST_OK;
    while (!c->page_left && c->left) {
        if (c->at == c->end) return zest_parquet_column_refuse(c, error, "has fewer values than it says");
        zest_status status = next_page(c, error);
        if (status) return status;
    }
    c->rep = 0;
    c->ended = !c->page_left;
    if (c->ended) return ZEST_OK;
    if (!next_level(&c->reps, c->node->rep, &c->rep) || !next_level(&c->defs, c->node->def, &c->def))
        return zest_parquet_column_refuse(c, error,
                                          "the levels of a page are damaged; download the file again");
    c->page_left--;
    c->loaded = 1;
    return ZEST_OK;
}

zest_status zest_parquet_column_take(zest_parquet_column *c, int *has, zest_parquet_value *value,
                                     zest_error *error) {
    *value = (zest_parquet_value){0};
    *has = c->def == c->node->def;
    c->loaded = 0;
    zest_status status = use_work(c, 64, error);
    if (!status && *has) {
        const char *problem = zest_parquet_values_next(&c->values, value);
        if (problem) return zest_parquet_column_refuse(c, error, "%s", problem);
        status = use_work(c, value->size, error);
    }
    return status;
}
