"""Reads the event files of a run with TensorBoard's own reader and prints what is in them.

    pip install tensorboard
    python tools/read_events.py RUN

Every record's checks are verified; a file that TensorBoard cannot read is an error here, too.
"""
import glob
import os
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader


def main(folder):
    paths = sorted(glob.glob(os.path.join(folder, "events.out.tfevents.*")))
    if not paths:
        sys.exit(f"{folder}: no event files")
    for path in paths:
        count = sum(1 for _ in EventFileLoader(path).Load())
        print(f"{os.path.basename(path)}: {count} events")
    accumulator = EventAccumulator(folder, size_guidance={"scalars": 0})
    accumulator.Reload()
    tags = accumulator.Tags()["scalars"]
    # since TensorBoard 2 the loader turns plain values into tensors of one number
    series = {tag: [(e.step, e.value) for e in accumulator.Scalars(tag)] for tag in tags}
    for tag in accumulator.Tags().get("tensors", []):
        series[tag] = [(e.step, e.tensor_proto.float_val[0]) for e in accumulator.Tensors(tag)]
    for tag, points in sorted(series.items()):
        print(f"{tag}: {len(points)} points, first {points[0]}, last {points[-1]}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
