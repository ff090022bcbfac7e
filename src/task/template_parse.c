/* Reading templates. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

#include "task/template.h"

typedef struct {
    const char *source, *text;
    int inside; /* a replacement: only fields and options may stand there */
    zest_error *error;
} parser;

/* ---- Messages ---- */

static zest_status refuse(const parser *p, size_t at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static zest_status refuse(const parser *p, size_t at, const char *format, ...) {
    zest_buffer what = {0};
    size_t character = 1;
    va_list arguments;
    for (size_t i = 0; i < at; i++) character += ((unsigned char)p->text[i] & 0xC0) != 0x80;
    va_start(arguments, format);
    zest_buffer_vformat(&what, format, arguments);
    va_end(arguments);
    zest_status status =
        zest_error_set(p->error, ZEST_ERROR_ARGUMENT, "%s: template '%.200s', character %zu: %s", p->source,
                       p->text, character, what.failed || !what.data ? "it cannot be read" : what.data);
    zest_buffer_free(&what);
    return status;
}

static zest_status no_memory(const parser *p) {
    return zest_error_memory(p->error, "a template", strlen(p->text));
}

static zest_status refuse_change(const parser *p, size_t at, size_t size) {
    const char *nearest = NULL;
    size_t least = 4; /* further away is no typing mistake */
    zest_buffer known = {0};
    for (size_t i = 0; i < ZEST_TEMPLATE_NAMED; i++) {
        const char *name = zest_template_change_names[i];
        size_t d = zest_edit_distance(p->text + at, size, name);
        if (d < least) least = d, nearest = name;
        zest_buffer_format(&known, "%s, ", name);
    }
    zest_status status = refuse(p, at, "there is no change '%.*s'%s%s%s; there are %sand old=>new", (int)size,
                                p->text + at, nearest ? "; did you mean '" : "", nearest ? nearest : "",
                                nearest ? "'?" : "", known.data ? known.data : "");
    zest_buffer_free(&known);
    return status;
}

/* ---- Text ---- */

/* Appends one character of text, escapes undone, and moves on. */
static zest_status read_character(const parser *p, size_t *at, size_t end, zest_buffer *out) {
    static const char escaped[] = "nt\\|{}", meant[] = "\n\t\\|{}";
    const char *text = p->text;
    if (text[*at] != '\\') {
        zest_buffer_add(out, text + (*at)++, 1);
        return ZEST_OK;
    }
    const char *found = *at + 1 < end ? strchr(escaped, text[*at + 1]) : NULL;
    if (!found || !*found)
        return refuse(p, *at,
                      "a backslash stands before n, t, |, {, } or another backslash; write \\\\ for one");
    zest_buffer_add(out, &meant[found - escaped], 1);
    *at += 2;
    return ZEST_OK;
}

/* The range with escapes undone, to be freed. */
static zest_status read_text(const parser *p, size_t at, size_t end, char **out) {
    zest_buffer text = {0};
    zest_status status = ZEST_OK;
    zest_buffer_text(&text, "");
    while (at < end && !status) status = read_character(p, &at, end, &text);
    if (!status && (text.failed || !text.data)) status = no_memory(p);
    if (status) zest_buffer_free(&text);
    *out = status ? NULL : text.data;
    return status;
}

static void trim(const char *text, size_t *at, size_t *end) {
    while (*at < *end && text[*at] == ' ') ++*at;
    while (*at < *end && text[*end - 1] == ' ') --*end;
}

/* The first place where any of `signs` stands outside inner braces, or end. */
static size_t find_outside(const char *text, size_t at, size_t end, const char *signs) {
    size_t size = strlen(signs);
    for (int depth = 0; at < end; at++) {
        if (text[at] == '\\' && at + 1 < end) {
            at++;
            continue;
        }
        if (!depth && end - at >= size && !memcmp(text + at, signs, size)) return at;
        depth += (text[at] == '{') - (text[at] == '}');
    }
    return end;
}

/* ---- Pieces ---- */

static zest_status parse(parser *p, size_t at, size_t end, zest_template **out);

static zest_template_piece *add_piece(zest_template *t, zest_template_piece_kind kind, size_t at) {
    zest_template_piece *more = realloc(t->pieces, (t->count + 1) * sizeof *more);
    if (!more) return NULL;
    t->pieces = more;
    more[t->count] = (zest_template_piece){.kind = kind, .at = at};
    return &more[t->count++];
}

static zest_status add_replacement(parser *p, size_t at, size_t arrow, size_t end,
                                   zest_template_change *change) {
    if (arrow == at) return refuse(p, at, "nothing stands before '=>'; write old=>new");
    change->kind = ZEST_TEMPLATE_REPLACE;
    zest_status status = read_text(p, at, arrow, &change->from);
    int outer = p->inside;
    p->inside = 1;
    if (!status) status = parse(p, arrow + 2, end, &change->to);
    p->inside = outer;
    return status;
}

static zest_status add_change(parser *p, size_t at, size_t end, zest_template_piece *piece) {
    size_t arrow = find_outside(p->text, at, end, "=>");
    zest_template_change *more = realloc(piece->changes, (piece->change_count + 1) * sizeof *more);
    if (!more) return no_memory(p);
    piece->changes = more;
    zest_template_change *change = &more[piece->change_count++];
    *change = (zest_template_change){0};
    if (arrow < end) return add_replacement(p, at, arrow, end, change);
    trim(p->text, &at, &end);
    for (size_t i = 0; i < ZEST_TEMPLATE_NAMED; i++) {
        const char *name = zest_template_change_names[i];
        if (strlen(name) != end - at || memcmp(name, p->text + at, end - at) != 0) continue;
        change->kind = (zest_template_change_kind)i;
        return ZEST_OK;
    }
    return refuse_change(p, at, end - at);
}

static int is_word(const char *text, size_t at, size_t end, const char *word) {
    return strlen(word) == end - at && !memcmp(text + at, word, end - at);
}

static zest_status add_name(const parser *p, size_t at, size_t end, zest_template *t,
                            zest_template_piece **out) {
    size_t brace = at - 1;
    trim(p->text, &at, &end);
    if (at == end) return refuse(p, brace, "nothing stands in the braces; name a field, or write {{ and }}");
    zest_template_piece_kind kind = is_word(p->text, at, end, "mask")     ? ZEST_TEMPLATE_PIECE_MASK
                                    : is_word(p->text, at, end, "answer") ? ZEST_TEMPLATE_PIECE_ANSWER
                                    : is_word(p->text, at, end, "option") ? ZEST_TEMPLATE_PIECE_OPTION
                                                                          : ZEST_TEMPLATE_PIECE_FIELD;
    if (p->inside && (kind == ZEST_TEMPLATE_PIECE_MASK || kind == ZEST_TEMPLATE_PIECE_ANSWER))
        return refuse(p, brace, "{%.*s} cannot stand in a replacement", (int)(end - at), p->text + at);
    *out = add_piece(t, kind, brace);
    if (!*out) return no_memory(p);
    return kind == ZEST_TEMPLATE_PIECE_FIELD ? read_text(p, at, end, &(*out)->text) : ZEST_OK;
}

/* What stands between braces: a name, then changes behind bars. */
static zest_status add_braces(parser *p, size_t at, size_t end, zest_template *t) {
    size_t bar = find_outside(p->text, at, end, "|");
    zest_template_piece *piece = NULL;
    zest_status status = add_name(p, at, bar, t, &piece);
    if (!status && bar < end && piece->kind == ZEST_TEMPLATE_PIECE_MASK)
        return refuse(p, bar, "nothing can be changed in a mask");
    while (!status && bar < end) {
        at = bar + 1;
        bar = find_outside(p->text, at, end, "|");
        status = add_change(p, at, bar, piece);
    }
    return status;
}

/* Text up to the next piece. */
static zest_status add_literal(const parser *p, size_t *at, size_t end, zest_template *t) {
    const char *text = p->text;
    zest_buffer out = {0};
    zest_status status = ZEST_OK;
    size_t first = *at;
    while (*at < end && !status) {
        if (text[*at] != '{' && text[*at] != '}') {
            status = read_character(p, at, end, &out);
        } else if (*at + 1 < end && text[*at + 1] == text[*at]) {
            zest_buffer_add(&out, text + *at, 1);
            *at += 2;
        } else if (text[*at] == '{') {
            break;
        } else {
            status = refuse(p, *at, "'}' without a '{' before it; write }} for a brace");
        }
    }
    zest_template_piece *piece = status || !out.size ? NULL : add_piece(t, ZEST_TEMPLATE_PIECE_TEXT, first);
    if (!status && (out.failed || (out.size && !piece))) status = no_memory(p);
    if (status || !piece)
        zest_buffer_free(&out);
    else
        piece->text = out.data;
    return status;
}

static zest_status parse(parser *p, size_t at, size_t end, zest_template **out) {
    zest_template *t = *out = calloc(1, sizeof *t);
    zest_status status = t ? ZEST_OK : no_memory(p);
    while (at < end && !status) {
        status = add_literal(p, &at, end, t);
        if (status || at == end) break;
        size_t close = find_outside(p->text, at + 1, end, "}");
        if (close == end)
            status = refuse(p, at, "'{' is never closed; write {{ for a brace");
        else
            status = add_braces(p, at + 1, close, t);
        at = close + 1;
    }
    return status;
}

zest_status zest_template_parse(const char *text, const char *source, zest_template **out,
                                zest_error *error) {
    parser p = {.source = source, .text = text, .error = error};
    zest_status status = parse(&p, 0, strlen(text), out);
    if (!status) {
        (*out)->source = strdup(source);
        (*out)->text = strdup(text);
        if (!(*out)->source || !(*out)->text) status = no_memory(&p);
    }
    if (status) {
        zest_template_free(*out);
        *out = NULL;
    }
    return status;
}

void zest_template_free(zest_template *t) {
    if (!t) return;
    for (size_t i = 0; i < t->count; i++) {
        zest_template_piece *piece = &t->pieces[i];
        for (size_t c = 0; c < piece->change_count; c++) {
            free(piece->changes[c].from);
            zest_template_free(piece->changes[c].to);
        }
        free(piece->changes);
        free(piece->text);
    }
    free(t->pieces);
    free(t->source);
    free(t->text);
    free(t);
}

/* ---- What it may be used for ---- */

static zest_status check_inside(const zest_template *whole, const zest_template *t, const zest_rows *rows,
                                zest_error *error) {
    zest_status status = ZEST_OK;
    for (size_t i = 0; i < t->count && !status; i++) {
        const zest_template_piece *piece = &t->pieces[i];
        if (piece->kind == ZEST_TEMPLATE_PIECE_FIELD && zest_rows_field(rows, piece->text) < 0) {
            parser p = {.source = whole->source, .text = whole->text, .error = error};
            zest_buffer has = {0};
            for (size_t f = 0; f < rows->name_count; f++)
                zest_buffer_format(&has, "%s%s", f ? ", " : "", rows->names[f]);
            status =
                refuse(&p, piece->at, "%s has no field '%s'; it has %s", rows->path ? rows->path : "the data",
                       piece->text, has.data && !has.failed ? has.data : "none");
            zest_buffer_free(&has);
        }
        for (size_t c = 0; c < piece->change_count && !status; c++)
            if (piece->changes[c].to) status = check_inside(whole, piece->changes[c].to, rows, error);
    }
    return status;
}

zest_status zest_template_check(const zest_template *t, const zest_rows *rows, zest_error *error) {
    return check_inside(t, t, rows, error);
}

/* Where pieces of a kind stand: how many, and the last of them. */
static size_t count_kind(const zest_template *t, zest_template_piece_kind kind, size_t *at) {
    size_t count = 0;
    for (size_t i = 0; i < t->count; i++) {
        if (t->pieces[i].kind == kind) count++, *at = t->pieces[i].at;
        for (size_t c = 0; c < t->pieces[i].change_count; c++)
            if (t->pieces[i].changes[c].to) count += count_kind(t->pieces[i].changes[c].to, kind, at);
    }
    return count;
}

zest_status zest_template_expect(const zest_template *t, zest_template_use use, zest_error *error) {
    static const struct {
        const char *name, *what;
        zest_template_piece_kind kind;
    } uses[] = {{"{mask}", "of a masked model", ZEST_TEMPLATE_PIECE_MASK},
                {"{answer}", "of a causal model", ZEST_TEMPLATE_PIECE_ANSWER},
                {"{option}", "around options", ZEST_TEMPLATE_PIECE_OPTION}};
    parser p = {.source = t->source, .text = t->text, .error = error};
    size_t at = 0, own = count_kind(t, uses[use].kind, &at);
    if (own > 1 && use != ZEST_TEMPLATE_OPTION)
        return refuse(&p, at, "a second %s; a template %s has one", uses[use].name, uses[use].what);
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
        if (i != (size_t)use && count_kind(t, uses[i].kind, &at))
            return refuse(&p, at, "%s does not belong into a template %s, which has %s", uses[i].name,
                          uses[use].what, uses[use].name);
    if (!own) return refuse(&p, 0, "a template %s needs %s", uses[use].what, uses[use].name);
    return ZEST_OK;
}
