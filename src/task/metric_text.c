/* Texts compared with right texts, as in SQuAD's evaluation. */
#include <math.h>
#include <string.h>

#include "task/metric.h"
#include "task/template.h"
#include "tokenizer/unicode.h"

/* ---- Clean-up ---- */

static void replace_all(zest_buffer *text, const char *from, const char *to) {
    size_t from_size = strlen(from), to_size = strlen(to), out = 0, at = 0;
    while (at < text->size) { /* never longer than before */
        if (text->size - at >= from_size && !memcmp(text->data + at, from, from_size)) {
            memcpy(text->data + out, to, to_size);
            out += to_size;
            at += from_size;
        } else {
            text->data[out++] = text->data[at++];
        }
    }
    text->size = out;
    text->data[out] = 0;
}

void zest_metric_clean_up(zest_buffer *text) {
    static const char *const pairs[][2] = {{" .", "."},     {" ?", "?"},     {" !", "!"},   {" ,", ","},
                                           {" ' ", "'"},    {" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"},
                                           {" 've", "'ve"}, {" 're", "'re"}};
    static const zest_template_change strip = {.kind = ZEST_TEMPLATE_STRIP};
    if (text->failed || !text->data) return;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) replace_all(text, pairs[i][0], pairs[i][1]);
    zest_template_change_text(&strip, NULL, text, 0);
}

/* ---- Normalisation ---- */

static int is_punctuation(uint32_t code) {
    return code < 0x80 && code > ' ' && !((code | 32) >= 'a' && (code | 32) <= 'z') &&
           !(code >= '0' && code <= '9') && code != 0x7F;
}

/* \w of Python, but for "_", which is gone by now. */
static int in_word(uint32_t code) {
    return (zest_unicode_class(code) & (ZEST_UNICODE_LETTER | ZEST_UNICODE_NUMBER)) != 0;
}

/* Lower case, without punctuation. */
static void write_plain(const char *text, size_t size, zest_buffer *out) {
    for (size_t at = 0; at < size;) {
        char bytes[4];
        uint32_t code;
        at += zest_unicode_read(text + at, &code);
        if (is_punctuation(code)) continue;
        zest_buffer_add(out, bytes, zest_unicode_write(zest_template_lower(code), bytes));
    }
}

static int is_article(const char *word, size_t size) {
    return (size == 1 && word[0] == 'a') || (size == 2 && !memcmp(word, "an", 2)) ||
           (size == 3 && !memcmp(word, "the", 3));
}

/* Words a, an and the become a space. */
static void write_without_articles(const char *text, size_t size, zest_buffer *out) {
    for (size_t at = 0; at < size;) {
        uint32_t code;
        size_t first = at, length = zest_unicode_read(text + at, &code);
        if (!in_word(code)) {
            zest_buffer_add(out, text + at, length);
            at += length;
            continue;
        }
        while (at < size && (length = zest_unicode_read(text + at, &code), in_word(code))) at += length;
        if (is_article(text + first, at - first))
            zest_buffer_add(out, " ", 1);
        else
            zest_buffer_add(out, text + first, at - first);
    }
}

/* What lies between whitespace, joined by single spaces. */
static void write_joined(const char *text, size_t size, zest_buffer *out) {
    int space = 0;
    for (size_t at = 0; at < size;) {
        uint32_t code;
        size_t length = zest_unicode_read(text + at, &code);
        if (zest_template_is_space(code)) {
            space = out->size > 0;
        } else {
            if (space) zest_buffer_add(out, " ", 1);
            zest_buffer_add(out, text + at, length);
            space = 0;
        }
        at += length;
    }
}

/* Appends the normal form to the empty *out. 0: no memory. */
static int normalise(const char *text, zest_buffer *out) {
    zest_buffer valid = {0}, plain = {0}, bare = {0};
    zest_unicode_repair(text, strlen(text), &valid);
    if (valid.data) write_plain(valid.data, valid.size, &plain);
    if (plain.data) write_without_articles(plain.data, plain.size, &bare);
    zest_buffer_text(out, "");
    if (bare.data) write_joined(bare.data, bare.size, out);
    int done = !valid.failed && !plain.failed && !bare.failed && !out->failed;
    zest_buffer_free(&valid);
    zest_buffer_free(&plain);
    zest_buffer_free(&bare);
    return done;
}

/* ---- Comparison ---- */

typedef struct {
    const char *at;
    size_t size;
} word;

/* Moves to the next word of a normal form; 0: there is none. */
static int next_word(const char **text, word *w) {
    if (!**text) return 0;
    w->at = *text;
    w->size = strcspn(*text, " ");
    *text += w->size;
    *text += **text == ' ';
    return 1;
}

static size_t count_word(const char *text, word wanted) {
    size_t count = 0;
    for (word w; next_word(&text, &w);) count += w.size == wanted.size && !memcmp(w.at, wanted.at, w.size);
    return count;
}

/* F1 of two normal forms, as bags of words. */
static double bag_f1(const char *text, const char *gold) {
    size_t both = 0, mine = 0, right = 0;
    const char *at = text;
    word w;
    for (; next_word(&at, &w); mine++) {
        size_t before = 0, there = count_word(gold, w);
        const char *again = text;
        for (word v; again < w.at && next_word(&again, &v);)
            before += v.size == w.size && !memcmp(v.at, w.at, w.size);
        both += before < there; /* the first `there` of equal words are matched */
    }
    for (at = gold; next_word(&at, &w);) right++;
    if (!both) return 0;
    double precision = (double)both / (double)mine, recall = (double)both / (double)right;
    return 2 * precision * recall / (precision + recall);
}

static double equal(const char *text, const char *gold) { return strcmp(text, gold) == 0; }

static double best_of(const char *text, char *const *gold, size_t count,
                      double (*compare)(const char *, const char *)) {
    zest_buffer mine = {0}, right = {0};
    double best = 0;
    int done = normalise(text, &mine);
    for (size_t i = 0; i < count && gold[i] && done; i++) {
        right.size = 0;
        done = normalise(gold[i], &right);
        double value = done ? compare(mine.data, right.data) : 0;
        if (value > best) best = value;
    }
    zest_buffer_free(&mine);
    zest_buffer_free(&right);
    return done ? best : NAN;
}

double zest_metric_token_f1(const char *text, char *const *gold) {
    if (gold[0] && (!strcmp(gold[0], "CANNOTANSWER") || !strcmp(gold[0], "no answer")))
        return best_of(text, gold, 1, equal);
    return best_of(text, gold, SIZE_MAX, bag_f1);
}

double zest_metric_exact(const char *text, char *const *gold) { return best_of(text, gold, SIZE_MAX, equal); }
