/* Any line as the regular expression of a tokenizer, matched in the text behind it: an error with a sentence, or matches in
 * order and within the text, each at the edges of characters. */
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tokenizer/tokenizer_internal.h"
#include "tokenizer/unicode.h"

static int is_edge(const char *text, size_t size, size_t at) {
    return at <= size && (at == size || ((unsigned char)text[at] & 0xC0) != 0x80);
}

static void match(const zest_regex *regex, const char *text, size_t size) {
    zest_error error = {0};
    zest_regex_iterator walk = {0};
    size_t start, end, last = 0;
    int found = 1;
    if (zest_regex_begin(&walk, regex, text, size, &error)) __builtin_trap();
    while (!zest_regex_next(&walk, &found, &start, &end, &error) && found) {
        if (start < last || end < start || !is_edge(text, size, start) || !is_edge(text, size, end))
            __builtin_trap();
        last = end;
    }
    zest_regex_iterator_free(&walk);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    const char *pattern = (const char *)bytes, *line = size ? memchr(bytes, '\n', size) : NULL;
    size_t length = line ? (size_t)(line - pattern) : size;
    zest_error error = {0};
    if (zest_unicode_valid(pattern, size) < size) return 0; /* readers have checked it */
    zest_regex *regex = zest_regex_new(pattern, length, "fuzz", &error);
    if (!regex && (!error.message[0] || !error.status)) __builtin_trap();
    if (regex) match(regex, pattern + length, size - length);
    zest_regex_free(regex);
    return 0;
}

static const char *const pieces[] = {
    "(",        ")",        "|",      "[",        "]",     "[^",          "-",       "*",     "+",
    "?",        "??",       "*?",     "+?",       "++",    "*+",          "{2}",     "{1,3}", "{0}",
    "{2,}",     "{255}",    "{0,9}?", "(?:",      "(?i)",  "(?i:",        "(?=",     "(?!",   "(?-i:",
    "^",        "$",        "\\A",    "\\z",      "\\b",   "\\B",         "\\s",     "\\S",   "\\w",
    "\\d",      "\\p{L}",   "\\P{N}", "\\p{^Lu}", "\\x41", "\\u00e9",     "\\x{e9}", ".",     "a",
    "ab",       "\xC3\xA9", "'s",     "&&",       "[:",    "()",          "(a|b)",   "\\",    "\n",
    "aaaaaaaa", " \n ",     "\\n",    "\\p{",     "k",     "\xE2\x84\xAA"};

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed) {
    fuzz_random r = {seed};
    if (fuzz_below(&r, 3) == 0) return fuzz_mutate(FUZZ_TEXT, data, size, max, seed);
    for (size_t n = 1 + fuzz_below(&r, 4); n > 0; n--) {
        const char *piece = pieces[fuzz_below(&r, sizeof pieces / sizeof *pieces)];
        const uint8_t *line = size ? memchr(data, '\n', size) : NULL;
        size_t length = strlen(piece), all = line ? (size_t)(line - data) : size;
        size_t at = fuzz_below(&r, (fuzz_below(&r, 4) ? all : size) + 1),
               cut = fuzz_below(&r, 3) * length / 2;
        if (cut > size - at) cut = size - at;
        if (size - cut + length > max) break;
        memmove(data + at + length, data + at + cut, size - at - cut);
        memcpy(data + at, piece, length);
        size = size - cut + length;
    }
    return size;
}

void fuzz_seeds(fuzz_add add, void *user) {
    static const char *const seeds[] = {
        ZEST_PRE_TOKENIZER_GPT2_PATTERN "\nIt's 12  caf\xC3\xA9\n\n end",
        ZEST_PRE_TOKENIZER_CL100K_PATTERN("{1,3}") "\nIt's 12345  caf\xC3\xA9\r\n end",
        "\\s+$\n   a   \n",
        "(?i:'s|'LL|k)|\\bis\\b|[a-c&&&]\n'S 'll \xE2\x84\xAA is",
        "(?:a|ab)*?c|(?:(?:a|b)+c)+|d\nabcacd ab aaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "(?:[ab]{1,3}){2,4}x|a++b|\\x{e9}\\u00e8\naabbabx aab",
        "^a|b$|\\Aa|b\\z|a(?=b|c)|a(?!b)\na\nab ac ad b",
    };
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) add(seeds[i], strlen(seeds[i]), user);
}
