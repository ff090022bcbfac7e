"""Minimise a Python function of a NumPy array: minimize() in one call, Tuner for a loop of your own."""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Callable, NamedTuple, Optional, TypeVar, Union

import numpy as np

from . import _library as c
from ._callbacks import Callbacks
from ._library import Context, StateError, lib

Self = TypeVar("Self")
StrPath = Union[str, "PathLike[str]"]
Objective = Callable[[np.ndarray], Any]

# ---- Options --------------------------------------------------------------------------------------------------


class Option(NamedTuple):
    """One row of the option table."""

    name: str  #: as Python writes it: final_lr
    kind: str  #: "real", "count", "seed", "choice", "text", "list" or "flag"
    default: str
    values: str  #: range or choices in words; "" when anything goes
    help: str


def read_options(read: Callable[..., int]) -> list[Option]:
    """All rows of an option table of the library."""
    rows: list[Option] = []
    row = c.Option_()
    while read(len(rows), ctypes.byref(row)):
        texts = [(text or b"").decode() for text in (row.name, row.kind, row.fallback, row.values, row.help)]
        rows.append(Option(texts[0].replace("-", "_"), *texts[1:]))
    return rows


def options() -> list[Option]:
    """The options of minimize() and Tuner: name, kind, default, range, help."""
    return read_options(lib.zest_tuner_option)


def option_name(name: str) -> bytes:
    """final_lr -> final-lr, as the option table spells it."""
    return name.replace("_", "-").encode()


# ---- What steps and runs report -------------------------------------------------------------------------------


@dataclass(frozen=True)
class TiltReport:
    """What the tilt saw in the losses of a step."""

    mean: float  #: mean of the finite losses: estimates E f(x + rho v)
    tilted: float  #: (1/t) log mean exp(t f); the mean when t = 0
    lowest: float
    highest: float
    spread: float  #: standard deviation of the losses
    slope: float  #: of pairs with the losses b + a and b - a: root mean square of a
    curvature: float  #: and the standard deviation of b
    effective: float  #: effective sample size, from 1 (one pair decides) to k (all count the same)
    saturation: float  #: from 0 to 1, where a step cannot grow further
    dropped: int  #: pairs with a loss that is not finite
    flipped: int  #: directions that the bias correction reversed
    t: float  #: the tilt of the step: t, or what t="auto" chose
    scale: float  #: what step_length and max_step multiplied the coefficients with; 1 without them


@dataclass(frozen=True)
class StepReport:
    """One step of a tuner."""

    step: int  #: steps done, this one included
    evaluations: int  #: losses evaluated so far
    lr: float
    loss: float  #: f(x) before the step if eval_every says so, else tilt.mean
    tilt: TiltReport


@dataclass(frozen=True)
class Result:
    """The end of a run."""

    x: Any  #: the final point; None when the weights of a model were tuned
    loss: float  #: f at the final point
    steps: int
    evaluations: int
    reason: str  #: in words: "steps done", "target reached", ...
    stop: str  #: as a name: steps, evaluations, time, target, stagnation or callback
    best: float  #: smallest loss of a step, and the step that saw it
    best_step: int
    dropped_pairs: int
    seconds: float


def tilt_report(row: c.TiltReport_) -> TiltReport:
    return TiltReport(*(getattr(row, name) for name, *_ in c.TiltReport_._fields_))


def step_report(row: c.StepReport_) -> StepReport:
    return StepReport(row.step, row.evaluations, row.lr, row.loss, tilt_report(row.tilt))


# ---- Parts: directions and the tilt ---------------------------------------------------------------------------


def seed(run: int, step: int, index: int) -> int:
    """The seed of a direction of a run."""
    return int(lib.zest_seed(run, step, index))


class Direction:
    """A random vector that is never stored: any slice of it is made again from its seed."""

    def __init__(self, seed: int, dimension: int, distribution: str = "gaussian") -> None:
        self._ctx = Context()
        self._row = c.Direction_()
        number = choice(distribution, c.DISTRIBUTIONS, "distribution")
        self._ctx.check(lib.zest_direction_init(self._ctx.handle, ctypes.byref(self._row), number, seed, dimension))

    @classmethod
    def _of(cls, row: c.Direction_) -> "Direction":
        made = cls.__new__(cls)
        made._ctx, made._row = Context(), row
        return made

    seed = property(lambda self: self._row.seed)
    dimension = property(lambda self: self._row.dimension)
    gain = property(lambda self: self._row.gain)
    distribution = property(lambda self: c.DISTRIBUTIONS[self._row.distribution])

    def read(self, first: int = 0, count: Optional[int] = None, out: Optional[np.ndarray] = None) -> np.ndarray:
        """Elements first .. first+count-1 as float32."""
        if count is None:
            count = self.dimension - first if out is None else out.size
        out = output(out, count, np.dtype(np.float32))
        self._ctx.check(
            lib.zest_direction_read(self._ctx.handle, ctypes.byref(self._row), first, count, out.ctypes.data)
        )
        return out


def tilt(
    losses: Any, t: float = 1.0, rho: float = 1e-3, estimator: str = "naive", ball_pairs: int = 0
) -> tuple[np.ndarray, TiltReport]:
    """Losses f(x+rho v_0), f(x-rho v_0), f(x+rho v_1), ... -> coefficients c_i of the gradient estimate sum c_i v_i."""
    numbers = np.ascontiguousarray(losses, dtype=np.float64).reshape(-1)
    k = numbers.size // 2 - ball_pairs
    if numbers.size % 2 or k < 1 or ball_pairs < 0:
        raise c.ArgumentError("losses come in pairs: 2k of them, then 2 for each ball pair, and k is at least 1")
    row = c.TiltOptions(choice(estimator, c.ESTIMATORS, "estimator"), t, rho, k, ball_pairs, 0)
    coefficients, report, ctx = np.empty(k), c.TiltReport_(), Context()
    ctx.check(
        lib.zest_tilt(
            ctx.handle, ctypes.byref(row), numbers.ctypes.data, coefficients.ctypes.data, ctypes.byref(report)
        )
    )
    return coefficients, tilt_report(report)


def choice(name: str, names: Sequence[str], what: str) -> int:
    if name not in names:
        raise c.ArgumentError(f"{what} {name!r} is none of {', '.join(names)}")
    return list(names).index(name)


def output(out: Optional[np.ndarray], size: int, dtype: np.dtype) -> np.ndarray:
    """An array that C may fill: the caller's if it will do, else a new one."""
    if out is None:
        return np.empty(size, dtype)
    if out.dtype != dtype or out.size != size or not out.flags.carray:
        raise c.ArgumentError(f"out must be a writeable, contiguous array of {size} numbers of type {dtype.name}")
    return out


# ---- Lanes ----------------------------------------------------------------------------------------------------


class Lanes:
    """The perturbed copies of x of one step, each x + scale·direction. Valid until the step is over."""

    def __init__(self, tuner: "Stepper", handle: int) -> None:
        self._tuner, self._handle, self._step = tuner, handle, tuner._generation
        self._count = int(lib.zest_lanes_count(handle))

    def _valid(self, lane: int = 0) -> int:
        if self._step != self._tuner._generation or not self._tuner._handle:
            raise StateError("these lanes belong to a step that is over")
        lane = operator.index(lane)
        if not -self._count <= lane < self._count:
            raise IndexError(f"lane {lane} of {self._count}")
        return lane % self._count

    def __len__(self) -> int:
        return self._count

    def describe(self, lane: int) -> tuple[Direction, float]:
        """(direction, scale): the lane is x + scale·direction. Scale 0 is x itself."""
        row, scale = c.Direction_(), ctypes.c_double()
        lane = self._valid(lane)
        self._tuner._ctx.check(lib.zest_lanes_describe(self._handle, lane, ctypes.byref(row), ctypes.byref(scale)))
        return Direction._of(row), scale.value


class VectorLanes(Lanes):
    """Lanes of a NumPy array. lanes[i] is a new array; they are made when they are read.

    Reading is thread-safe: lanes may be evaluated in a thread pool.
    """

    _tuner: "Tuner"

    def __getitem__(self, lane: int) -> np.ndarray:
        return self.read(lane)

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self.read(lane) for lane in range(self._count))

    def read(
        self, lane: int, out: Optional[np.ndarray] = None, first: int = 0, count: Optional[int] = None
    ) -> np.ndarray:
        """Lane number `lane` in the shape of x, or `count` of its elements from `first` on, written to out if given."""
        lane, x = self._valid(lane), self._tuner.x
        whole = first == 0 and count is None
        count = x.size - first if count is None else count
        shaped = output(out, count, x.dtype)
        self._tuner._ctx.check(self._tuner._read(self._handle, lane, first, count, shaped.ctypes.data))
        return shaped.reshape(x.shape) if whole and out is None else shaped

    def array(self, out: Optional[np.ndarray] = None) -> np.ndarray:
        """All lanes, (lanes, *x.shape)."""
        shape = (self._count, *self._tuner.x.shape)
        out = output(out, self._count * self._tuner.x.size, self._tuner.x.dtype).reshape(shape)
        for lane in range(self._count):
            self.read(lane, out[lane])
        return out


# ---- Tuner ----------------------------------------------------------------------------------------------------


class Stepper:
    """What every tuner has: options, journal, steps. Tuner adds x; LM.tuner() makes one for the weights of a model."""

    def __init__(self, ctx: Context, handle: Optional[int]) -> None:
        self._handle = handle
        self._ctx = ctx
        self._generation = 0
        self._callbacks = Callbacks()
        if not handle:
            raise ctx.error()
        self._on_step: Any = None
        self._objective: Any = None

    def _set_objective(self, evaluate: Callable[[Any, np.ndarray], None]) -> None:
        """evaluate(lanes, losses) fills losses."""

        def objective(handle: int, losses: Any, _: Any) -> int:
            lanes = self._lanes(handle)
            evaluate(lanes, np.ctypeslib.as_array(losses, (len(lanes),)))
            self._generation += 1
            return 0

        # Kept on self: C holds a pointer to it.
        self._objective = c.ObjectiveLanes(self._callbacks.wrap(objective, 1))
        self._check(lib.zest_tuner_objective_lanes(self._handle, self._objective, None))

    def _lanes(self, handle: int) -> Any:
        return Lanes(self, handle)

    def _result_x(self) -> Optional[np.ndarray]:
        return None

    # -- handle --

    def _alive(self) -> int:
        if not self._handle:
            raise StateError("the tuner is closed")
        if self._callbacks.running:
            raise StateError("the tuner is in a step: its own objective cannot call it")
        return self._handle

    def _check(self, status: int) -> None:
        self._ctx.check(status)

    def close(self) -> None:
        """Frees the tuner and closes its journal. x stays."""
        if self._handle:
            handle = self._alive()
            self._handle = None
            lib.zest_tuner_free(handle)
            self._freed()

    def _freed(self) -> None:
        """Told when the handle is gone."""

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self, free: Callable[[Any], None] = lib.zest_tuner_free) -> None:
        handle, self._handle = getattr(self, "_handle", None), None
        if handle:
            free(handle)
            self._freed()

    # -- options --

    def set(self, **options: Any) -> None:
        """Options by name. All before the first step; lr, the stop criteria and threads at any time."""
        for name, value in options.items():
            if value is not None:
                self._check(lib.zest_tuner_set(self._alive(), option_name(name), c.to_text(value)))

    def get(self, name: str) -> str:
        """The value of an option, as text."""
        value = lib.zest_tuner_get(self._alive(), option_name(name))
        if value is None:
            raise KeyError(name)
        return str(value.decode())

    @property
    def options(self) -> dict[str, str]:
        """All options and their values."""
        return {option.name: self.get(option.name) for option in options()}

    # -- journal --

    def start_journal(self, path: StrPath) -> None:
        """Writes a journal to path from the first step on. A file that exists is refused."""
        self._check(lib.zest_tuner_start_journal(self._alive(), c.to_path(path)))

    def resume_journal(self, path: StrPath) -> None:
        """Goes on with the run of a journal: x must hold its starting point, and is brought to its last step."""
        self._check(lib.zest_tuner_resume_journal(self._alive(), c.to_path(path)))

    # -- steps --

    def step(self) -> StepReport:
        """One step: evaluates the lanes, moves x."""
        handle, report, status = self._alive(), c.StepReport_(), 0
        with self._callbacks.calling():
            status = lib.zest_tuner_step(handle, ctypes.byref(report))
        self._generation += 1
        self._check(status)
        return step_report(report)

    def ask(self) -> Any:
        """The lanes of the next step, to be evaluated anywhere; then tell() their losses."""
        lanes = ctypes.c_void_p()
        self._check(lib.zest_tuner_ask(self._alive(), ctypes.byref(lanes)))
        assert lanes.value
        return self._lanes(lanes.value)

    def tell(self, losses: Any) -> StepReport:
        """Takes the step that ask() began: losses[i] is the loss of lane i."""
        numbers, report = as_losses(losses, len(self.ask())), c.StepReport_()
        self._generation += 1
        self._check(lib.zest_tuner_tell(self._alive(), numbers.ctypes.data, ctypes.byref(report)))
        return step_report(report)

    def run(self, on_step: Optional[Callable[[StepReport], Any]] = None) -> Result:
        """Steps until a stop criterion holds, then evaluates f at the final x.

        on_step is called after every step; when it returns something true, the run ends. Ctrl-C raises
        KeyboardInterrupt: x is then that of the last whole step, and run() or a journal can go on from there.
        """
        handle, row, status = self._alive(), c.Result_(), 0

        def after_step(report: Any, _: Any) -> int:
            self._generation += 1
            return 1 if on_step and on_step(step_report(report.contents)) else 0

        # Kept on self: C holds a pointer to it.
        self._on_step = c.OnStep(self._callbacks.wrap(after_step, 1) if on_step else 0)
        lib.zest_tuner_on_step(handle, self._on_step, None)
        with self._callbacks.calling():
            status = lib.zest_tuner_run(handle, ctypes.byref(row))
        self._generation += 1
        self._check(status)
        return Result(
            x=self._result_x(),
            loss=row.loss,
            steps=row.steps,
            evaluations=row.evaluations,
            reason=lib.zest_stop_name(row.stop).decode(),
            stop=c.STOPS[row.stop],
            best=row.best,
            best_step=row.best_step,
            dropped_pairs=row.dropped_pairs,
            seconds=row.seconds,
        )

    def stop(self) -> None:
        """Ends run() after the step in flight. For callbacks and other threads."""
        if self._handle:
            lib.zest_tuner_stop(self._handle)


class Tuner(Stepper):
    """Steps on x from losses alone.

    x        a float32 or float64 array, contiguous and writeable: every step updates it in place, without a copy.
             Anything else (a list, integers) is copied into a float64 array, which `tuner.x` is.
    f        the loss of one point: gets a read-only view with the shape of x, which the next call overwrites.
    f_lanes  instead of f: gets the Lanes of a step and returns one loss for each.
    options  by name, as in options(): k=8, lr=1e-3, t=0.5, final_lr=0.1

    A loss that is not finite drops its pair from the step. An exception in f ends the run before the step in flight
    is taken, and is raised by step() or run().
    """

    def __init__(
        self,
        x: Any,
        f: Optional[Objective] = None,
        *,
        f_lanes: Optional[Callable[[Lanes], Any]] = None,
        **options: Any,
    ) -> None:
        self._handle = None
        if f and f_lanes:
            raise c.ArgumentError("a tuner takes f or f_lanes, not both")
        self._flat = as_vector(x)
        self.x: np.ndarray = self._flat.reshape(np.shape(x))
        f64 = self._flat.dtype == np.float64
        self._read = lib.zest_lanes_read_f64 if f64 else lib.zest_lanes_read_f32
        ctx, new = Context(), lib.zest_tuner_new_f64 if f64 else lib.zest_tuner_new_f32
        super().__init__(ctx, new(ctx.handle, self._flat.ctypes.data, self._flat.size))
        self._f, self._f_lanes, self._point = f, f_lanes, np.empty(0)
        if f or f_lanes:
            self._set_objective(self._evaluate)
        self.set(**options)

    def _lanes(self, handle: int) -> Lanes:
        return VectorLanes(self, handle)

    def _result_x(self) -> Optional[np.ndarray]:
        return self.x

    def _evaluate(self, lanes: VectorLanes, losses: np.ndarray) -> None:
        if self._f_lanes:
            losses[:] = as_losses(self._f_lanes(lanes), len(lanes))
            return
        if self._point.size != self._flat.size:
            self._point = np.empty_like(self._flat)
        view = self._point.reshape(self.x.shape)
        view.flags.writeable = False
        for lane in range(len(lanes)):
            lanes.read(lane, self._point)
            losses[lane] = float(self._f(view))  # type: ignore[misc]


def as_vector(x: Any) -> np.ndarray:
    """A flat view on x that C may write, or a float64 copy if x is no array of a type that the library has."""
    if isinstance(x, np.ndarray) and x.dtype in (np.float32, np.float64):
        if not x.flags.carray:
            raise c.ArgumentError("x must be contiguous, aligned and writeable: it is updated in place")
        return x.reshape(-1)
    return np.array(x, dtype=np.float64).reshape(-1)


def as_losses(losses: Any, count: int) -> np.ndarray:
    numbers = np.ascontiguousarray(losses, dtype=np.float64).reshape(-1)
    if numbers.size != count:
        raise c.ArgumentError(f"{numbers.size} losses for {count} lanes")
    return numbers


# ---- One call -------------------------------------------------------------------------------------------------


def minimize(
    f: Objective,
    x0: Any,
    method: str = "zest-n",
    steps: Optional[int] = None,
    *,
    vectorized: bool = False,
    on_step: Optional[Callable[[StepReport], Any]] = None,
    journal: Optional[StrPath] = None,
    overwrite_x0: bool = False,
    **options: Any,
) -> Result:
    """Minimises f from its values alone.

    f             the loss of one point, which is a read-only array with the shape and type of x0;
                  with vectorized=True it gets all points of a step, (lanes, *x0.shape), and returns their losses
    x0            the starting point: float32 and float64 arrays keep their type, anything else becomes float64
    method        zest-n, zest-bc or mezo
    steps         how many steps at most; options() lists this and all further options
    on_step       called with a StepReport after every step; something true ends the run
    journal       a file that keeps the run. If it exists, the run goes on from its last step.
    overwrite_x0  work on x0 itself instead of a copy

    >>> minimize(lambda x: ((x - 1) ** 2).sum(), [0.0, 0.0], lr=0.1, steps=300).loss < 1e-6
    True
    """
    kept = isinstance(x0, np.ndarray) and x0.dtype in (np.float32, np.float64)
    x = x0 if overwrite_x0 and kept else np.array(x0, dtype=x0.dtype if kept else np.float64, order="C")
    objective: dict[str, Any] = {"f_lanes": lambda lanes: f(lanes.array())} if vectorized else {"f": f}
    with Tuner(x, method=method, steps=steps, **objective, **options) as tuner:
        if journal is not None:
            (tuner.resume_journal if Path(journal).exists() else tuner.start_journal)(journal)
            if steps is not None:
                tuner.set(steps=steps)
        return tuner.run(on_step)
