"""The peer of our matmul: NumPy's, by OpenBLAS. Prints what the C++ benchmarks print, and what did the work."""

import argparse
import json
import time

import numpy as np


def kernel() -> str:
    """Which of its kernels OpenBLAS chose for this processor."""
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return "kernel unknown without threadpoolctl"
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    return ", ".join(
        f"{pool['internal_api']} {pool['version']} {pool.get('architecture')}, {pool['num_threads']} threads"
        for pool in pools
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[512, 1024, 2048])
    parser.add_argument("--repeat", type=int, default=10)
    arguments = parser.parse_args()
    rows = []
    for size in arguments.sizes:
        random = np.random.default_rng(1)
        a, b = (random.random((size, size), dtype=np.float32) for _ in range(2))
        out = np.empty_like(a)
        times = []
        for i in range(-3, arguments.repeat):
            start = time.perf_counter()
            np.matmul(a, b, out=out)
            if i >= 0:
                times.append((time.perf_counter() - start) * 1e3)
        times.sort()
        rows.append({"name": f"matmul{size}", "unit": "ms", "median": times[len(times) // 2], "min": times[0],
                     "max": times[-1], "samples": len(times)})
    print(json.dumps({"rows": rows, "about": f"NumPy {np.__version__}, {kernel()}"}))


if __name__ == "__main__":
    main()
