#!/usr/bin/env python3
"""Time of a step on many ranks, by the cost model of docs/scaling.md.

    tools/scaling_model.py --step 12 --update 0.4 --k 5 --batch 128 --latency 0.0001 --bandwidth 1e9
    tools/scaling_model.py --selftest

--step is the time of a step on one rank, --update the part that every rank repeats (the update, and what is not
divided), --overhead the time that a piece of a pair costs beyond its tokens (the noise of the pair, the weights that
are read). The division is that of src/train/trainer_ranks.c, example by example. The gathering is one in which each rank
sends to all others at once, as Open MPI does it (measured by bench/latency.py): one latency, --message seconds of the
processor for each of the R - 1 messages, and the losses of all in the bandwidth. --tree: log2(R) rounds of messages
instead. --late: an update from losses that are one step old, so that gathering and computing overlap. --jitter: standard
deviation of the ranks' times in a step, relative; the slowest decides, and --draws steps are simulated."""
import argparse
import math
import random
import sys


def nearest(at, costs, before):
    """The boundary between examples nearest to a point of the line: (pair, example)."""
    total = before[-1]
    pair, rest = divmod(at, total)
    low, high = 0, len(costs)
    while high - low > 1:
        middle = (low + high) // 2
        if before[middle] <= rest:
            low = middle
        else:
            high = middle
    example = high if rest - before[low] > before[high] - rest else low
    return (pair + 1, 0) if example == len(costs) else (pair, example)


def shares(costs, pairs, ranks):
    """(tokens, pieces of pairs) of each rank."""
    before = [0]
    for c in costs:
        before.append(before[-1] + c)
    cuts = [nearest(before[-1] * pairs * r // ranks, costs, before) for r in range(ranks + 1)]
    for (p, e), (q, f) in zip(cuts, cuts[1:]):
        tokens = (q - p) * before[-1] + before[f] - before[e]
        touched = 0 if tokens == 0 else q - p + (1 if f else 0)
        yield tokens, touched


def gather_time(o, examples, ranks):
    if ranks == 1:
        return 0.0
    sent = (16 * o.k * examples + 24 * ranks) / o.bandwidth  # 8 bytes an example and lane, and a head of each rank
    rounds = math.ceil(math.log2(ranks))
    return sent + (rounds * (o.latency + o.message) if o.tree else o.latency + (ranks - 1) * o.message)


def step_time(o, costs, ranks, draw):
    """Seconds: the slowest share, the gathering, the step."""
    total = sum(costs) * o.k
    per_token = (o.step - o.update - o.k * o.overhead) / total
    times = [t * per_token + n * o.overhead for t, n in shares(costs, o.k, ranks)]
    compute = max(times)
    if o.jitter:
        compute = sum(max(t * max(0.0, 1 + draw.gauss(0, o.jitter)) for t in times) for _ in range(o.draws)) / o.draws
    gather = gather_time(o, len(costs), ranks)
    return compute, gather, (max(compute + o.update, gather) if o.late else compute + gather + o.update)


def selftest():
    draw = random.Random(1)
    for _ in range(200):
        costs = [draw.randint(1, 90) for _ in range(draw.randint(1, 40))]
        pairs, ranks = draw.randint(1, 9), draw.randint(1, 500)
        parts = list(shares(costs, pairs, ranks))
        assert len(parts) == ranks and sum(t for t, _ in parts) == pairs * sum(costs)
        ideal = pairs * sum(costs) / ranks
        assert max(t for t, _ in parts) <= ideal + max(costs), (costs, pairs, ranks)
        if ranks == 1:
            assert parts[0][1] == pairs
    o = argparse.Namespace(step=10.0, update=1.0, overhead=0.0, k=5, latency=0.0, bandwidth=math.inf, jitter=0,
                           message=0.0, tree=False, late=False, draws=1)
    assert abs(step_time(o, [10] * 20, 1, draw)[2] - 10) < 1e-9
    assert abs(step_time(o, [10] * 20, 100, draw)[2] - 1.09) < 1e-9  # one example of one pair each
    assert abs(step_time(o, [10] * 20, 10000, draw)[2] - 1.09) < 1e-9  # no more can be divided
    o.latency, o.message = 0.5, 0.01
    assert abs(step_time(o, [10] * 20, 100, draw)[2] - (1.09 + 0.5 + 0.99)) < 1e-9
    o.tree = True
    assert abs(step_time(o, [10] * 20, 100, draw)[2] - (1.09 + 7 * 0.51)) < 1e-9
    o.late = True
    assert abs(step_time(o, [10] * 20, 100, draw)[2] - 7 * 0.51) < 1e-9
    o.jitter, o.draws, o.late, o.latency, o.message = 0.1, 50, False, 0.0, 0.0
    slowest = step_time(o, [10] * 20, 100, draw)[0] / 0.09  # of 100 normal times: 1 + 2.5 deviations
    assert 1.2 < slowest < 1.3, slowest
    print("ok")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("step", 12.0), ("update", 0.4), ("overhead", 0.0), ("latency", 1e-4), ("bandwidth", 1e9), ("jitter", 0.0), ("message", 5e-6)):
        p.add_argument("--" + name, type=float, default=default)
    p.add_argument("--k", type=int, default=5)
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--tokens", type=int, default=30, help="of an example, on the average")
    p.add_argument("--ranks", default="1,2,4,8,10,16,32,64,100,320,640,1000,10000")
    p.add_argument("--draws", type=int, default=20)
    p.add_argument("--tree", action="store_true")
    p.add_argument("--late", action="store_true")
    p.add_argument("--selftest", action="store_true")
    o = p.parse_args()
    if o.selftest:
        selftest()
        return
    draw = random.Random(1)
    costs = [max(4, round(draw.gauss(o.tokens, o.tokens / 3))) for _ in range(o.batch)]
    print(f"{'ranks':>6} {'losses s':>10} {'gather s':>10} {'step s':>10} {'speed-up':>9} {'efficiency':>10}")
    one = step_time(o, costs, 1, draw)[2]
    for ranks in map(int, o.ranks.split(",")):
        compute, gather, whole = step_time(o, costs, ranks, draw)
        print(f"{ranks:6} {compute:10.4f} {gather:10.5f} {whole:10.4f} {one / whole:9.1f} {one / whole / ranks:9.0%}")


if __name__ == "__main__":
    sys.exit(main())
