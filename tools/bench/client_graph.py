"""What building a graph from Python costs: operations that nobody computes, each over the one before.

Prints what the C++ benchmarks print. Its peer is PyTorch on tensors without data (--torch).
"""

import argparse
import json
import time

SIZES = ((64, 64), (64, 64), (64,))


def seconds(x, weight, bias, turns):
    start = time.perf_counter()
    for _ in range(turns):
        x = (x @ weight + bias).tanh().transpose(0, 1) * 0.5  # five operations
    return time.perf_counter() - start


def ours(address):
    """Makes inputs, other ones each time: equal expressions over the same ones would be found, not built."""
    import tensord
    client = tensord.connect(address)
    return lambda: [tensord.zeros(*sizes).realize() for sizes in SIZES], lambda: client.graph_nodes


def torchs():
    import torch
    return lambda: [torch.zeros(*sizes, device="meta") for sizes in SIZES], lambda: 0


def row(name, values):
    values = sorted(values)
    return {"name": f"graph_build, {name}", "unit": "us", "median": values[len(values) // 2], "min": values[0],
            "max": values[-1], "samples": len(values)}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--address")
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--turns", type=int, default=500)
    parser.add_argument("--repeat", type=int, default=10)
    arguments = parser.parse_args()
    make, count = torchs() if arguments.torch else ours(arguments.address)
    operations, nodes = [], []
    for i in range(-1, arguments.repeat):
        x, weight, bias = make()
        before = count()
        taken = seconds(x, weight, bias, arguments.turns) * 1e6
        if i >= 0:
            operations.append(taken / (5 * arguments.turns))
            # The graph is compacted now and then, which leaves less than there was.
            if count() > before:
                nodes.append(taken / (count() - before))
    rows = [row("an operation", operations)]
    if nodes:
        rows.append(row("a node", nodes))
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
