"""Journals: replay has the run's bits, resume ends where an unbroken run does, the command line reads them, too."""

import struct

import numpy as np
from support import BUILD, Case
from test_tuner import bowl

import zest


class Journals(Case):
    def run_with_journal(self, dtype, **options):
        """x after every step, and the journal."""
        path, x, states = self.folder / "journal", np.full(5, 0.25, dtype), [np.full(5, 0.25, dtype)]
        with zest.Tuner(x, bowl, k=2, lr=0.02, steps=12, **options) as tuner:
            tuner.start_journal(path)
            tuner.run(on_step=lambda report: states.append(x.copy()) and None)
        return path, states

    def test_replay_has_the_same_bits(self):
        for dtype in (np.float32, np.float64):
            path, states = self.run_with_journal(dtype, eval_every=4)
            with zest.Journal(path) as journal:
                self.assertEqual((len(journal), journal.dimension, journal.dtype), (12, 5, dtype))
                for step, state in enumerate(states):
                    self.assertEqual(journal.replay(states[0], step).tobytes(), state.tobytes())
                self.assertEqual(journal.replay(states[0]).tobytes(), states[-1].tobytes())
                self.assertEqual(journal.options["lr"], "0.02")
                self.assertEqual(journal.option("no_such"), None)
                other = states[0].copy()
                other[0] = np.nextafter(other[0], dtype(1))
                with self.assertRaises(zest.FormatError):
                    journal.replay(other)
                self.assertRaises(zest.ArgumentError, journal.read, 13)
            path.unlink()

    def test_records_are_the_losses(self):
        """Each record's losses are those of the lanes around the replayed x, as the file's own bytes say."""
        path, states = self.run_with_journal(np.float64, eval_every=4)
        journal = zest.Journal(path)
        self.assertEqual([record.step for record in journal], list(range(1, 13)))
        for record in journal:
            center = bowl(states[record.step - 1]) if record.step % 4 == 1 else None
            self.assertEqual(record.center, center)
            self.assertEqual((len(record.losses), record.lr), (4, 0.02))
        # the last record: u32 step, u32 flags, f64 lr, 4 losses, u32 checksum (docs/journal.md)
        step, flags, lr, *losses, _ = struct.unpack("<IId4dI", path.read_bytes()[-52:])
        self.assertEqual((step, flags, lr), (12, 0, 0.02))
        self.assertEqual(journal.read(12).losses.tolist(), losses)

    def test_resume(self):
        start = np.full(5, 0.25)
        expected = zest.minimize(bowl, start, k=2, lr=0.02, steps=20).x
        path = self.folder / "journal"
        zest.minimize(bowl, start, k=2, lr=0.02, steps=8, journal=path)
        with path.open("ab") as file:
            file.write(b"cut short")
        with zest.Journal(path) as journal:
            self.assertEqual((len(journal), journal.torn), (8, 9))
        seen = []
        result = zest.minimize(bowl, start, steps=20, journal=path, on_step=lambda r: seen.append(r.step) and None)
        self.assertEqual(seen, list(range(9, 21)))
        np.testing.assert_array_equal(result.x, expected)
        with self.assertRaises(zest.Error):  # a file that exists is not overwritten
            zest.Tuner(start.copy(), bowl).start_journal(path)
        with self.assertRaises(zest.FormatError):
            zest.Tuner(np.zeros(5), bowl).resume_journal(path)

    def test_journal_of_the_command_line(self):
        program = BUILD / "tests" / "programs" / "objective"
        if not program.exists():
            self.skipTest("make check builds the objective")
        run = self.folder / "run"
        told = self.zest(*("minimize", "--exec", f"{program} text 3", "--dim", 3, "--steps", 9, "--out", run, "--json"))
        with zest.Journal(run / "journal") as journal:
            self.assertEqual(journal.replay(np.zeros(3)).tolist(), told["x"])

    def test_bad_files(self):
        path, _ = self.run_with_journal(np.float64)
        data = bytearray(path.read_bytes())
        data[-300] ^= 1
        path.write_bytes(data)
        with self.assertRaisesRegex(zest.FormatError, "byte"):
            zest.Journal(path)
        with self.assertRaises(zest.FileError) as caught:
            zest.Journal(self.folder / "none")
        self.assertIn("No such file", str(caught.exception))
        self.assertIsInstance(caught.exception, OSError)
        with self.assertRaises(zest.ArgumentError):
            zest.Journal("a\0b")
