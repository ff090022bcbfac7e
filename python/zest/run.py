"""Read the folder of a run: its options, log, result, journal, and the model or x after any step."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Optional, Union

import numpy as np

from ._library import FileError, FormatError, StateError
from .journal import Journal
from .lm import LM
from .tuner import StrPath


class Run:
    """The folder of a run of `zest train`, train() or `zest minimize`. Files are read when they are asked for."""

    def __init__(self, folder: StrPath) -> None:
        self.folder = Path(os.fspath(folder))
        if not (self.folder / "options").is_file():
            raise FileError(f"{self.folder}: is no folder of a run: it has no file 'options'")

    def __repr__(self) -> str:
        return f"<zest.Run {str(self.folder)!r}>"

    def _read(self, name: str) -> str:
        try:
            return (self.folder / name).read_text("utf-8", "replace")
        except OSError as error:
            raise FileError(f"{self.folder / name}: {error.strerror}") from error

    @property
    def options(self) -> dict[str, str]:
        """The options that the run was started with, as text."""
        pairs = (line.split("=", 1) for line in self._read("options").splitlines() if "=" in line)
        return {name.strip().replace("-", "_"): value.strip() for name, value in pairs}

    @property
    def log(self) -> list[dict[str, Any]]:
        """All entries of log.jsonl: dicts whose "kind" is start, step, eval, ... or end. A torn last line is left out."""
        entries, lines = [], self._read("log.jsonl").split("\n")
        for number, line in enumerate(lines, 1):
            try:
                if line.strip():
                    entries.append(json.loads(line))
            except ValueError as error:
                if number < len(lines):
                    raise FormatError(f"{self.folder / 'log.jsonl'}, line {number}: {error}") from None
        return entries

    def table(self, kind: str = "step") -> np.ndarray:
        """The numbers of all entries of a kind, step or eval, as a structured array: run.table()["loss"].

        A number that an entry lacks is NaN. Texts are columns, too.
        """
        entries = [entry for entry in self.log if entry.get("kind") == kind]
        columns: dict[str, Any] = {}
        for entry in entries:
            for name, value in entry.items():
                if name == "kind" or isinstance(value, (dict, list)):
                    continue
                if isinstance(value, str):
                    columns[name] = "U%d" % max(len(value), int(str(columns.get(name, "U1"))[1:]), 1)
                elif isinstance(value, bool):
                    columns.setdefault(name, "?")
                elif name in ("step", "n"):
                    columns.setdefault(name, "i8")
                else:
                    columns.setdefault(name, "f8")
        rows = np.zeros(len(entries), list(columns.items()) or [("step", "i8")])
        for name, code in columns.items():
            missing = {"f": np.nan, "U": ""}.get(code[0], 0)
            values = [entry.get(name) for entry in entries]
            rows[name] = [missing if value is None else value for value in values]
        return rows

    @property
    def result(self) -> Optional[dict[str, Any]]:
        """result.json, the end of the run; None while it is not there."""
        if not (self.folder / "result.json").exists():
            return None
        return dict(json.loads(self._read("result.json")))

    def journal(self) -> Journal:
        """The journal, open for reading."""
        return Journal(self.folder / "journal")

    def model(self, step: Union[int, str] = "best", **options: Any) -> LM:
        """The model after a step: a number, "last" or "best". See LM.from_run."""
        return LM.from_run(self.folder, step, **options)

    def x(self, step: Optional[int] = None) -> np.ndarray:
        """x of a run of `zest minimize` after a step (default: all), rebuilt from its journal."""
        if not (self.folder / "start").is_file():
            raise StateError(f"{self.folder}: a run of zest train has a model, not x: call model()")
        with self.journal() as journal:
            numbers = np.array(self._read("start").split(), float)
            if numbers.size == 1:
                numbers = np.repeat(numbers, journal.dimension)
            return journal.replay(numbers, step)
