"""What it takes to turn a training step of a transformer, written in Python, into a schedule, phase by phase.

GPT-2 small unless told otherwise: embeddings, pre-norm blocks, tied output, cross entropy, backward, AdamW. The device
computes nothing. Prints what the C++ benchmarks print.
"""

import argparse
import json
import time

import numpy as np
import tensord
from tensord import Tensor
from tensord.functional import layer_norm, scaled_dot_product_attention


def parameters(blocks, width, words, length):
    def make(*sizes):
        return tensord.zeros(*sizes).realize()

    def norm():
        return make(width), make(width)

    return {
        "embedding": make(words, width), "position": make(length, width), "norm": norm(),
        "blocks": [{"norm1": norm(), "qkv": (make(width, 3 * width), make(3 * width)),
                    "out": (make(width, width), make(width)), "norm2": norm(),
                    "up": (make(width, 4 * width), make(4 * width)), "down": (make(4 * width, width), make(width))}
                   for _ in range(blocks)],
    }  # fmt: skip


def listed(structure):
    if isinstance(structure, Tensor):
        return [structure]
    items = structure.values() if isinstance(structure, dict) else structure
    return [tensor for item in items for tensor in listed(item)]


def linear(x, weight):
    return x @ weight[0] + weight[1]


def normed(x, weight):
    return layer_norm(x, (x.shape[-1],), weight[0], weight[1])


def block(x, p, heads):
    batch, length, width = x.shape
    q, k, v = linear(normed(x, p["norm1"]), p["qkv"]).reshape(batch, length, 3, heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
    attended = scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + linear(attended.transpose(1, 2).reshape(batch, length, width), p["out"])
    return x + linear(linear(normed(x, p["norm2"]), p["up"]).gelu(), p["down"])


def forward(tokens, p, heads, layer):
    x = p["embedding"][tokens] + p["position"]
    for weights in p["blocks"]:
        x = layer(x, weights, heads)
    return normed(x, p["norm"]) @ p["embedding"].transpose(0, 1)


class Step:
    """A training step, which notes when its phases end."""

    def __init__(self, arguments):
        self.heads = arguments.heads
        self.weights = parameters(arguments.blocks, arguments.width, arguments.words, arguments.length)
        self.flat = listed(self.weights)
        self.moments = [(tensord.zeros_like(w).realize(), tensord.zeros_like(w).realize()) for w in self.flat]
        self.count = Tensor([0.0]).realize()
        self.block = tensord.function(block) if arguments.function else block
        self.ends = []

    def __call__(self, tokens, labels):
        self.ends = [time.perf_counter()]
        logits = forward(tokens, self.weights, self.heads, self.block)
        loss = logits.reshape(-1, logits.shape[-1]).cross_entropy(labels.reshape(-1))
        self.ends.append(time.perf_counter())
        gradients = loss.gradient(*self.flat)
        self.ends.append(time.perf_counter())
        self.count.assign(self.count + 1)
        first, second = 1 - 0.9**self.count, 1 - 0.999**self.count
        for weight, gradient, (m, v) in zip(self.flat, gradients, self.moments):
            m.assign(m * 0.9 + gradient * 0.1)
            v.assign(v * 0.999 + gradient * gradient * 0.001)
            weight.assign(weight * (1 - 1e-4) - 1e-3 * (m / first) / ((v / second).sqrt() + 1e-8))
        self.ends.append(time.perf_counter())
        return loss


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--address", required=True)
    for name, value in {"blocks": 12, "width": 768, "heads": 12, "words": 50257, "length": 128}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--function", action="store_true", help="blocks by tensord.function, built once")
    arguments = parser.parse_args()
    client = tensord.connect(arguments.address, device="NULL:0")
    step = Step(arguments)
    tokens = Tensor(np.zeros((1, arguments.length), np.int32)).realize()
    tensord.synchronize()
    phases = {}
    for i in range(-1, arguments.repeat):
        # The daemon knows the program again: only the first is scheduled and compiled, later ones measure the client.
        captured = tensord.jit(step.__call__)
        before = client.counters()
        start = time.perf_counter()
        loss = captured(tokens, tokens)
        end = time.perf_counter()
        tensord.synchronize()
        after = client.counters()
        begun, *ends = step.ends
        times = {"forward": ends[0] - begun, "backward": ends[1] - ends[0], "AdamW": ends[2] - ends[1],
                 "program": end - ends[2], "capture": end - start}
        if i < 0:
            phases["schedule"] = [after["schedule_seconds"] - before["schedule_seconds"]]
            phases["compile"] = [after["compile_seconds"] - before["compile_seconds"]]
            phases["capture and schedule"] = [end - start + phases["schedule"][0]]
        for name, seconds in times.items():
            phases.setdefault(name, []).append(seconds)
    rows = [{"name": f"transformer_step, {name}", "unit": "ms", "median": sorted(v)[len(v) // 2] * 1e3, "min": min(v) * 1e3,
             "max": max(v) * 1e3, "samples": len(v)} for name, v in phases.items()]  # fmt: skip
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
