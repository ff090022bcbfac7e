"""Read a journal, and rebuild x after any of its steps."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any, Callable, NamedTuple, Optional

import numpy as np

from . import _library as c
from ._library import Context, StateError, lib
from .tuner import StrPath, as_vector, option_name, options


class Record(NamedTuple):
    """One step on record."""

    step: int  #: 1 for the first
    lr: float
    losses: np.ndarray  #: f(x+rho v_1), f(x-rho v_1), ...: 2k losses, then those of the ball pairs
    center: Optional[float]  #: f(x) before the step, if it was evaluated


class Journal:
    """The journal of a run, open for reading. len() is its number of steps; iteration gives its records."""

    def __init__(self, path: StrPath) -> None:
        self._handle: Optional[int] = None
        self._ctx = Context()
        self._handle = lib.zest_journal_open(self._ctx.handle, c.to_path(path))
        if not self._handle:
            raise self._ctx.error()

    def _alive(self) -> int:
        if not self._handle:
            raise StateError("the journal is closed")
        return self._handle

    def close(self) -> None:
        handle, self._handle = self._handle, None
        if handle:
            lib.zest_journal_close(handle)

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self, close: Callable[[Any], None] = lib.zest_journal_close) -> None:
        handle, self._handle = getattr(self, "_handle", None), None
        if handle:
            close(handle)

    def __len__(self) -> int:
        return int(lib.zest_journal_steps(self._alive()))

    @property
    def torn(self) -> int:
        """Bytes behind the last whole record: what a kill cut short."""
        return int(lib.zest_journal_torn(self._alive()))

    @property
    def dimension(self) -> int:
        """Number of elements of x."""
        return int(lib.zest_journal_dimension(self._alive()))

    @property
    def dtype(self) -> np.dtype:
        """The type of x."""
        return np.dtype(np.float64 if lib.zest_journal_is_f64(self._alive()) else np.float32)

    def option(self, name: str) -> Optional[str]:
        """An option of the run, as text; None if it is not on record."""
        value = lib.zest_journal_option(self._alive(), option_name(name))
        return None if value is None else value.decode()

    @property
    def options(self) -> dict[str, str]:
        """The options of the run that a tuner knows."""
        values = {option.name: self.option(option.name) for option in options()}
        return {name: value for name, value in values.items() if value is not None}

    def read(self, step: int) -> Record:
        """The record of a step, 1 for the first."""
        row = c.Record_()
        self._ctx.check(lib.zest_journal_read(self._alive(), step, ctypes.byref(row)))
        losses = np.ctypeslib.as_array(row.losses, (row.count,)).copy()
        center = float(losses[-1]) if row.has_center else None
        return Record(row.step, row.lr, losses[:-1] if row.has_center else losses, center)

    def __iter__(self) -> Iterator[Record]:
        return (self.read(step) for step in range(1, len(self) + 1))

    def replay(self, x0: Any, step: Optional[int] = None, overwrite_x0: bool = False) -> np.ndarray:
        """x after `step` steps (default: all), bit for bit, from the run's starting point. Evaluates nothing."""
        x = x0 if overwrite_x0 and isinstance(x0, np.ndarray) else np.array(x0, dtype=self.dtype, order="C")
        if x.dtype != self.dtype:
            raise c.ArgumentError(f"the journal's run worked on {self.dtype.name}, x0 has {x.dtype.name}")
        flat = as_vector(x)
        replay = lib.zest_journal_replay_f64 if self.dtype == np.float64 else lib.zest_journal_replay_f32
        self._ctx.check(replay(self._alive(), len(self) if step is None else step, flat.ctypes.data, flat.size))
        return x
