#!/usr/bin/env python3
"""Writes src/tokenizer/unicode_tables.c. Needs PyPI tokenizers, regex and unicodedata2==16.0.0; only run to change
the tables.

Classes are those of Unicode 16.0, as Oniguruma knows them in Hugging Face tokenizers. Normal form C is held to the
characters that tokenizers itself normalises (its data are older), since a model was trained on what it did.

What BERT's normalizer and pre-tokenizer do with a character is asked of tokenizers itself, character by character: its
categories are those of an older Unicode, with slips of its own.
"""
import sys
import regex
import unicodedata2 as u
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

LETTER, NUMBER, SPACE, WORD = 1, 2, 4, 8
CONTROL, PUNCTUATION, ACCENT, IDEOGRAPH = 1, 2, 4, 8
CODES = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
SPACES = {9, 10, 11, 12, 13, 32, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}
nfd = normalizers.NFD().normalize_str
nfc = normalizers.NFC().normalize_str


def words():
    """What \\w means where an added token must stand as a single word."""
    t = Tokenizer(models.BPE({"\x00": 0}, []))
    t.add_tokens([AddedToken("QQ", single_word=True)])
    return {c for c in CODES if not t.encode(chr(c) + "QQ").ids}


def class_boundaries():
    word = words()
    last, out = 0, []
    for c in range(0x110001):
        bits = 0
        if c < 0x110000 and not 0xD800 <= c < 0xE000:
            kind = u.category(chr(c))[0]
            bits = LETTER * (kind == "L") + NUMBER * (kind == "N") + SPACE * (c in SPACES) + WORD * (c in word)
        if bits != last:
            out.append(c << 4 | bits)
            last = bits
    return out


# In the order of zest_unicode_category; and of zest_unicode_cluster_class.
CATEGORIES = "Cn Cc Cf Co Cs Ll Lm Lo Lt Lu Mc Me Mn Nd Nl No Pc Pd Pe Pf Pi Po Ps Sc Sk Sm So Zl Zp Zs".split()
CLUSTERS = ["Control", "Extend", "ZWJ", "Regional_Indicator", "Prepend", "SpacingMark", "L", "V", "T", "LV", "LVT"]


def boundaries(value, shift):
    last, out = 0, []
    for c in range(0x110001):
        bits = value(c) if c < 0x110000 else 0
        if bits != last:
            out.append(c << shift | bits)
            last = bits
    return out


def cluster_boundaries():
    """Properties of a newer Unicode, for the characters of 16.0."""
    ask = [(i + 1, regex.compile(r"\p{GCB=%s}" % name)) for i, name in enumerate(CLUSTERS)]
    ask.append((len(CLUSTERS) + 1, regex.compile(r"\p{Extended_Pictographic}")))

    def value(c):
        if 0xD800 <= c < 0xE000:
            return 0
        kind = next((i for i, r in ask if r.match(chr(c))), 0)
        return 0 if u.category(chr(c)) == "Cn" and 1 < kind <= len(CLUSTERS) else kind
    return boundaries(value, 4)


def bert(**on):
    off = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**{**off, **on}).normalize_str


def bert_boundaries():
    clean, split, strip = bert(clean_text=True), bert(handle_chinese_chars=True), bert(strip_accents=True)
    cut = pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    last, out = 0, []
    for c in range(0x110001):
        bits = 0
        if c < 0x110000 and not 0xD800 <= c < 0xE000:
            bits = (CONTROL * (clean(chr(c) + "b") == "b") + PUNCTUATION * (len(cut("a" + chr(c) + "b")) == 3)
                    + ACCENT * (strip(chr(c)) == "") + IDEOGRAPH * (split(chr(c)) != chr(c)))
        if bits != last:
            out.append(c << 4 | bits)
            last = bits
    return out


def lowercases():
    """U+0130 alone becomes two characters, i and U+0307; the table has the first."""
    lower = bert(lowercase=True)
    rows = [(c, lower(chr(c))) for c in CODES if lower(chr(c)) != chr(c)]
    assert [c for c, text in rows if len(text) > 1] == [0x130] and lower("\u0130") == "i\u0307"
    return [c << 32 | ord(text[0]) for c, text in rows]


def combining(c):
    """0 where tokenizers does not reorder the character."""
    k = u.combining(chr(c))
    other = "\u0334" if k > 1 else "\u05b0"
    text = "a" + (chr(c) + other if k > 1 else other + chr(c))
    return k if k and nfd(text) != text else 0


def combining_boundaries():
    last, out = 0, []
    for c in range(0x110001):
        k = combining(c) if c < 0x110000 and not 0xD800 <= c < 0xE000 else 0
        if k != last:
            out.append(c << 8 | k)
            last = k
    return out


def decompositions():
    rows = []
    for c in CODES:
        parts = u.decomposition(chr(c))
        if not parts or parts.startswith("<") or nfd(chr(c)) == chr(c):
            continue
        first, second = ([int(p, 16) for p in parts.split()] + [0])[:2]
        rows.append((c, first, second))
    composed = sorted((first, second, i) for i, (c, first, second) in enumerate(rows) if second and nfc(chr(c)) == chr(c))
    return rows, [i for _, _, i in composed]


def write(out, declaration, values, form):
    out.write(f"{declaration} = {{\n")
    line = "   "
    for v in values:
        item = " " + form % v + ","
        if len(line) + len(item) > 110:
            out.write(line + "\n")
            line = "   "
        line += item
    out.write(line + "\n};\n")


def write_file(path, tables):
    with open(path, "w", encoding="ascii") as out:
        out.write("/* Written by tools/make_unicode_tables.py from the data of Unicode 16.0. */\n")
        out.write('#include "tokenizer/unicode.h"\n\n/* clang-format off */\n')
        for kind, name, values, form in tables:
            write(out, f"const {kind} zest_unicode_{name}[]", values, form)
            out.write(f"const size_t zest_unicode_{name}_count = {len(values)};\n\n")
        out.write("/* clang-format on */\n")


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "src/tokenizer"
    rows, composed = decompositions()
    packed = [c << 36 | first << 18 | second for c, first, second in rows]
    write_file(f"{folder}/unicode_tables.c", [("uint32_t", "classes", class_boundaries(), "0x%x"),
                                              ("uint32_t", "categories",
                                               boundaries(lambda c: CATEGORIES.index(u.category(chr(c))), 5), "0x%x"),
                                              ("uint32_t", "clusters", cluster_boundaries(), "0x%x"),
                                              ("uint32_t", "orders", combining_boundaries(), "0x%x"),
                                              ("uint64_t", "decompositions", packed, "0x%x"),
                                              ("uint16_t", "compositions", composed, "%d"),
                                              ("uint32_t", "bert_classes", bert_boundaries(), "0x%x"),
                                              ("uint64_t", "lowercases", lowercases(), "0x%x")])


main()
