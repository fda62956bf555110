"""A process that is forked: what it may not do is an error at once, and its end leaves the parent alone."""

import subprocess
import sys
import textwrap

import pytest

#: Of the parent. A child says what became of it by its exit code, which is 0 if `child` raised nothing.
START = """
import os, signal, sys, traceback
import numpy as np
import tensord
from tensord import Tensor

def fork(child, end=os._exit):
    number = os.fork()
    if number == 0:
        signal.alarm(20)  # which ends it
        code = 1
        try:
            child()
            code = 0
        except BaseException:
            traceback.print_exc()
        end(code)
    assert os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]) == 0

def refused(use):
    try:
        use()
    except ConnectionError as error:
        assert "fork" in str(error) and "spawn" in str(error), error
    else:
        raise AssertionError("it should have been refused")
"""

PROGRAMS = {
    "what is refused": """
        client = tensord.connect(sys.argv[1])
        x = Tensor([1.0, 2.0]).realize()
        lazy = x * 3

        @tensord.jit
        def step(x):
            return x + 1

        step(x).numpy()

        def child():
            for use in (x.numpy, lazy.numpy, lazy.realize, x.wait, lambda: x + 1, lambda: x[0], lambda: x.assign(1.0),
                        lambda: Tensor([1.0]), lambda: tensord.zeros(2), lambda: tensord.rand(2), lambda: step(x),
                        client.synchronize, client.counters, tensord.connect, lambda: tensord.connect(sys.argv[1]),
                        tensord.synchronize):
                refused(use)
            assert client.closed
            client.close()  # it is not this process's, so nothing happens

        fork(child)
        assert not client.closed and x.tolist() == [1, 2] and lazy.tolist() == [3, 6] and step(x).tolist() == [2, 3]
    """,
    "destructors": """
        tensord.connect(sys.argv[1])
        kept = [Tensor(np.full(1000, i, np.float32)) for i in range(200)]
        used = [x + 1 for x in kept]
        tensord.realize(*used)

        def child():
            kept.clear()
            used.clear()
            import gc
            gc.collect()

        for end in (os._exit, sys.exit):  # sys.exit runs what is to be done at the end of an interpreter
            fork(child, end)
        assert [float(x[0].item()) for x in used] == [i + 1.0 for i in range(200)]
        assert [float(x[999].item()) for x in kept] == [float(i) for i in range(200)]
    """,
    "a private daemon": """
        from tensord import connection
        os.environ.pop("TENSORD_ADDRESS", None)
        client = tensord.connect(connection._private_daemon())
        x = Tensor([1.0])

        def child():
            refused(x.numpy)

        fork(child, sys.exit)
        assert x.item() == 1 and client.counters() and os.path.exists(client.address.removeprefix("unix:"))
    """,
    "before the first connection": """
        def child():
            tensord.connect(sys.argv[1])
            assert (Tensor([1.0]) + 1).item() == 2

        fork(child)
        tensord.connect(sys.argv[1])
        assert Tensor([1.0]).item() == 1
    """,
    "multiprocessing": """
        import multiprocessing

        def child(address):
            tensord.connect(address)

        tensord.connect(sys.argv[1])
        forked = multiprocessing.get_context("fork").Process(target=refused, args=(lambda: child(sys.argv[1]),))
        forked.start()
        forked.join(30)
        assert forked.exitcode == 0
        spawned = multiprocessing.get_context("spawn").Process(target=tensord.connect, args=(sys.argv[1],))
        spawned.start()
        spawned.join(30)
        assert spawned.exitcode == 0
    """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_forked(name, daemon, tmp_path):
    path = tmp_path / "program.py"
    program = textwrap.indent(textwrap.dedent(PROGRAMS[name]), "    ")
    # A spawned process imports the file.
    path.write_text(f"{START}\nif __name__ == '__main__':\n{program}")
    run = subprocess.run([sys.executable, path, daemon.address], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
