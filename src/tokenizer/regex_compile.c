/* From the tree of a regular expression to its program, and the numbers of characters: those that are in the same sets
 * have the same number. */
#include <stdlib.h>
#include <string.h>

#include "tokenizer/regex_internal.h"

typedef struct {
    zest_regex *regex;
    const zest_regex_tree *tree;
    zest_regex_classes set[ZEST_REGEX_SETS]; /* numbers of the characters in each set of the tree */
    size_t visits;                           /* of nodes */
    const char *problem;
    int failed;
} compiler;

/* ---- Numbers of characters ---- */

enum { UNICODE = 0x110000, BLOCK = 256, NUMBERS = 256 };

typedef struct {
    uint64_t in[(ZEST_REGEX_SETS + 63) / 64]; /* the sets that a character is in */
} membership;

static int by_code(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Where the sets that a character is in may change: sorted, from 0 to UNICODE. NULL: out of memory. */
static uint32_t *find_borders(const zest_regex_tree *tree, size_t *count) {
    size_t all = 2, n = 0;
    for (size_t s = 0; s < tree->sets; s++) all += 2 * tree->set[s].count;
    uint32_t *border = malloc(all * sizeof *border);
    if (!border) return NULL;
    border[n++] = 0, border[n++] = UNICODE;
    for (size_t s = 0; s < tree->sets; s++)
        for (size_t i = 0; i < tree->set[s].count; i++) {
            border[n++] = tree->set[s].range[i].low;
            border[n++] = tree->set[s].range[i].high + 1;
        }
    qsort(border, n, sizeof *border, by_code);
    *count = 0;
    for (size_t i = 0; i < n; i++)
        if (!*count || border[*count - 1] != border[i]) border[(*count)++] = border[i];
    return border;
}

/* The number of a kind of characters; NUMBERS: there are too many. */
static unsigned number_of(membership *known, unsigned *count, const membership *one) {
    unsigned i = 0;
    while (i < *count && memcmp(&known[i], one, sizeof *one)) i++;
    if (i == *count && i < NUMBERS) known[(*count)++] = *one;
    return i;
}

static void number_characters(compiler *c, unsigned char *number) {
    membership known[NUMBERS];
    size_t borders, cursor[ZEST_REGEX_SETS] = {0};
    unsigned count = 0;
    uint32_t *border = find_borders(c->tree, &borders);
    if (!border) c->failed = 1;
    for (size_t b = 0; border && b + 1 < borders && !c->problem; b++) {
        membership one = {{0}};
        for (size_t s = 0; s < c->tree->sets; s++) {
            const zest_regex_set *set = &c->tree->set[s];
            while (cursor[s] < set->count && set->range[cursor[s]].high < border[b]) cursor[s]++;
            if (cursor[s] < set->count && set->range[cursor[s]].low <= border[b])
                one.in[s / 64] |= (uint64_t)1 << s % 64;
        }
        unsigned n = number_of(known, &count, &one);
        if (n == NUMBERS) {
            c->problem = "more than 256 kinds of characters";
            break;
        }
        memset(number + border[b], (int)n, border[b + 1] - border[b]);
    }
    for (unsigned n = 0; n < count; n++)
        for (size_t s = 0; s < c->tree->sets; s++)
            if (known[n].in[s / 64] >> s % 64 & 1) c->set[s].bits[n / 64] |= (uint64_t)1 << n % 64;
    free(border);
}

/* Blocks of 256 characters, each kept once. */
static void pack_numbers(compiler *c, const unsigned char *number) {
    zest_regex *regex = c->regex;
    size_t blocks = UNICODE / BLOCK, kept = 0;
    regex->block = malloc(blocks * sizeof *regex->block);
    regex->number = malloc(UNICODE);
    if (!regex->block || !regex->number) {
        c->failed = 1;
        return;
    }
    for (size_t b = 0; b < blocks; b++) {
        size_t same = kept;
        for (size_t i = kept; i-- > 0 && same == kept;) /* the one before is most often the same */
            if (!memcmp(regex->number + i * BLOCK, number + b * BLOCK, BLOCK)) same = i;
        if (same == kept) memcpy(regex->number + kept++ * BLOCK, number + b * BLOCK, BLOCK);
        regex->block[b] = (uint16_t)same;
    }
    unsigned char *smaller = realloc(regex->number, kept * BLOCK);
    if (smaller) regex->number = smaller;
}

/* ---- Steps ---- */

static const char too_many[] = "more steps than 4096 once repetitions are written out";

static uint32_t emit(compiler *c, zest_regex_op op) {
    zest_regex *regex = c->regex;
    if (regex->count == ZEST_REGEX_STEPS) {
        c->problem = too_many;
        return 0;
    }
    regex->step[regex->count] = (zest_regex_step){.op = (unsigned char)op};
    return (uint32_t)regex->count++;
}

static void compile_node(compiler *c, uint32_t at);

/* Steps that try what follows them, and then `other`, or the other way round. Returns the split; one target is open. */
static uint32_t emit_split(compiler *c, int lazy) {
    uint32_t split = emit(c, ZEST_REGEX_OP_SPLIT);
    if (c->problem) return 0;
    zest_regex_step *step = &c->regex->step[split];
    step->column = (uint32_t)c->regex->columns++;
    if (lazy)
        step->other = split + 1;
    else
        step->to = split + 1;
    return split;
}

static void close_split(compiler *c, uint32_t split, int lazy) {
    if (c->problem) return;
    if (lazy)
        c->regex->step[split].to = (uint32_t)c->regex->count;
    else
        c->regex->step[split].other = (uint32_t)c->regex->count;
}

static void compile_run(compiler *c, const zest_regex_node *node, const zest_regex_node *set) {
    uint32_t min = node->min;
    for (; node->max == UINT32_MAX && min > 1 && !c->problem; min--) {
        uint32_t one = emit(c, ZEST_REGEX_OP_SET);
        c->regex->step[one].set = c->set[set->set];
    }
    uint32_t run = emit(c, ZEST_REGEX_OP_RUN);
    if (c->problem) return;
    zest_regex_step *step = &c->regex->step[run];
    step->set = c->set[set->set];
    step->min = min, step->max = node->max;
    step->possessive = node->possessive;
    step->column = (uint32_t)c->regex->columns++;
}

static void compile_repeat(compiler *c, const zest_regex_node *node) {
    const zest_regex_node *child = &c->tree->node[node->first];
    if (child->kind == ZEST_REGEX_SET && !node->lazy) {
        if (node->max) compile_run(c, node, child);
        return;
    }
    for (uint32_t i = 0; i < node->min && !c->problem; i++) compile_node(c, node->first);
    if (node->max == UINT32_MAX && !c->problem) {
        uint32_t split = emit_split(c, node->lazy);
        compile_node(c, node->first);
        uint32_t jump = c->problem ? 0 : emit(c, ZEST_REGEX_OP_JUMP);
        if (!c->problem) c->regex->step[jump].to = split;
        close_split(c, split, node->lazy);
        return;
    }
    uint32_t split[ZEST_REGEX_REPEATS], count = 0;
    for (uint32_t i = node->min; i < node->max && !c->problem; i++) {
        split[count++] = emit_split(c, node->lazy);
        compile_node(c, node->first);
    }
    while (count) close_split(c, split[--count], node->lazy);
}

static void compile_choice(compiler *c, const zest_regex_node *node) {
    uint32_t last_jump = UINT32_MAX;
    for (uint32_t i = node->first; i && !c->problem; i = c->tree->node[i].next) {
        if (!c->tree->node[i].next) {
            compile_node(c, i);
            break;
        }
        uint32_t split = emit_split(c, 0);
        compile_node(c, i);
        uint32_t jump = c->problem ? 0 : emit(c, ZEST_REGEX_OP_JUMP);
        if (c->problem) return;
        c->regex->step[jump].to = last_jump; /* a chain of the open jumps */
        last_jump = jump;
        close_split(c, split, 0);
    }
    while (last_jump != UINT32_MAX && !c->problem) {
        uint32_t before = c->regex->step[last_jump].to;
        c->regex->step[last_jump].to = (uint32_t)c->regex->count;
        last_jump = before;
    }
}

static void compile_plain(compiler *c, const zest_regex_node *node) {
    static const unsigned char ops[] = {
        [ZEST_REGEX_SET] = ZEST_REGEX_OP_SET,
        [ZEST_REGEX_FOLLOWED] = ZEST_REGEX_OP_FOLLOWED,
        [ZEST_REGEX_LINE_START] = ZEST_REGEX_OP_LINE_START,
        [ZEST_REGEX_LINE_END] = ZEST_REGEX_OP_LINE_END,
        [ZEST_REGEX_TEXT_START] = ZEST_REGEX_OP_TEXT_START,
        [ZEST_REGEX_TEXT_END] = ZEST_REGEX_OP_TEXT_END,
        [ZEST_REGEX_WORD_EDGE] = ZEST_REGEX_OP_WORD_EDGE,
    };
    uint32_t at = emit(c, (zest_regex_op)ops[node->kind]);
    if (c->problem) return;
    c->regex->step[at].negated = node->negated;
    if (node->kind == ZEST_REGEX_SET || node->kind == ZEST_REGEX_FOLLOWED ||
        node->kind == ZEST_REGEX_WORD_EDGE)
        c->regex->step[at].set = c->set[node->set];
}

static void compile_node(compiler *c, uint32_t at) {
    const zest_regex_node *node = &c->tree->node[at];
    if (++c->visits > 64 * (size_t)ZEST_REGEX_STEPS) c->problem = too_many; /* of what matches nothing */
    if (c->problem) return;
    switch (node->kind) {
    case ZEST_REGEX_EMPTY: break;
    case ZEST_REGEX_SEQUENCE:
        for (uint32_t i = node->first; i && !c->problem; i = c->tree->node[i].next) compile_node(c, i);
        break;
    case ZEST_REGEX_CHOICE: compile_choice(c, node); break;
    case ZEST_REGEX_REPEAT: compile_repeat(c, node); break;
    default: compile_plain(c, node); break;
    }
}

/* ---- What the text may go on with ---- */

static void join(zest_regex_classes *to, const zest_regex_classes *from) {
    for (int i = 0; i < 4; i++) to->bits[i] |= from->bits[i];
}

/* Adds the characters that a match from this step on may begin with. Returns 1 if it may begin with any, or with none. seen: by
 * step, the last search that was there. */
static int add_heads(const zest_regex *regex, uint32_t at, uint32_t *seen, uint32_t search,
                     zest_regex_classes *to) {
    for (; seen[at] != search;) {
        const zest_regex_step *step = &regex->step[at];
        seen[at] = search;
        switch ((zest_regex_op)step->op) {
        case ZEST_REGEX_OP_SET: join(to, &step->set); return 0;
        case ZEST_REGEX_OP_RUN:
            join(to, &step->set);
            if (step->min) return 0;
            at++;
            break;
        case ZEST_REGEX_OP_JUMP: at = step->to; break;
        case ZEST_REGEX_OP_SPLIT:
            if (add_heads(regex, step->to, seen, search, to)) return 1;
            at = step->other;
            break;
        default: return 1;
        }
    }
    return 0;
}

static int overlap(const zest_regex_classes *a, const zest_regex_classes *b) {
    int found = 0;
    for (int i = 0; i < 4; i++) found |= (a->bits[i] & b->bits[i]) != 0;
    return found;
}

/* Does nothing but the end follow this step? */
static int ends(const zest_regex *regex, uint32_t at) {
    do at = regex->step[at].op == ZEST_REGEX_OP_JUMP ? regex->step[at].to : at + 1;
    while (regex->step[at].op == ZEST_REGEX_OP_JUMP);
    return regex->step[at].op == ZEST_REGEX_OP_MATCH;
}

static void find_heads(compiler *c) {
    zest_regex *regex = c->regex;
    uint32_t search = 0, *seen = calloc(regex->count, sizeof *seen);
    if (!seen) {
        c->failed = 1;
        return;
    }
    regex->any = add_heads(regex, 0, seen, ++search, &regex->head);
    for (uint32_t i = 0; i < regex->count; i++) {
        zest_regex_step *step = &regex->step[i];
        if (step->op == ZEST_REGEX_OP_SPLIT) {
            step->any[0] = (unsigned char)add_heads(regex, step->to, seen, ++search, &step->set);
            step->any[1] = (unsigned char)add_heads(regex, step->other, seen, ++search, &step->other_head);
        } else if (step->op == ZEST_REGEX_OP_RUN && !step->possessive) {
            zest_regex_classes next = {{0}};
            int any = add_heads(regex, i + 1, seen, ++search, &next);
            step->possessive = (!any && !overlap(&next, &step->set)) || ends(regex, i);
        }
    }
    free(seen);
}

zest_status zest_regex_compile(zest_regex *regex, zest_regex_tree *tree, const char **problem,
                               zest_error *error) {
    compiler *c = calloc(1, sizeof *c);
    unsigned char *number = malloc(UNICODE);
    *problem = NULL;
    regex->step = malloc(ZEST_REGEX_STEPS * sizeof *regex->step);
    if (c && number && regex->step) {
        *c = (compiler){.regex = regex, .tree = tree};
        number_characters(c, number);
        if (!c->failed) pack_numbers(c, number);
        if (!c->failed) compile_node(c, 0);
        if (!c->failed && !c->problem) emit(c, ZEST_REGEX_OP_MATCH);
        if (!c->failed && !c->problem) find_heads(c);
        zest_regex_step *smaller = realloc(regex->step, (regex->count ? regex->count : 1) * sizeof *smaller);
        if (smaller) regex->step = smaller;
        *problem = c->problem;
    }
    zest_status status =
        c && number && regex->step && !c->failed
            ? ZEST_OK
            : zest_error_memory(error, regex->source, ZEST_REGEX_STEPS * sizeof *regex->step);
    free(c);
    free(number);
    return status;
}
