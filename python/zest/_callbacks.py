"""Python code that C calls: an exception ends the run, and the call that started the run raises it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable, Optional

from ._library import Progress, StateError


class Callbacks:
    """The callbacks of one object of the library.

    ctypes prints an exception of a callback and goes on. So wrapped callbacks catch everything, keep the exception and
    tell C to stop. A signal handler of Python may raise as soon as Python code runs, even before a `try` is entered:
    during a run SIGINT is therefore kept until a callback is inside its `try`.
    """

    def __init__(self, on_failure: Optional[Callable[[], None]] = None) -> None:
        """on_failure is called after an exception, for callbacks whose result C does not look at."""
        self._on_failure = on_failure
        self._exception: Optional[BaseException] = None
        self._inside = False
        self._pending = False
        self._running = False
        self._handler: Optional[Callable[..., Any]] = None

    def wrap(self, function: Callable[..., int], failed: int) -> Callable[..., int]:
        """The function as C may call it. After an exception it returns `failed`."""

        def guarded(*arguments: Any) -> int:
            try:
                if self._exception is not None:  # C has not stopped yet
                    return failed
                self._inside = True
                if self._pending:
                    self._pending = False
                    self._handler(signal.SIGINT, None)  # type: ignore[misc]
                value = function(*arguments)
                self._inside = False
                return value
            except BaseException as exception:
                self._inside = False
                self._exception = exception
                if self._on_failure:
                    self._on_failure()
                return failed

        return guarded

    def progress(self, function: Optional[Callable[[int, int], Any]]) -> Any:
        """A zest_lm_progress that tells function(done, total)."""

        def told(done: int, total: int, _: Any) -> int:
            if function:
                function(done, total)
            return 0

        return Progress(self.wrap(told, 0) if function else 0)

    def _on_signal(self, number: int, frame: Any) -> None:
        if self._inside:
            self._handler(number, frame)  # type: ignore[misc]
        else:
            self._pending = True

    @property
    def running(self) -> bool:
        return self._running

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Around a call into C that may call back."""
        if self._running:
            raise StateError("the object is in use: its own callback, or another thread, cannot call it")
        self._running, self._exception, self._pending = True, None, False
        handler = signal.getsignal(signal.SIGINT)
        ours = threading.current_thread() is threading.main_thread() and callable(handler)
        if ours:
            self._handler = handler  # type: ignore[assignment]
            signal.signal(signal.SIGINT, self._on_signal)
        try:
            yield
        finally:
            if ours:
                signal.signal(signal.SIGINT, handler)
            self._running = False
            exception, self._exception = self._exception, None
            if exception is not None:
                raise exception
            if self._pending:
                self._pending = False
                handler(signal.SIGINT, None)  # type: ignore[operator, misc]
