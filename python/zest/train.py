"""Fine-tune a model on a task, evaluate, predict: what `zest train`, `zest eval` and `zest predict` do."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Callable, NamedTuple, Optional, TypeVar, Union

import numpy as np

from . import _library as c
from ._callbacks import Callbacks
from ._library import Context, lib
from .tuner import Option, StrPath, option_name, read_options

T = TypeVar("T")


@dataclass(frozen=True)
class Metrics:
    """How well a model does on some examples. What does not apply is NaN."""

    n: int  #: examples
    bad: int  #: of these: with a score or loss that is not finite
    loss: float
    accuracy: float  #: of classes and choices
    f1: float
    em: float  #: exact match, where answers are texts
    perplexity: float
    value: float  #: by the task's metric
    low: float  #: 95 % interval of value
    high: float


@dataclass(frozen=True)
class TrainSummary:
    """What a run is going to be."""

    options: dict[str, str]  #: all of them, with every default filled in
    family: str
    weights: str
    task: str
    select: str  #: the metric on the dev examples that says which weights are best
    parameters: int
    trained: int
    train: int  #: examples
    dev: int
    test: int
    cut: int  #: texts that are too long and are shortened
    live: int  #: pairs of lanes in memory at once
    steps: int
    eval_every: int
    step: int  #: that a resumed run goes on from
    evaluations: int
    memory: int  #: bytes of a step, estimated
    epochs: float
    batch_tokens: float  #: tokens of a batch, on average
    step_seconds: float  #: of dry_run(); else NaN
    total_seconds: float
    peak_bytes: int
    device_peak_bytes: int
    on_device: bool  #: memory is the device's


@dataclass(frozen=True)
class TrainProgress:
    """Where a run stands, after a step or an evaluation."""

    step: int
    steps: int
    loss: float
    lr: float
    effective: float  #: effective sample size of the tilt: of the k pairs
    spread: float  #: standard deviation of the 2k losses
    slope: float  #: its part through the slope: see TiltReport
    curvature: float  #: its part through curvature
    norm: float  #: of the gradient, first-order methods
    tokens_per_second: float
    seconds: float
    dev: Metrics  #: the latest evaluation; n = 0: none yet
    dev_step: int
    dev_seconds: float
    evaluated: bool  #: told for an evaluation, not for a step
    best: bool  #: which is the best so far
    advice: str  #: on t, once; else ""


@dataclass(frozen=True)
class TrainResult:
    """The end of a run."""

    reason: str  #: done, patience, time, interrupted or diverged
    step: int
    best_step: int
    start: Metrics
    dev: Metrics  #: with the best weights, as is test
    test: Metrics
    seconds: float
    peak_bytes: int
    device_peak_bytes: int
    dropped_pairs: int
    train: int
    dev_count: int
    test_count: int
    cut: int
    metric: str  #: the task's
    first_loss: float
    latest_loss: float
    divergence_limit: float
    divergence_steps: int


@dataclass(frozen=True)
class Evaluation:
    """What evaluate() found."""

    metrics: Metrics
    step: int  #: of a run
    is_run: bool  #: path was a run, not a model
    seconds: float
    metric: str
    task: str


class Task(NamedTuple):
    """A task that is known by name."""

    name: str
    models: str  #: "masked", "causal" or "masked, causal"
    about: str


def copy_row(kind: type[T], row: Any, **given: Any) -> T:
    """A dataclass with the values of a C struct: texts decoded, structs copied, `given` as it is."""
    values = dict(given)
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name not in given:
            value = getattr(row, field.name)
            if isinstance(value, c.Metrics_):
                value = copy_row(Metrics, value)
            elif field.type == "str":
                value = (value or b"").decode("utf-8", "replace")
            elif field.type == "bool":
                value = bool(value)
            values[field.name] = value
    return kind(**values)


# ---- Options --------------------------------------------------------------------------------------------------


class _Options:
    """A zest_lm_options: options by name, with the defaults of a command."""

    def __init__(self, ctx: Context, command: str, **options: Any) -> None:
        self._ctx = ctx
        self.handle = lib.zest_lm_options_new(ctx.handle, command.encode())
        if not self.handle:
            raise ctx.error()
        for name, value in options.items():
            if value is not None:
                text = os.fsencode(value) if isinstance(value, os.PathLike) else c.to_text(value)
                ctx.check(lib.zest_lm_options_set(self.handle, option_name(name), text))

    def __del__(self, free: Callable[[Any], None] = lib.zest_lm_options_free) -> None:
        handle, self.handle = getattr(self, "handle", None), None
        if handle:
            free(handle)


def train_options(command: str = "train") -> list[Option]:
    """The options of train() ("train", or "pretrain") and evaluate() ("eval"): name, kind, default, range, help."""
    options = _Options(Context(), command)
    return read_options(lambda i, row: int(lib.zest_lm_options_list(options.handle, i, row)))


def tasks() -> list[Task]:
    """The tasks that are known by name. A task file of your own is as good: docs/own-data.md."""
    found: list[Task] = []
    row = c.TaskInfo_()
    while lib.zest_lm_task(len(found), ctypes.byref(row)):
        found.append(Task(row.name.decode(), row.models.decode(), row.about.decode()))
    return found


# ---- Calls ----------------------------------------------------------------------------------------------------


class _Call:
    """Callbacks of one call into C. An exception in any of them ends the run after the step in flight."""

    def __init__(
        self,
        on_start: Optional[Callable[[TrainSummary], Any]] = None,
        on_progress: Optional[Callable[[TrainProgress], Any]] = None,
        on_note: Optional[Callable[[str], Any]] = None,
        on_evaluate: Optional[Callable[[int, int], Any]] = None,
    ) -> None:
        self._stop = stop = ctypes.c_int(0)

        def failed() -> None:
            stop.value = 1

        self.callbacks = Callbacks(failed)

        def start(row: Any, _: Any) -> int:
            if on_start:
                on_start(copy_row(TrainSummary, row.contents, options=all_options(row.contents.options)))
            return 0

        def progress(row: Any, _: Any) -> int:
            return 1 if on_progress and on_progress(copy_row(TrainProgress, row.contents)) else 0

        def note(text: bytes, _: Any) -> int:
            if on_note:
                on_note(text.decode("utf-8", "replace"))
            return 0

        wrap = self.callbacks.wrap
        # All of them are set, so that Ctrl-C is noticed wherever C calls.
        self.row = c.LMCallbacks(
            on_start=c.OnStart(wrap(start, 0)),
            on_progress=c.OnProgress(wrap(progress, 1)),
            on_rebuild=self.callbacks.progress(lambda done, total: None),
            on_evaluate=self.callbacks.progress(on_evaluate or (lambda done, total: None)),
            on_note=c.OnNote(wrap(note, 0)),
            stop=ctypes.pointer(stop),
        )

    def __call__(self, ctx: Context, function: Callable[..., int], *arguments: Any) -> None:
        status = 0
        with self.callbacks.calling():
            status = function(*arguments)
        ctx.check(status)


def all_options(handle: int) -> dict[str, str]:
    rows = read_options(lambda i, row: int(lib.zest_lm_options_list(handle, i, row)))
    values = {row.name: lib.zest_lm_options_get(handle, option_name(row.name)) for row in rows}
    return {name: value.decode("utf-8", "replace") for name, value in values.items() if value is not None}


def _train_result(row: c.TrainResult_) -> TrainResult:
    return copy_row(TrainResult, row, reason=c.STOP_REASONS[row.reason])


def train(
    model: StrPath,
    task: StrPath,
    *,
    out: Optional[StrPath] = None,
    on_start: Optional[Callable[[TrainSummary], Any]] = None,
    on_progress: Optional[Callable[[TrainProgress], Any]] = None,
    on_note: Optional[Callable[[str], Any]] = None,
    pretrain: bool = False,
    **options: Any,
) -> TrainResult:
    """Fine-tunes a model on a task.

    model        a Hugging Face folder, a GGUF file, or ORG/NAME of a model that `zest pull` has fetched
    task         one of tasks(), or a task file of your own
    out          a folder that keeps the run: Run(out) reads it, resume(out) goes on with it. Without one, only the
                 result is left.
    on_start     called with a TrainSummary before the first step
    on_progress  called with a TrainProgress after every step and evaluation; something true ends the run
    on_note      called with sentences that are worth knowing
    options      by name, as in train_options(): steps=1000, k=8, method="mezo"

    Ctrl-C and exceptions in a callback end the run after the step in flight and are raised; with `out` it can be
    resumed. For an objective of your own use LM.tuner().
    """
    ctx, row = Context(), c.TrainResult_()
    chosen = _Options(ctx, "pretrain" if pretrain else "train", model=model, task=task, out=out, **options)
    call = _Call(on_start, on_progress, on_note)
    call(ctx, lib.zest_lm_train, ctx.handle, chosen.handle, ctypes.byref(call.row), ctypes.byref(row))
    return _train_result(row)


def resume(
    folder: StrPath,
    *,
    on_start: Optional[Callable[[TrainSummary], Any]] = None,
    on_progress: Optional[Callable[[TrainProgress], Any]] = None,
    on_note: Optional[Callable[[str], Any]] = None,
    **options: Any,
) -> TrainResult:
    """Goes on with the run in a folder. Options may say how long, and where model and data are now."""
    ctx, row = Context(), c.TrainResult_()
    chosen, call = _Options(ctx, "train", **options), _Call(on_start, on_progress, on_note)
    path = c.to_path(folder)
    call(ctx, lib.zest_lm_resume, ctx.handle, path, chosen.handle, ctypes.byref(call.row), ctypes.byref(row))
    return _train_result(row)


def dry_run(model: StrPath, task: StrPath, **options: Any) -> TrainSummary:
    """What train() would do: examples, steps, memory, time. Takes a step or two and writes nothing."""
    ctx = Context()
    told: list[TrainSummary] = []
    chosen, call = _Options(ctx, "train", model=model, task=task, **options), _Call(told.append)
    call(ctx, lib.zest_lm_dry_run, ctx.handle, chosen.handle, ctypes.byref(call.row))
    return told[-1]


def evaluate(
    path: StrPath,
    task: Optional[StrPath] = None,
    *,
    on_evaluate: Optional[Callable[[int, int], Any]] = None,
    **options: Any,
) -> Evaluation:
    """Answers the examples of a task with a model, or with a run, which brings its own task.

    on_evaluate(done, total) counts the examples. split="dev" and further options: train_options("eval").
    """
    ctx, row = Context(), c.Evaluation_()
    chosen, call = _Options(ctx, "eval", task=task, **options), _Call(on_evaluate=on_evaluate)
    name = c.to_path(path)
    call(ctx, lib.zest_lm_evaluate, ctx.handle, name, chosen.handle, ctypes.byref(call.row), ctypes.byref(row))
    return copy_row(Evaluation, row)


# ---- Prediction -----------------------------------------------------------------------------------------------


class Prediction(NamedTuple):
    """The answer to one row."""

    choice: Optional[int]  #: the class or option, from 0; None: no finite score, or the answer is a text
    text: Optional[str]  #: the label of the class, or the text that was generated
    probabilities: Optional[np.ndarray]  #: of the classes or options
    label: Optional[int]  #: the right one, where the row has it
    truncated: bool  #: the row was too long and was shortened


class Predictor:
    """Answers rows of your own with a run, which brings its task, or with a model and a task.

    >>> predictor = Predictor("run1")                                # doctest: +SKIP
    >>> predictor(["A lovely day."])[0].text                         # doctest: +SKIP
    """

    def __init__(self, path: StrPath, task: Optional[StrPath] = None, **options: Any) -> None:
        self._handle: Optional[int] = None
        self._ctx, self._callbacks = Context(), Callbacks()
        chosen, call = _Options(self._ctx, "predict", task=task, **options), _Call()
        try:
            with call.callbacks.calling():
                arguments = (self._ctx.handle, c.to_path(path), chosen.handle, ctypes.byref(call.row))
                self._handle = lib.zest_lm_predictor_new(*arguments)
        except BaseException:
            self.close()
            raise
        if not self._handle:
            raise self._ctx.error()
        self.columns: list[str] = self._names(lib.zest_lm_predictor_column)
        self.classes: list[str] = self._names(lib.zest_lm_predictor_class)

    def _names(self, read: Callable[..., Optional[bytes]]) -> list[str]:
        names: list[str] = []
        while True:
            name = read(self._handle, len(names))
            if name is None:
                return names
            names.append(name.decode("utf-8", "replace"))

    def close(self, free: Callable[[Any], None] = lib.zest_lm_predictor_free) -> None:
        handle, self._handle = getattr(self, "_handle", None), None
        if handle:
            free(handle)

    __del__ = close

    def _predict(self, function: Callable[..., int], *arguments: Any) -> list[Prediction]:
        if not self._handle or self._callbacks.running:
            raise c.StateError("the predictor is closed, or in use")
        answers: list[Prediction] = []

        def answered(pointer: Any, _: Any) -> int:
            row = pointer.contents
            numbers = row.probabilities and np.ctypeslib.as_array(row.probabilities, (row.probability_count,)).copy()
            answers.append(
                Prediction(
                    choice=row.choice if row.choice >= 0 else None,
                    text=None if row.text is None else row.text.decode("utf-8", "replace"),
                    probabilities=numbers if row.probabilities else None,
                    label=row.label if row.label >= 0 else None,
                    truncated=bool(row.truncated),
                )
            )
            return 0

        row = c.PredictCallbacks(on_prediction=c.OnPrediction(self._callbacks.wrap(answered, 1)))
        status = 0
        with self._callbacks.calling():
            status = function(self._handle, *arguments, ctypes.byref(row))
        self._ctx.check(status)
        return answers

    def __call__(self, rows: Iterable[Union[str, dict[str, Any]]]) -> list[Prediction]:
        """Answers rows: dicts with the task's columns, or texts where the task reads one column."""
        objects = [{self.columns[0]: row} if isinstance(row, str) else row for row in rows]
        if not objects:
            return []
        data = "".join(json.dumps(row) + "\n" for row in objects).encode()
        how = c.RowsFormat(format=b"jsonl")
        return self._predict(lib.zest_lm_predict, data, len(data), ctypes.byref(how))

    def split(self, name: str) -> list[Prediction]:
        """Answers the task's own examples: "train", "dev" or "test"."""
        return self._predict(lib.zest_lm_predict_split, c.to_text(name))
