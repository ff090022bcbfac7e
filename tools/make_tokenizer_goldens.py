#!/usr/bin/env python3
"""Reference answers for tests/test_tokenizer.c, from the PyPI package `tokenizers`. Not needed to build or to test.

  make_tokenizer_goldens.py small FOLDER             trains the small tokenizers on the text below and writes them with
                                                     their answers: this is how tests/data/tokenizers was made
  make_tokenizer_goldens.py large FOLDER COUNT PATH...   COUNT answers for each tokenizer: a folder of vocab.json and
                                                     merges.txt, or of vocab.txt; a tokenizer.json; or a .gguf (needs
                                                     PyPI gguf)
  make_tokenizer_goldens.py unigram FOLDER COUNT     COUNT answers for each Unigram tokenizer (needs PyPI sentencepiece and
                                                     protobuf); with a COUNT of 0, the small one of tests/data/tokenizers
  make_tokenizer_goldens.py sentencepiece FOLDER COUNT [MODEL...]   COUNT answers of PyPI sentencepiece for each of a few
                                                     trained .model files and those given; 0: the small ones of
                                                     tests/data/tokenizers
  make_tokenizer_goldens.py families FOLDER COUNT [PATH...]   COUNT answers for a tokenizer of each family, trained here with
                                                     the published normalizer, pre-tokenizer and decoder, and for published
                                                     files: a tokenizer.json, tekken.json of mistral-common, or a file of
                                                     tiktoken with cl100k or o200k in its name; 0: the small ones of
                                                     tests/data/families
  make_tokenizer_goldens.py wordpiece FOLDER COUNT PATH...   COUNT answers for WordPiece with each setting of BERT's
                                                     normalizer, every character of Unicode among them, and for the
                                                     tokenizers at PATH, as above

Answers are lines of JSON: text (or hex, for bytes that are not UTF-8) and its ids; all: the ids with the template;
back: what the ids of `all`, or those of `decode`, give as text, when that is not the text; skipped: the same without
special tokens, when that is not back. FOLDER/list names each tokenizer and its answers.
"""
import json
import os
import random
import sys
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")

TEXT = """
The lighthouse keeper counted the ships that passed before breakfast, and there were never fewer than nine of them.
It's what we'd hoped for: they're early, he'll be late, I've no idea why, and you're sure that she isn't coming.
A small river runs behind the mill; in the spring it carries branches, leaves and once even a wooden chair.
Nobody could say who had painted the door green, but everyone agreed that it looked better than before.
"How much is it?" asked the boy. "Twelve pounds and 50 pence," said the woman, "or 1250 pence if you prefer."
In 1987 the bridge was 340 metres long; by 2024 it had grown to 1,205 metres, at a cost of $3,750,000.00.
The film was good, the music was great, the ending was terrible, and the popcorn was better than all three.
We walked for hours through the rain. The rain did not mind. Neither did we, after the first two hours.
Write the numbers 0 1 2 3 4 5 6 7 8 9 10 11 12 100 1000 on the board, then wipe them off again.
The weather in the north is cold, in the south it is warm, and in between it is whatever it wants to be.
for (int i = 0; i < count; i++) { total += values[i] * weights[i]; }
def mean(values): return sum(values) / len(values) if values else 0.0
if (x == NULL || y != 0x1F) return -1; /* nothing to do */
<p class="note">An example: &amp; another one</p>
Le petit café près de l'église était fermé, mais la boulangère nous a donné du pain et des gâteaux.
Die Straße führt über die Brücke zum alten Rathaus, wo früher größere Märkte gehalten wurden.
El niño preguntó: ¿cuántas estrellas hay en el cielo? Nadie supo qué contestar.
Старый капитан смотрел на море и молчал. Море тоже молчало.
Η θάλασσα ήταν ήσυχη και ο ουρανός γεμάτος αστέρια.
今日は天気がいいので、公園まで歩いて行きました。 小さな犬が走っていました。
昨天下雨了，今天是晴天。我们去山上看日出。
오늘은 날씨가 좋아서 바다에 갔어요.
كان الولد يقرأ كتابا تحت الشجرة. הילד קרא ספר מתחת לעץ.
वह हर सुबह नदी के किनारे टहलने जाता है।
Smiles 😀 😃 and hearts ❤️ and a family 👨‍👩‍👧 and flags 🇫🇷 🇯🇵 — all in one line… “quoted” ‘text’
"""

WORDS = TEXT.split() + ["naïve", "Ünïcödé", "don't", "DON'T", "it'S", "'tis", "rock'n'roll", "x86_64", "3.14159", "1e-9",
                        "foo_bar(baz)", "https://example.org/a?b=c&d=e#f", "日本語", "한국어", "עברית", "العربية", "ไทย",
                        "ﷺ", "ﬁ", "Å", "ǅ", "ſ", "'ſ", "½", "²", "Ⅻ", "٣٤٥", "१२३", "①", "𝟘𝟙", "𝔘𝔫𝔦", "👍🏽", "🏳️‍🌈", "e\u0301",
                        "a\u0323\u0307", "q\u0307\u0323", "\u1100\u1161\u11a8", "가", "각", "\u2126", "\u212b", "▁", "▁▁x", "Ġ", "Ċ"]
ACCENTED = ["Ångström", "RÉSUMÉ", "İstanbul", "ǅungla", "Straße", "ΌΔΥΣΣΕΎΣ", "ΑΣ", "Ёлка", "ÅÉÎÕÜ", "Å", "ñÑ", "ﬃ", "Ḁ̈", "ệ", "Ⅷ", "Ⓐ", "ａＢ",
            "กำลัง", "ภาษาไทย", "नमस्ते", "কি", "עִבְרִית", "اَلْعَرَبِيَّةُ", "e\u0301\u0300\u0323", "\u0301", "\u0345", "\u0316\u0300"]
SPACES = [" ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", " \n", "\n ", "\u00a0", "\u2003", "\u3000", "\u200b", "\u180e",
          "\u2028", "\x85", "\x0b", "\x0c", "\ufeff", " " * 7, " " * 17, "\n" * 5, "\t\t "]
CODE = ["{", "}", "();", "==", "!=", "->", "/*", "*/", "//", "#", "<br/>", "&&", "||", "\\n", "\"", "'", "`", "~", "^", "...",
        "--", "—", "$", "%d", "@", "[0]", "<0x0A>", "<0xFF>", "<0xG1>"]
BLOCKS = [(0x00, 0x7F), (0x00, 0x1F), (0x80, 0x24F), (0x300, 0x36F), (0x370, 0x5FF), (0x600, 0x6FF), (0x900, 0xDFF),
          (0xE00, 0xFFF), (0x1000, 0x18FF), (0x1E00, 0x20CF), (0x2100, 0x2BFF), (0x3000, 0x30FF), (0x4E00, 0x4FFF),
          (0xAC00, 0xACFF), (0xF900, 0xFFFF), (0x10000, 0x103FF), (0x1D100, 0x1D7FF), (0x1F300, 0x1FAFF), (0x2F800, 0x2FA1F),
          (0x0, 0x10FFFF)]


def character(rng, old):
    """A random character; old: one that was assigned in the Unicode of this Python, as in the small answers for patterns."""
    while True:
        low, high = rng.choice(BLOCKS)
        c = rng.randint(low, high)
        if 0xD800 <= c < 0xE000 or 0x11DE0 <= c <= 0x11DE9 or 0x16FF4 <= c <= 0x16FF6:
            continue
        if old and (unicodedata.category(chr(c)) == "Cn" or c == 0x180E):
            continue
        return chr(c)


def bert_sample(rng, specials):
    """What WordPiece meets beyond the rest: accents, ideographs among letters, long words, dropped characters."""
    kind = rng.random()
    if kind < 0.5:
        return sample(rng, specials, False)
    if kind < 0.6:
        word = rng.choice(WORDS + ACCENTED)
        return (word * 120)[:rng.choice([98, 99, 100, 101, 102, 150, 5000])]
    parts = []
    for _ in range(rng.randint(1, 20)):
        pick = rng.random()
        if pick < 0.3:
            parts.append(rng.choice(ACCENTED))
        elif pick < 0.5:
            word = rng.choice(WORDS)
            at = rng.randint(0, len(word))
            parts.append(word[:at] + character(rng, False) + word[at:])
        elif pick < 0.65:
            parts.append(rng.choice(["日", "本", "中文", "한", "の", "\u3400", "\U0002b920", "\U0002b820", "\uf900", "ｱ"]))
        elif pick < 0.8:
            parts.append(rng.choice(SPACES + [" "] * 20))
        elif pick < 0.9:
            parts.append(rng.choice(["\0", "\ufffd", "\u200b", "\u200d", "\xad", "\ue000", "\u0378", "\U000e0001", "\x7f", "\x1b", "\ufe0f"]))
        else:
            parts.append(rng.choice(CODE + specials))
    return "".join(parts)


def sample(rng, specials, old):
    kind = rng.random()
    if kind < 0.02:
        return rng.choice(WORDS + SPACES + CODE)
    if kind < 0.05:
        return rng.choice(WORDS + SPACES + CODE + [character(rng, old)]) * rng.randint(2, 200)
    if kind < 0.15:
        return "".join(character(rng, old) for _ in range(rng.randint(1, 30)))
    if kind < 0.30:
        start = rng.randrange(len(TEXT))
        return TEXT[start:start + rng.randint(1, 200)]
    parts = []
    for _ in range(rng.randint(1, 25)):
        pick = rng.random()
        if pick < 0.35:
            parts.append(rng.choice(WORDS))
        elif pick < 0.60:
            parts.append(rng.choice(SPACES) if pick > 0.52 else " ")
        elif pick < 0.70:
            parts.append(rng.choice(CODE))
        elif pick < 0.78:
            parts.append(str(rng.randrange(10 ** rng.randint(1, 12))))
        elif pick < 0.84 and specials:
            parts.append(rng.choice(specials))
        elif pick < 0.92:
            parts.append(character(rng, old))
        else:
            word = rng.choice(WORDS)
            parts.append(word.upper() if pick < 0.95 else word[:rng.randint(1, len(word))])
    return "".join(parts)


def answers(tok, count, seed, old=False, short=False, draw=None):
    """draw: what makes a text, if not sample()."""
    rng = random.Random(seed)
    specials = [t.content for t in tok.get_added_tokens_decoder().values()][:30]
    size = tok.get_vocab_size()
    yield answer(tok, "")
    for i in range(count - 1):
        if i % 10 == 9:
            ids = [rng.randrange(size + 3) for _ in range(rng.randint(1, 12))]
            yield spoken({"decode": ids}, tok, ids, None)
        elif i % 25 == 3:
            raw = bytearray((draw(rng, specials) if draw else sample(rng, specials, old)).encode()[:120])
            for _ in range(rng.randint(1, 4)):
                raw.insert(rng.randint(0, len(raw)), rng.choice([0x80, 0xBF, 0xC0, 0xC3, 0xE0, 0xED, 0xA0, 0xF0, 0x9F, 0xF4, 0xFF]))
            yield answer(tok, bytes(raw).decode(errors="replace"), raw=bytes(raw))
        else:
            text = draw(rng, specials) if draw else sample(rng, specials, old)
            yield answer(tok, text[:60] if short else text)


def answer(tok, text, raw=None):
    line = {"text": text} if raw is None else {"hex": raw.hex()}
    line["ids"] = tok.encode(text, add_special_tokens=False).ids
    both = tok.encode(text).ids
    if both != line["ids"]:
        line["all"] = both
    return spoken(line, tok, both, text)


def spoken(line, tok, ids, text):
    back, skipped = tok.decode(ids, skip_special_tokens=False), tok.decode(ids, skip_special_tokens=True)
    if back != text:
        line["back"] = back
    if skipped != back:
        line["skipped"] = skipped
    return line


# ---- The small tokenizers: one for every kind of component ------------------------------------------------------


def train(tok, size, alphabet=None, special=()):
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet or [], special_tokens=list(special),
                                  show_progress=False)
    tok.train_from_iterator(TEXT.strip().split("\n"), trainer)
    return tok


def byte_level(pre, size=700, special=("<|endoftext|>",), **model):
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre
    tok.decoder = decoders.ByteLevel()
    train(tok, size, pre_tokenizers.ByteLevel.alphabet(), special)
    return remake(tok, **model)


def remake(tok, **model):
    """The same with other settings of the model."""
    state = json.loads(tok.to_str())
    state["model"].update(model)
    return Tokenizer.from_str(json.dumps(state))


def small_tokenizers():
    cut = lambda pattern: pre_tokenizers.Split(Regex(pattern), "isolated")
    plain = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)

    tok = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True), special=["<s>", "</s>", "<unk>"])
    tok.add_special_tokens([AddedToken("<mask>", lstrip=True), AddedToken("<end>", rstrip=True)])
    tok.add_tokens([AddedToken("river", single_word=True, normalized=False), AddedToken("<|a|>", lstrip=True, rstrip=True),
                    "<|a|>b", "éa"])
    tok.post_processor = processors.RobertaProcessing(("</s>", tok.token_to_id("</s>")), ("<s>", tok.token_to_id("<s>")))
    yield "gpt2", tok

    tok = byte_level(pre_tokenizers.Sequence([cut(CL100K % ""), plain]))
    tok.normalizer = normalizers.NFC()
    tok.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    tok.add_tokens([AddedToken("cafe\u0301", normalized=True)])
    yield "qwen2", tok

    tok = byte_level(pre_tokenizers.Sequence([cut(CL100K % "{1,3}"), plain]), special=["<|begin_of_text|>"], ignore_merges=True)
    begin = "<|begin_of_text|>"
    tok.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
        single=f"{begin} $A", pair=f"{begin} $A {begin} $B", special_tokens=[(begin, tok.token_to_id(begin))])])
    yield "llama3", tok

    yield "digits", byte_level(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                        pre_tokenizers.ByteLevel(add_prefix_space=False)]))
    yield "o200k", byte_level(pre_tokenizers.Sequence([cut(O200K), plain]))

    letters = sorted(set(TEXT))[:90] + ["▁"]
    tok = Tokenizer(models.BPE(unk_token="<unk>"))
    tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=True)
    tok.decoder = decoders.Metaspace(prepend_scheme="first")
    train(tok, 500, letters, ["<unk>", "<s>", "</s>"])
    yield "metaspace", remake(tok, fuse_unk=True)

    bytes_ = [f"<0x{b:02X}>" for b in range(256)]
    tok = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tok.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tok.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")  # while training alone
    train(tok, 900, letters, ["<unk>", "<s>", "</s>"] + bytes_)
    state = json.loads(tok.to_str())
    state["pre_tokenizer"] = None
    state["added_tokens"] = state["added_tokens"][:3]
    state["post_processor"] = json.loads(processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)]).__getstate__())
    yield "llama", Tokenizer.from_str(json.dumps(state))


def wordpiece(size=600, max_chars=100, prefix="##", cleanup=True, roberta=False, **normalizer):
    """BERT's, trained on the text above."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tok = Tokenizer(models.WordPiece(unk_token="[UNK]", continuing_subword_prefix=prefix, max_input_chars_per_word=max_chars))
    tok.normalizer = normalizers.BertNormalizer(**normalizer)
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tok.decoder = decoders.WordPiece(prefix=prefix, cleanup=cleanup)
    trainer = trainers.WordPieceTrainer(vocab_size=size, special_tokens=special, show_progress=False,
                                        continuing_subword_prefix=prefix)
    tok.train_from_iterator(TEXT.strip().split("\n"), trainer)
    cls, sep = ("[CLS]", tok.token_to_id("[CLS]")), ("[SEP]", tok.token_to_id("[SEP]"))
    tok.post_processor = processors.BertProcessing(sep, cls) if roberta else processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[cls, sep])
    return tok


def small_wordpieces():
    yield "bert", wordpiece()
    tok = wordpiece(lowercase=False, strip_accents=True, handle_chinese_chars=False, max_chars=12, prefix="@", cleanup=False,
                    roberta=True)
    tok.add_tokens([AddedToken("River", normalized=True, single_word=True), AddedToken("[X]", lstrip=True)])
    yield "bert-cased", tok


def all_characters(**normalizer):
    """A token for every character that may be left of a text, so that each shows what became of it."""
    characters = sorted({chr(c) for c in range(33, 0x30000) if not 0xD800 <= c < 0xE000 and unicodedata.category(chr(c)) != "Cn"})
    tokens = ["[UNK]", "[CLS]", "[SEP]"] + characters + ["##" + c for c in characters]
    tok = Tokenizer(models.WordPiece({t: i for i, t in enumerate(tokens)}, unk_token="[UNK]"))
    tok.normalizer = normalizers.BertNormalizer(**normalizer)
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tok.decoder = decoders.WordPiece()
    return tok


def sweep(rng, state):
    """Texts that go through all of Unicode, sixteen characters at a time, each between letters or beside another."""
    if not state:
        state.extend(c for c in range(0x110000) if not 0xD800 <= c < 0xE000)
        rng.shuffle(state)
    some = [chr(state.pop()) for _ in range(min(16, len(state)))]
    return "".join(c + rng.choice(["", "a", "A", " ", "\u0301", "é"]) for c in some)


def wordpiece_answers(folder, count):
    for name, tok in small_wordpieces():
        write(folder, name, tok, answers(tok, count, name + "-large", draw=bert_sample))
    settings = ({}, {"lowercase": False}, {"strip_accents": False}, {"lowercase": False, "strip_accents": True},
                {"clean_text": False}, {"handle_chinese_chars": False},
                {"clean_text": False, "handle_chinese_chars": False, "lowercase": False})
    for i, normalizer in enumerate(settings):
        tok, state = all_characters(**normalizer), []
        write(folder, f"characters-{i}", tok, answers(tok, 81000 if i < 2 else 10000, f"c{i}", draw=lambda rng, _: sweep(rng, state)))
    for max_chars in (0, 1, 5):
        name = f"bert-{max_chars}"
        tok = wordpiece(max_chars=max_chars)
        write(folder, name, tok, answers(tok, max(count // 20, 100), name, draw=bert_sample))


def variants():
    """More settings, for the large comparison alone."""
    cut = lambda pattern, how, invert=False: pre_tokenizers.Split(pattern, how, invert)
    for how in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
        for invert in (False, True):
            steps = [cut(Regex(r"[aeiou]+|\s"), how, invert), pre_tokenizers.ByteLevel(add_prefix_space=False)]
            yield f"split-{how}-{invert}", byte_level(pre_tokenizers.Sequence(steps))
        yield f"literal-{how}", byte_level(pre_tokenizers.Sequence([cut("e", how), pre_tokenizers.ByteLevel(add_prefix_space=True)]))
    yield "digits-joined", byte_level(pre_tokenizers.Sequence([pre_tokenizers.Digits(), pre_tokenizers.ByteLevel(add_prefix_space=True)]))
    yield "empty-matches", byte_level(pre_tokenizers.Sequence([cut(Regex(r"x*"), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False)]))
    yield "words", byte_level(pre_tokenizers.Sequence([cut(Regex(r"\w+|[^\w\s]+|^\s|\h$"), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]))
    for scheme in ("always", "first", "never"):
        for split in (False, True):
            for model in ({"fuse_unk": False}, {"fuse_unk": True, "byte_fallback": True}):
                tok = Tokenizer(models.BPE(unk_token="<unk>"))
                tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=True)
                tok.decoder = decoders.Metaspace(prepend_scheme=scheme)
                train(tok, 400, sorted(set(TEXT))[:80], ["<unk>", "<s>", "<0xC3>", "<0xA9>"])
                tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split)
                tok.add_tokens([AddedToken("zz", normalized=True), AddedToken("ship", single_word=True, normalized=True)])
                yield f"metaspace-{scheme}-{split}-{len(model)}", remake(tok, **model)
    tok = Tokenizer(models.BPE())
    tok.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), "_"), normalizers.Replace("é", "e")])
    train(tok, 300, [])
    tok.add_tokens([AddedToken("a é", normalized=True), AddedToken("b c", normalized=False)])
    yield "no-decoder", tok


def unigram(rules=None, split=True, **spec):
    """XLM-R's kind, trained by PyPI's sentencepiece: its scores, and its map of characters (rules: a small one)."""
    import io
    import tempfile
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2 as proto
    model = io.BytesIO()
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as tsv:
        for source, target in rules or []:
            tsv.write("\t".join(" ".join(f"{ord(c):X}" for c in text) for text in (source, target)) + "\n")
        tsv.flush()
        how = {"normalization_rule_tsv": tsv.name} if rules else {"normalization_rule_name": "nmt_nfkc"}
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(TEXT.strip().split("\n") * 4), model_writer=model, vocab_size=420,
                                                 model_type="unigram", hard_vocab_limit=False, character_coverage=0.98, minloglevel=2, **how)
    made = proto.ModelProto.FromString(model.getvalue())
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)] + [(p.piece, p.score) for p in made.pieces[3:]] + [("<mask>", 0.0)]
    if spec.get("byte_fallback"):
        pieces += [(f"<0x{b:02X}>", 0.0) for b in range(256)]
    tok = Tokenizer(models.Unigram(pieces, 3, spec.get("byte_fallback", False)))
    tok.normalizer = normalizers.Sequence([normalizers.Precompiled(made.normalizer_spec.precompiled_charsmap), normalizers.Replace(Regex(" {2,}"), " ")])
    marks = pre_tokenizers.Metaspace(split=split)
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), marks]) if split else marks
    tok.decoder = decoders.Metaspace()
    tok.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True)])
    tok.post_processor = processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    return tok


RULES = [("\uff21", "A"), ("\ufb01", "fi"), ("e\u0301", "é"), ("\u0301", ""), ("\u3000", " "), ("\t", " "), ("\n", " "), ("\r", " "), ("½", "1/2"), ("①", "1"), ("\u200b", "")]


def unigrams(folder, count, small):
    yield "unigram", unigram(RULES)
    if not small:
        yield "unigram-nfkc", unigram()
        yield "unigram-whole", unigram(split=False)
        yield "unigram-bytes", unigram(byte_fallback=True)


# ---- Families: the published settings ------------------------------------------------------------------------------

TEKKEN = O200K.replace("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "").replace(r"\p{N}{1,3}", r"\p{N}")
DEEPSEEK = [r"\p{N}{1,3}", r"[一-龥\u3040-ゟ゠-ヿ]+",
            r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
            r"|\s*[\r\n]+|\s+(?!\S)|\s+"]
TIKTOKEN = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s")


def split_bytes(*patterns, special=("<|endoftext|>",), **model):
    cut = [pre_tokenizers.Split(Regex(p), "isolated") for p in patterns]
    plain = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return byte_level(pre_tokenizers.Sequence(cut + [plain]), special=special, **model)


def llama_style(normalizer=None, pre=None, decoder=None, special=("<unk>", "<s>", "</s>"), user=(), **settings):
    """Llama 2, Mistral and Gemma as transformers writes them: BPE of characters with bytes behind it."""
    tok = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    train(tok, 900, sorted(set(TEXT) - {" "})[:70], list(special) + [f"<0x{b:02X}>" for b in range(256)])
    state = json.loads(tok.to_str())
    state["added_tokens"] = [t for t in state["added_tokens"] if not t["content"].startswith("<0x")]
    state["normalizer"] = state["pre_tokenizer"] = state["decoder"] = None
    tok = Tokenizer.from_str(json.dumps(state))
    if normalizer:
        tok.normalizer = normalizer
    if pre:
        tok.pre_tokenizer = pre
    tok.decoder = decoder
    tok.add_tokens([AddedToken(u, normalized=False) for u in user])
    return tok


def families():
    nfc = normalizers.NFC()
    tok = split_bytes(TIKTOKEN)
    yield "tiktoken", tok
    tok = split_bytes(CL100K % "{1,3}", special=["<|begin_of_text|>", "<|eot_id|>"], ignore_merges=True)
    yield "llama-3", tok
    tok = split_bytes(CL100K % "", special=["<|endoftext|>", "<|im_start|>"])
    tok.normalizer = nfc
    tok.add_tokens([AddedToken("<think>", normalized=False)])
    yield "qwen-3", tok
    yield "phi-4", split_bytes(O200K)
    yield "tekken", split_bytes(TEKKEN, special=["<unk>", "<s>", "[INST]"], ignore_merges=True)
    yield "deepseek", split_bytes(*DEEPSEEK, special=["<｜begin▁of▁sentence｜>"])
    yield "smollm", byte_level(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]))
    for name, normalizer in (("neox", None), ("olmo", nfc)):
        tok = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True))
        if normalizer:
            tok.normalizer = normalizer
        tok.add_tokens([AddedToken(" " * n, normalized=True) for n in range(24, 1, -1)])
        yield name, tok
    tok = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), special=["[UNK]", "[CLS]", "[SEP]", "[PAD]"])
    tok.normalizer = nfc
    tok.add_special_tokens([AddedToken("[MASK]", lstrip=True)])
    tok.add_tokens([AddedToken(" " * n, normalized=False) for n in range(24, 1, -1)] + [AddedToken("|||IP_ADDRESS|||", normalized=True)])
    tok.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[(t, tok.token_to_id(t)) for t in ("[CLS]", "[SEP]")])
    yield "modernbert", tok
    fuse = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    yield "llama-2", llama_style(normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
                                 decoder=decoders.Sequence(fuse + [decoders.Strip(" ", 1, 0)]))
    yield "mistral", llama_style(pre=pre_tokenizers.Metaspace(prepend_scheme="first", split=False),
                                 decoder=decoders.Sequence(fuse + [decoders.Strip(" ", 1, 0)]), special=["<unk>", "<s>", "</s>", "[INST]"])
    yield "gemma", llama_style(normalizers.Replace(" ", "▁"), pre_tokenizers.Split(" ", "merged_with_previous"), decoders.Sequence(fuse),
                               special=["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>"], user=["\n", "\n\n", "▁▁", "▁▁▁", "<h1>"])


def published(path):
    """A published file as a tokenizer."""
    from transformers.convert_slow_tokenizer import TikTokenConverter, bytes_to_unicode
    if path.endswith("tokenizer.json") or "deepseek" in path or "anthropic" in path:
        return Tokenizer.from_file(path)
    if "tekken" not in path:
        pattern = O200K if "o200k" in path else CL100K % "{1,3}"
        vocab = TikTokenConverter(vocab_file=path, pattern=pattern)
        tok = vocab.tokenizer()
    else:
        import base64
        state = json.load(open(path))
        pattern = state["config"]["pattern"]
        made = TikTokenConverter(vocab_file=path, pattern=pattern)
        import tempfile
        with tempfile.NamedTemporaryFile("w", suffix=".tiktoken") as out:
            count = state["config"]["default_vocab_size"] - state["config"]["default_num_special_tokens"]
            for piece in state["vocab"][:count]:
                out.write(f"{piece['token_bytes']} {piece['rank']}\n")
            out.flush()
            made.vocab_file = out.name
            tok = made.tokenizer()
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    return remake(tok, ignore_merges=True)


def family_answers(folder, count, paths):
    for name, tok in families():
        write(folder, name, tok, answers(tok, count or 200, "family " + name, short=not count, draw=bert_sample))
    for path in paths:
        tok = published(path)
        tok.no_padding()
        tok.no_truncation()
        name = "published-" + os.path.basename(path).replace(".", "-")
        write(folder, name, tok, answers(tok, count, name, draw=bert_sample))


# ---- SentencePiece's own files: the answers of sentencepiece, decoded by the steps of Llama's tokenizer.json ----


def train_model(path, small, **how):
    """small: a map of characters with a few rules, instead of a published one of 240 KB."""
    import io
    import sentencepiece
    import tempfile
    from sentencepiece import sentencepiece_model_pb2 as proto
    rules = tempfile.NamedTemporaryFile("w", suffix=".tsv")
    for source, target in RULES:
        rules.write("\t".join(" ".join(f"{ord(c):X}" for c in text) for text in (source, target)) + "\n")
    rules.flush()
    if small and how["normalization_rule_name"] != "identity":
        how.pop("normalization_rule_name")
        how["normalization_rule_tsv"] = rules.name
    settings = {"vocab_size": 600, "hard_vocab_limit": False, "character_coverage": 0.98, "minloglevel": 2, **how}
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(TEXT.strip().split("\n") * 4), model_writer=model, **settings)
    made = proto.ModelProto.FromString(model.getvalue())
    made.normalizer_spec.ClearField("normalization_rule_tsv")  # a temporary file
    with open(path, "wb") as out:
        out.write(made.SerializeToString())


SENTENCEPIECES = {
    "sp-llama": dict(model_type="bpe", byte_fallback=True, vocab_size=800, normalization_rule_name="identity", remove_extra_whitespaces=False,
                     split_digits=True),
    "sp-gemma": dict(model_type="bpe", byte_fallback=True, vocab_size=800, normalization_rule_name="identity", remove_extra_whitespaces=False,
                     add_dummy_prefix=False, user_defined_symbols=["<start_of_turn>", "<h1>", "▁▁", "▁▁▁", "\t"], pad_id=3),
    "sp-t5": dict(model_type="unigram", normalization_rule_name="nmt_nfkc"),
    "sp-unigram": dict(model_type="unigram", byte_fallback=True, vocab_size=700, normalization_rule_name="nmt_nfkc_cf",
                       add_dummy_prefix=False),
    "sp-plain": dict(model_type="bpe", normalization_rule_name="nfkc", split_by_whitespace=False, max_sentencepiece_length=24),
}


def sentencepiece_answers(path, count, seed, short, before=True):
    import sentencepiece
    sp = sentencepiece.SentencePieceProcessor(model_file=path)
    rng = random.Random(seed)
    fuse = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    from sentencepiece import sentencepiece_model_pb2 as proto
    made = proto.ModelProto.FromString(open(path, "rb").read())
    steps = decoders.Sequence(fuse + ([decoders.Strip(" ", 1, 0)] if made.normalizer_spec.add_dummy_prefix else []))
    user = [p.piece.replace("▁", " ") for p in made.pieces if p.type == 4]
    hidden = {p.piece for p in made.pieces if p.type in (2, 3)}
    differ = 0
    for i in range(count):
        text = (bert_sample if rng.random() < 0.5 else lambda r, s: sample(r, s, False))(rng, user)
        text = text[:60] if short else text
        if i % 50 == 7 and not short:
            text = "".join(sample(rng, user, False) for _ in range(20))
        while any(h in text for h in hidden):
            text = "".join(text.split(next(h for h in hidden if h in text)))
        text = text.replace("\0", "")  # sentencepiece's map of characters ends at a NUL
        ids = sp.encode(text)
        line = {"text": text, "ids": ids}
        both = ([sp.bos_id()] if sp.bos_id() >= 0 and before else []) + ids
        if both != ids:
            line["all"] = both
        line["back"] = steps.decode([sp.id_to_piece(j) for j in both])
        line["skipped"] = steps.decode([sp.id_to_piece(j) for j in both if sp.id_to_piece(j) not in hidden])
        differ += sp.unk_id() not in ids and sp.decode(ids) != line["skipped"]
        yield line
    print(f"{path}: {count} strings, {differ} decoded otherwise by sentencepiece itself", file=sys.stderr)


def sentencepieces(folder, count, paths):
    import shutil
    for name, how in SENTENCEPIECES.items():
        train_model(f"{folder}/{name}.model", not count, **how)
        write(folder, name, None, sentencepiece_answers(f"{folder}/{name}.model", count or 250, name, not count), source=f"{name}.model")
    for path in paths:
        name = os.path.basename(path).replace(".", "-")
        shutil.copy(path, f"{folder}/{name}.model")
        write(folder, name, None, sentencepiece_answers(f"{folder}/{name}.model", count, name, False), source=f"{name}.model")


# ---- Existing tokenizers ------------------------------------------------------------------------------------------


def from_words(path):
    """BERT's, as transformers builds it from vocab.txt and tokenizer_config.json."""
    with open(f"{path}/vocab.txt", encoding="utf-8") as lines:
        vocab = {line.rstrip("\n"): i for i, line in enumerate(lines.readlines())}
    config = json.load(open(f"{path}/tokenizer_config.json")) if os.path.exists(f"{path}/tokenizer_config.json") else {}
    tok = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tok.normalizer = normalizers.BertNormalizer(lowercase=config.get("do_lower_case", True), strip_accents=config.get("strip_accents"),
                                                handle_chinese_chars=config.get("tokenize_chinese_chars", True))
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tok.decoder = decoders.WordPiece()
    tok.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    tok.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[(t, vocab[t]) for t in ("[CLS]", "[SEP]")])
    return tok


def from_folder(path):
    """RoBERTa's, as transformers builds it from vocab.json and merges.txt."""
    if os.path.exists(f"{path}/vocab.txt"):
        return from_words(path)
    tok = Tokenizer(models.BPE.from_file(f"{path}/vocab.json", f"{path}/merges.txt"))
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    tok.post_processor = processors.RobertaProcessing(("</s>", tok.token_to_id("</s>")), ("<s>", tok.token_to_id("<s>")))
    tok.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True)])
    return tok


def from_gguf(path):
    """A gpt2 tokenizer with SmolLM's digits; and its arrays, for zest_tokenizer_from_arrays."""
    import gguf
    fields = gguf.GGUFReader(path).fields
    get = lambda key: fields["tokenizer.ggml." + key].contents() if "tokenizer.ggml." + key in fields else None
    assert (get("model"), get("pre")) == ("gpt2", "smollm")
    tokens, types, merges = get("tokens"), get("token_type"), get("merges")
    tok = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, [tuple(m.split(" ")) for m in merges]))
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                 pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tok.decoder = decoders.ByteLevel()
    tok.add_special_tokens([t for t, kind in zip(tokens, types) if kind == 3])
    arrays = {"model": "gpt2", "pre": "smollm", "tokens": tokens, "types": types, "merges": merges}
    for key, name in (("bos", "bos_token_id"), ("eos", "eos_token_id"), ("unk", "unknown_token_id"), ("pad", "padding_token_id")):
        arrays[key] = get(name)
    arrays["add_bos"] = int(get("add_bos_token"))
    return tok, arrays


def llama_arrays(tok):
    """The arrays that a GGUF of this Llama-style tokenizer would hold: scores fall with the order of the merges."""
    state = json.loads(tok.to_str())
    vocab = sorted(state["model"]["vocab"].items(), key=lambda item: item[1])
    special = {t["content"] for t in state["added_tokens"]}
    types = [2 if t == "<unk>" else 3 if t in special else 6 if len(t) == 6 and t.startswith("<0x") else 1 for t, _ in vocab]
    made = {}
    for i, merge in enumerate(state["model"]["merges"]):
        merge = merge if isinstance(merge, list) else merge.split(" ")
        made.setdefault("".join(merge), -float(i))
    scores = [made.get(t, -1e6) for t, _ in vocab]
    return {"model": "llama", "tokens": [t for t, _ in vocab], "scores": scores, "types": types, "bos": 1, "eos": 2, "unk": 0}


# ---- Writing --------------------------------------------------------------------------------------------------------


def write(folder, name, tok, lines, arrays=None, source=None):
    """lines: the answers, or the name of the tokenizer that answers the same."""
    if not isinstance(lines, str):
        with open(f"{folder}/{name}.answers", "w") as out:
            for line in lines:
                out.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")
    if arrays is not None:
        source = f"{name}.arrays.json"
        with open(f"{folder}/{source}", "w") as out:
            json.dump(arrays, out, ensure_ascii=False, separators=(",", ":"))
    if source is None:
        source = f"{name}.json"
        with open(f"{folder}/{source}", "w") as out:
            json.dump(json.loads(tok.to_str()), out, ensure_ascii=False, separators=(",", ":"))
    with open(f"{folder}/list", "a") as out:
        out.write(f"{source} {lines if isinstance(lines, str) else name}.answers\n")


def write_words(folder, name, tok, lines):
    """A folder with vocab.txt, as BERT's were published first."""
    os.makedirs(f"{folder}/{name}", exist_ok=True)
    vocab = tok.get_vocab()
    with open(f"{folder}/{name}/vocab.txt", "w") as out:
        out.write("".join(t + "\n" for t in sorted(vocab, key=vocab.get)))
    with open(f"{folder}/{name}/tokenizer_config.json", "w") as out:
        json.dump({"do_lower_case": True, "model_max_length": 10 ** 30}, out)
        out.write("\n")
    write(folder, name, tok, lines, source=name)


def existing(folder, count, paths):
    """The answers of the tokenizers at these paths."""
    for path in paths:
        name = os.path.basename(os.path.dirname(path) if path.endswith("tokenizer.json") else path)
        if path.endswith(".gguf"):
            tok, arrays = from_gguf(path)
            lines = list(answers(tok, count, "existing", draw=bert_sample))
            write(folder, name, tok, lines, arrays)
            write(folder, name + "-json", tok, name)
            write(folder, name + "-file", tok, name, source=os.path.abspath(path))
            continue
        tok = Tokenizer.from_file(path) if path.endswith(".json") else from_folder(path)
        tok.no_padding()
        tok.no_truncation()
        write(folder, name, tok, answers(tok, count, "existing", draw=bert_sample), source=os.path.abspath(path))
        if name.startswith("stories"):
            write(folder, name + "-scores", tok, name, llama_arrays(tok))


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in ("small", "large", "wordpiece", "unigram", "sentencepiece", "families"):
        sys.exit(__doc__)
    folder = sys.argv[2]
    os.makedirs(folder, exist_ok=True)
    open(f"{folder}/list", "w").close()
    if sys.argv[1] == "small":
        for name, tok in small_tokenizers():
            lines = list(answers(tok, 75, name, old=name == "o200k", short=True))
            write(folder, name, tok, lines)
            if name == "llama":
                write(folder, "scores", tok, name, llama_arrays(tok))
        for name, tok in small_wordpieces():
            write(folder, name, tok, list(answers(tok, 200, name, short=True, draw=bert_sample)))
            if name == "bert":
                write_words(folder, "bert-words", tok, name)
        return
    count = int(sys.argv[3])
    if sys.argv[1] == "unigram":
        for name, tok in unigrams(folder, count, not count):
            write(folder, name, tok, list(answers(tok, count or 150, name, old=True, short=not count, draw=None if count else bert_sample)))
        return
    if sys.argv[1] == "families":
        family_answers(folder, count, sys.argv[4:])
        return
    if sys.argv[1] == "sentencepiece":
        sentencepieces(folder, count, sys.argv[4:])
        return
    if sys.argv[1] == "wordpiece":
        wordpiece_answers(folder, count)
        existing(folder, count, sys.argv[4:])
        return
    for name, tok in small_tokenizers():
        lines = list(answers(tok, count, name + "-large", old=name == "o200k"))
        write(folder, name, tok, lines)
        if name == "llama":
            write(folder, "scores", tok, name, llama_arrays(tok))
    for name, tok in variants():
        write(folder, name, tok, answers(tok, max(count // 5, 100), name, old=True))
    existing(folder, count, sys.argv[4:])


main()
