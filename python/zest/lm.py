"""Language models: tokenize, score, compute losses and logits, generate, fine-tune, save."""

from __future__ import annotations

import ctypes
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Callable, NamedTuple, Optional, Union

import numpy as np

from . import _library as c
from ._callbacks import Callbacks
from ._library import Context, StateError, lib
from .tuner import Lanes, Option, Stepper, StrPath, as_losses, option_name, read_options

Text = Union[str, bytes]
TextOrIds = Union[str, bytes, Sequence[int], np.ndarray]


def lm_options() -> list[Option]:
    """The options of LM(): name, kind, default, range, help."""
    return read_options(lib.zest_lm_option)


def option_lines(options: dict[str, Any]) -> bytes:
    """Options as the library reads them: a line `name = value` for each that is not None."""
    lines = []
    for name, value in options.items():
        if value is not None:
            text = c.to_text(value)
            if b"\n" in text:
                raise c.ArgumentError(f"the value of {name} has a line break")
            lines.append(option_name(name) + b" = " + text + b"\n")
    return b"".join(lines)


@dataclass(frozen=True)
class LMInfo:
    """What a model is."""

    family: str  #: model_type of config.json, as "llama"; "" without weights
    weights: str  #: type in memory: F32, BF16 or F16
    compute: str  #: of matrix products: f32, bf16 or f16
    device: str  #: cpu or cuda
    parameters: int
    trained: int  #: parameters that a tuner changes
    step: int  #: of a run; else 0
    vocab_size: int
    tokens: int  #: the tokenizer's largest id and one
    hidden_size: int
    layers: int
    heads: int
    kv_heads: int
    ffn_size: int
    max_positions: int  #: tokens of the longest text
    causal: bool  #: True: continues text; False: fills masks
    has_weights: bool


class Score(NamedTuple):
    """How probable a text is."""

    log_probability: float  #: natural logarithm, summed over the tokens that are predicted
    tokens: int  #: how many those are
    perplexity: float
    ids: np.ndarray  #: all tokens of the text
    log_probabilities: np.ndarray  #: of each; NaN for those that are not predicted


class Tensor(NamedTuple):
    """One tensor of a model."""

    name: str  #: as the model's family spells it
    dtype: str  #: in memory: F32, BF16 or F16
    shape: tuple[int, ...]
    trained: bool  #: does a tuner change it?


class LM:
    """A language model with its tokenizer.

    model    a Hugging Face folder, a GGUF file, or ORG/NAME of a model that `zest pull` has fetched
    options  by name, as in lm_options(): threads=4, compute="bf16", train_only="..."

    Wherever a text is taken, token ids are taken, too. A text gets the model's special tokens around it.
    """

    def __init__(self, model: StrPath, **options: Any) -> None:
        ctx = Context()
        self._adopt(ctx, lib.zest_lm_load(ctx.handle, c.to_path(model), option_lines(options)))

    @classmethod
    def tokenizer(cls, model: StrPath) -> "LM":
        """The tokenizer alone: encode, decode and the special tokens work, no weights are read."""
        made, ctx = cls.__new__(cls), Context()
        made._adopt(ctx, lib.zest_lm_load_tokenizer(ctx.handle, c.to_path(model)))
        return made

    @classmethod
    def from_run(
        cls,
        folder: StrPath,
        step: Union[int, str] = "best",
        progress: Optional[Callable[[int, int], Any]] = None,
        **options: Any,
    ) -> "LM":
        """The model of a run at a step: a number from 0 (the start), "last" or "best".

        It is rebuilt from the journal, bit for bit, where no checkpoint has it. progress(done, total) is told of
        steps that are replayed.
        """
        made, ctx, callbacks = cls.__new__(cls), Context(), Callbacks()
        told = callbacks.progress(progress)
        handle = None
        try:
            with callbacks.calling():
                handle = lib.zest_lm_open_run(
                    ctx.handle, c.to_path(folder), c.to_text(step), option_lines(options), told, None
                )
        except BaseException:
            lib.zest_lm_free(handle)
            raise
        made._adopt(ctx, handle)
        return made

    # -- handle --

    def _adopt(self, ctx: Context, handle: Optional[int]) -> None:
        self._handle: Optional[int] = handle
        self._ctx = ctx
        self._callbacks = Callbacks()
        self._has_tuner = False
        self._children = 0  # batches and tuners, which are freed first
        if not handle:
            raise ctx.error()
        row = c.LMInfo_()
        self._check(lib.zest_lm_get_info(handle, ctypes.byref(row)))
        values = {field.name: getattr(row, field.name) for field in fields(LMInfo)}
        texts = {name: (value or b"").decode() for name, value in values.items() if name in _TEXTS}
        self.info = LMInfo(**{**values, **texts, "causal": bool(row.causal), "has_weights": bool(row.has_weights)})

    def _alive(self) -> int:
        if not self._handle:
            raise StateError("the model is closed")
        if self._callbacks.running:
            raise StateError("the model is in use: a callback of its own cannot call it")
        return self._handle

    def _check(self, status: int) -> None:
        self._ctx.check(status)

    def close(self) -> None:
        """Frees the weights."""
        if self._handle:
            if self._children:
                raise StateError("close the batches and tuners of the model first")
            handle = self._alive()
            self._handle = None
            lib.zest_lm_free(handle)

    def __enter__(self) -> "LM":
        return self

    def __exit__(self, *_: Any) -> None:
        if not self._children:  # else freed when the last of them is gone
            self.close()

    def __del__(self, free: Callable[[Any], None] = lib.zest_lm_free) -> None:
        handle, self._handle = getattr(self, "_handle", None), None
        if handle:
            free(handle)

    def __repr__(self) -> str:
        info = self.info
        return f"<zest.LM {info.family or 'tokenizer'}, {info.parameters} parameters, {info.weights}, {info.device}>"

    def save(self, folder: StrPath) -> None:
        """Writes a Hugging Face folder: config.json, model.safetensors and the tokenizer's files."""
        self._check(lib.zest_lm_save(self._alive(), c.to_path(folder)))

    def save_gguf(self, path: StrPath, type: str = "stored") -> None:
        """Writes a GGUF file for llama.cpp. type: of the matrices, as `zest export` takes it: "f32", "q8_0", "q4_k"."""
        self._check(lib.zest_lm_save_gguf(self._alive(), c.to_path(path), to_bytes(type)))

    @property
    def fingerprint(self) -> int:
        """A hash of all trained weights: names, types and every byte."""
        value = ctypes.c_uint64()
        self._check(lib.zest_lm_fingerprint(self._alive(), ctypes.byref(value)))
        return value.value

    # -- weights --

    @property
    def tensors(self) -> list[Tensor]:
        """All tensors, in the order in which a direction runs through them. A tied head is one tensor."""
        found: list[Tensor] = []
        row = c.Tensor_()
        while lib.zest_lm_get_tensor(self._alive(), len(found), ctypes.byref(row)):
            shape = tuple(row.shape[i] for i in range(row.rank))
            found.append(Tensor(row.name.decode(), row.dtype.decode(), shape, bool(row.trained)))
        return found

    def _tensor(self, name: str) -> tuple[int, Tensor]:
        for index, tensor in enumerate(self.tensors):
            if tensor.name == name:
                return index, tensor
        raise KeyError(name)

    def read_tensor(self, name: str) -> np.ndarray:
        """A copy of a tensor, as float32."""
        index, tensor = self._tensor(name)
        out = np.empty(tensor.shape, np.float32)
        self._check(lib.zest_lm_read_tensor(self._alive(), index, 0, out.size, out.ctypes.data))
        return out

    def write_tensor(self, name: str, values: Any) -> None:
        """Replaces a tensor. The values are rounded to its type."""
        index, tensor = self._tensor(name)
        numbers = np.ascontiguousarray(values, np.float32)
        if numbers.shape != tensor.shape:
            raise c.ArgumentError(f"{name} has the shape {tensor.shape}, the values have {numbers.shape}")
        self._check(lib.zest_lm_write_tensor(self._alive(), index, 0, numbers.size, numbers.ctypes.data))

    def tuner(self, f: Optional[Callable[[Lanes], Any]] = None, **options: Any) -> "LMTuner":
        """A tuner over the trained weights, with an objective of your own; every step changes the model.

        f(lanes) returns one loss for each lane; `lambda lanes: lm.mean_loss(batch, lanes)` is the loss of a batch.
        Without f, use ask() and tell(). options: as in options(); lr starts from 1e-5, rho from 0.002.
        """
        return LMTuner(self, f, options)

    def replay(self, journal: StrPath, step: Optional[int] = None) -> None:
        """Takes the weights that a journal was started from to those after a step (default: all), bit for bit."""
        handle = lib.zest_journal_open(self._ctx.handle, c.to_path(journal))
        if not handle:
            raise self._ctx.error()
        try:
            last = lib.zest_journal_steps(handle) if step is None else as_index(step)
            self._check(lib.zest_lm_replay(self._alive(), handle, last))
        finally:
            lib.zest_journal_close(handle)

    # -- tokens --

    def encode(self, text: Text, add_special_tokens: bool = True, literal: bool = False) -> np.ndarray:
        """Token ids, int32. literal: "</s>" in the text stands for itself and not for the special token."""
        data = to_bytes(text)
        flags = c.ADD_SPECIAL * add_special_tokens | c.LITERAL * literal
        ids, count = np.empty(len(data) + 16, np.int32), ctypes.c_size_t()
        arguments = (self._alive(), data, len(data), flags)
        status = lib.zest_lm_encode(*arguments, ids.ctypes.data, ids.size, ctypes.byref(count))
        if status and count.value > ids.size:
            ids = np.empty(count.value, np.int32)
            status = lib.zest_lm_encode(*arguments, ids.ctypes.data, ids.size, ctypes.byref(count))
        self._check(status)
        return ids[: count.value].copy()

    def decode(self, ids: TextOrIds, skip_special_tokens: bool = False, first: int = 0) -> str:
        """The text of ids[first:], as a continuation of ids[:first]."""
        tokens, size = self._ids(ids), ctypes.c_size_t()
        if not 0 <= first <= tokens.size:
            raise c.ArgumentError(f"first is {first}, of {tokens.size} tokens")
        arguments = (self._alive(), tokens.ctypes.data, first, tokens.size, c.SKIP_SPECIAL * skip_special_tokens)
        self._check(lib.zest_lm_decode(*arguments, None, 0, ctypes.byref(size)))
        text = ctypes.create_string_buffer(size.value + 1)
        self._check(lib.zest_lm_decode(*arguments, text, size.value + 1, ctypes.byref(size)))
        return text.raw[: size.value].decode("utf-8", "replace")

    def token(self, id: int) -> str:
        """The spelling of a token in the vocabulary."""
        spelling = lib.zest_lm_token(self._alive(), id, None)
        if spelling is None:
            raise IndexError(f"there is no token {id}")
        return str(spelling.decode("utf-8", "replace"))

    def token_id(self, spelling: str) -> Optional[int]:
        """The token with this spelling, as token() gives it; None if there is none."""
        found = lib.zest_lm_token_id(self._alive(), to_bytes(spelling))
        return None if found < 0 else found

    def single_token(self, text: str) -> int:
        """The one token of a text, such as a label word with its blank, " great". Several tokens are refused."""
        found = ctypes.c_int32()
        self._check(lib.zest_lm_single_token(self._alive(), to_bytes(text), ctypes.byref(found)))
        return found.value

    def is_special(self, id: int) -> bool:
        """Is the token one of the model's own, such as </s>?"""
        return bool(lib.zest_lm_token_is_special(self._alive(), id))

    def _role(self, name: str) -> Optional[int]:
        found = lib.zest_lm_special_token(self._alive(), c.ROLES.index(name))
        return None if found < 0 else found

    bos_token_id = property(lambda self: self._role("bos"))
    eos_token_id = property(lambda self: self._role("eos"))
    pad_token_id = property(lambda self: self._role("pad"))
    unk_token_id = property(lambda self: self._role("unk"))
    mask_token_id = property(lambda self: self._role("mask"))
    cls_token_id = property(lambda self: self._role("cls"))
    sep_token_id = property(lambda self: self._role("sep"))

    def _ids(self, text: TextOrIds) -> np.ndarray:
        """Tokens of a text, or tokens as they are."""
        if isinstance(text, (str, bytes)):
            return self.encode(text)
        return as_ids(text)

    # -- forward passes --

    def batch(self, texts: Iterable[TextOrIds] = ()) -> "Batch":
        """An empty batch of examples, or one with these texts (causal models)."""
        made = Batch(self)
        for text in texts:
            made.add_text(text)
        return made

    def losses(self, batch: Union["Batch", Iterable[TextOrIds]], lanes: Optional[Lanes] = None) -> np.ndarray:
        """The loss of every example: (examples,), or with the lanes of a tuner of this model (lanes, examples).

        Instead of a batch, texts: minus their log-likelihood under a causal model.
        """
        return np.asarray(self._losses(batch, lanes, False))

    def mean_loss(self, batch: Union["Batch", Iterable[TextOrIds]], lanes: Optional[Lanes] = None) -> Any:
        """The mean loss of a batch (of texts: per token): a number, or with lanes an array (lanes,)."""
        return self._losses(batch, lanes, True)

    def _losses(self, batch: Any, lanes: Optional[Lanes], mean: bool) -> Any:
        if not isinstance(batch, Batch):
            with self.batch(batch) as made:
                return self._losses(made, lanes, mean)
        count = 1 if lanes is None else len(lanes)
        out = np.empty(count if mean else (count, len(batch)))
        data = out.ctypes.data
        self._check(
            lib.zest_lm_losses(
                self._alive(), self._lanes(lanes), batch._of(self), None if mean else data, data if mean else None
            )
        )
        if lanes is not None:
            return out
        return float(out[0]) if mean else out[0]

    def choose(self, batch: "Batch", lanes: Optional[Lanes] = None) -> np.ndarray:
        """The option or label word with the highest score for every example; shapes as losses() has them."""
        count = 1 if lanes is None else len(lanes)
        out = np.empty((count, len(batch)), np.int32)
        self._check(lib.zest_lm_choose(self._alive(), self._lanes(lanes), batch._of(self), out.ctypes.data))
        return out[0] if lanes is None else out

    @staticmethod
    def _lanes(lanes: Optional[Lanes]) -> Optional[int]:
        if lanes is not None:
            lanes._valid()
            return lanes._handle
        return None

    def logits(self, text: TextOrIds, rows: Optional[Sequence[int]] = None) -> np.ndarray:
        """Logits at the tokens `rows` (default: all): (rows, vocab_size), float32.

        Those of a causal model predict the next token, those of a masked model the token itself.
        """
        ids = self._ids(text)
        places = as_places(range(ids.size) if rows is None else rows)
        out = np.empty((places.size, self.info.vocab_size), np.float32)
        self._check(
            lib.zest_lm_logits(
                self._alive(), ids.ctypes.data, ids.size, places.ctypes.data, places.size, out.ctypes.data
            )
        )
        return out

    def score(self, text: TextOrIds) -> Score:
        """The log-probability of a text; of a masked model the pseudo-log-likelihood, one mask at a time."""
        ids = self._ids(text)
        each = np.empty(ids.size)
        self._check(lib.zest_lm_score(self._alive(), ids.ctypes.data, ids.size, each.ctypes.data))
        if self.info.causal:
            predicted = each[1:].tolist()
        else:
            predicted = [value for id, value in zip(ids.tolist(), each.tolist()) if not self.is_special(id)]
        total = 0.0
        for value in predicted:
            total += value
        perplexity = math.exp(min(-total / len(predicted), 709.0)) if predicted else math.nan
        return Score(total, len(predicted), perplexity, ids, each)

    def chat_prompt(self, messages: Sequence[dict[str, Any]]) -> str:
        """The text of a conversation by the model's chat template, ready for the assistant's next turn.

        messages: [{"role": "user", "content": "Hello"}]. Encode it with add_special_tokens=False.
        """
        data, size = json.dumps(list(messages)).encode(), ctypes.c_size_t()
        self._check(lib.zest_lm_chat_prompt(self._alive(), data, None, 0, ctypes.byref(size)))
        text = ctypes.create_string_buffer(size.value + 1)
        self._check(lib.zest_lm_chat_prompt(self._alive(), data, text, size.value + 1, ctypes.byref(size)))
        return text.raw[: size.value].decode()

    def perplexity(self, text: TextOrIds, window: int = 0, stride: int = 0) -> float:
        """The perplexity of a long text under a causal model, with a sliding window of tokens, as transformers'
        documentation defines it. window 0: as many as the model reads, at most 2048; stride 0: half a window."""
        ids, result = self._ids(text), c.PerplexityResult()
        options = c.PerplexityOptions(window=window, stride=stride)
        self._check(
            lib.zest_lm_perplexity(
                self._alive(), ids.ctypes.data, ids.size, ctypes.byref(options), ctypes.byref(result)
            )
        )
        return float(result.perplexity)

    def generate(
        self,
        prompt: Union[TextOrIds, list[str]],
        max_tokens: int = 64,
        stops: Sequence[int] = (),
        ignore_eos: bool = False,
        on_token: Optional[Callable[[int, int], Any]] = None,
        **sampling: Any,
    ) -> Any:
        """The continuation of a prompt, or a list of those of a list of prompts.

        stops         tokens behind which a text ends, beside the end-of-text token (which ignore_eos turns off)
        on_token      on_token(prompt, token) is told every new token; something true ends the generation of all
        sampling      temperature, top_k, top_p, min_p, repetition_penalty, seed, as `zest generate` takes them;
                      without them, or with a temperature of 0, the most probable token
        """
        several = isinstance(prompt, list) and all(isinstance(text, (str, bytes)) for text in prompt)
        prompts = [self._ids(text) for text in prompt] if several else [self._ids(prompt)]  # type: ignore
        new = self.generate_ids(prompts, max_tokens, stops, ignore_eos, on_token, **sampling)
        texts = [
            self.decode(np.concatenate([ids, more]), skip_special_tokens=True, first=ids.size)
            for ids, more in zip(prompts, new)
        ]
        return texts if several else texts[0]

    def generate_ids(
        self,
        prompts: Sequence[TextOrIds],
        max_tokens: int = 64,
        stops: Sequence[int] = (),
        ignore_eos: bool = False,
        on_token: Optional[Callable[[int, int], Any]] = None,
        **sampling: Any,
    ) -> list[np.ndarray]:
        """The new tokens of every prompt."""
        each, handle = [self._ids(prompt) for prompt in prompts], self._alive()
        self._check(lib.zest_lm_set_sampling(handle, option_lines(sampling)))
        if max_tokens < 1:
            raise c.ArgumentError("max_tokens must be at least 1")
        if not each:
            return []
        ids, starts = packed(each)
        ends = as_ids(stops)
        told = lambda prompt, token, _: 1 if on_token(prompt, token) else 0  # type: ignore[misc]  # noqa: E731
        options = c.GenerateOptions(
            max_tokens=max_tokens,
            stops=ends.ctypes.data,
            stop_count=ends.size,
            ignore_eos=int(ignore_eos),
            on_token=c.OnToken(self._callbacks.wrap(told, 1) if on_token else 0),
        )
        out, counts = np.empty((len(each), max_tokens), np.int32), np.empty(len(each), np.uintp)
        status = 0
        with self._callbacks.calling():
            status = lib.zest_lm_generate_batch(
                handle,
                ids.ctypes.data,
                starts.ctypes.data,
                len(each),
                ctypes.byref(options),
                out.ctypes.data,
                counts.ctypes.data,
            )
        self._check(status)
        return [row[: int(count)].copy() for row, count in zip(out, counts)]


_TEXTS = ("family", "weights", "compute", "device")


class LMTuner(Stepper):
    """Steps on the weights of a model: LM.tuner() makes it. One at a time for each model."""

    def __init__(self, lm: LM, f: Optional[Callable[[Lanes], Any]], options: dict[str, Any]) -> None:
        self._handle = None
        self.lm: Optional[LM] = None
        if lm._has_tuner:
            raise StateError("the model has a tuner: close it first")
        super().__init__(lm._ctx, lib.zest_lm_tuner(lm._alive()))
        self.lm = lm
        lm._children += 1
        lm._has_tuner = True

        def evaluate(lanes: Lanes, losses: np.ndarray) -> None:
            losses[:] = as_losses(f(lanes), len(lanes))  # type: ignore[misc]

        if f:
            self._set_objective(evaluate)
        self.set(**options)

    def _freed(self) -> None:
        if self.lm:
            self.lm._children -= 1
            self.lm._has_tuner = False


class Batch:
    """Examples of one kind, for LM.losses() and LM.choose()."""

    def __init__(self, lm: LM) -> None:
        self._lm: Optional[LM] = lm
        self._handle: Optional[int] = lib.zest_lm_batch_new(lm._alive())
        if not self._handle:
            raise lm._ctx.error()
        lm._children += 1

    def _of(self, lm: LM) -> int:
        if lm is not self._lm or not self._handle:
            raise c.ArgumentError("the batch is closed, or belongs to another model")
        return self._handle

    def _add(self, add: Callable[..., int], *arguments: Any) -> None:
        if not self._handle or not self._lm:
            raise StateError("the batch is closed")
        self._lm._alive()
        self._lm._check(add(self._handle, *arguments))

    def _ids(self, text: TextOrIds) -> np.ndarray:
        if not self._lm:
            raise StateError("the batch is closed")
        return self._lm._ids(text)

    def __len__(self) -> int:
        return int(lib.zest_lm_batch_count(self._handle)) if self._handle else 0

    def clear(self) -> None:
        """Takes all examples out; label words stay."""
        if self._handle:
            lib.zest_lm_batch_clear(self._handle)

    def close(self, free: Callable[[Any], None] = lib.zest_lm_batch_free) -> None:
        handle, self._handle = getattr(self, "_handle", None), None
        if handle and self._lm:
            free(handle)
            self._lm._children -= 1
            self._lm = None

    def __enter__(self) -> "Batch":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    __del__ = close

    def add_text(self, text: TextOrIds, first: int = 1) -> None:
        """Language modelling, causal models: minus the log-likelihood of tokens first, first+1, ..."""
        ids = self._ids(text)
        self._add(lib.zest_lm_batch_add_text, ids.ctypes.data, ids.size, first)

    def add_mlm(self, text: TextOrIds, targets: dict[int, int]) -> None:
        """Language modelling, masked models: targets says which token is right at which position."""
        ids = self._ids(text)
        places, right = as_places(targets.keys()), as_ids(list(targets.values()))
        self._add(
            lib.zest_lm_batch_add_mlm, ids.ctypes.data, ids.size, places.ctypes.data, right.ctypes.data, right.size
        )

    def add_choices(self, prompt: TextOrIds, options: Sequence[TextOrIds], answer: int) -> None:
        """A choice between continuations, causal models. A text continues the prompt without special tokens."""
        if not self._lm:
            raise StateError("the batch is closed")
        lm, ids = self._lm, self._ids(prompt)
        each = [
            lm.encode(option, add_special_tokens=False) if isinstance(option, (str, bytes)) else as_ids(option)
            for option in options
        ]
        tokens, starts = packed(each)
        self._add(
            lib.zest_lm_batch_add_choices,
            ids.ctypes.data,
            ids.size,
            tokens.ctypes.data,
            starts.ctypes.data,
            len(each),
            as_index(answer),
        )

    def set_label_words(self, words: Sequence[int]) -> None:
        """The label words of add_masked, before the first example."""
        ids = as_ids(words)
        self._add(lib.zest_lm_batch_set_label_words, ids.ctypes.data, ids.size)

    def add_masked(self, text: TextOrIds, answer: int, position: Optional[int] = None) -> None:
        """A classification, masked models: the label words' logits at `position` (default: the first mask token)."""
        ids = self._ids(text)
        if position is None:
            mask = self._lm.mask_token_id if self._lm else None
            found = np.flatnonzero(ids == mask) if mask is not None else np.empty(0, int)
            if not found.size:
                raise c.ArgumentError("the text has no mask token: write it into the text, or give its position")
            position = int(found[0])
        self._add(lib.zest_lm_batch_add_masked, ids.ctypes.data, ids.size, as_index(position), as_index(answer))


# ---- Arrays as C takes them -----------------------------------------------------------------------------------


def to_bytes(text: Text) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")


def as_ids(ids: Any) -> np.ndarray:
    """Token ids as int32."""
    numbers = np.asarray(ids)
    if numbers.size and numbers.dtype.kind not in "iu":
        raise c.ArgumentError(f"token ids are integers, not {numbers.dtype.name}")
    if numbers.size and (numbers.min() < 0 or numbers.max() > 2**31 - 1):
        raise c.ArgumentError("a token id is out of range")
    return np.ascontiguousarray(numbers, np.int32).reshape(-1)


def as_index(value: int) -> int:
    """Not negative: C would take it for a huge number."""
    if value < 0:
        raise c.ArgumentError(f"{value} is negative")
    return value


def as_places(places: Iterable[int]) -> np.ndarray:
    return np.array([as_index(place) for place in places], np.uintp)


def packed(each: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Sequences behind each other, and where each starts; one more start ends the last."""
    starts = np.zeros(len(each) + 1, np.uintp)
    starts[1:] = np.cumsum([ids.size for ids in each])
    return np.concatenate([np.empty(0, np.int32), *each]), starts
