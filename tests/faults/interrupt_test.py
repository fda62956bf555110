"""Ctrl-C while a client waits for the daemon: KeyboardInterrupt at once, and the session goes on."""

import signal
import time

import pytest

# The device has work for hours, so each waits as long if nobody interrupts it. Commands are executed in order, so that
# an upload waits behind more runs than a device takes ahead.
WAITS = {
    "numpy": "y.numpy()",
    "item": "y.sum().item()",
    "synchronize": "client.synchronize()",
    "a run's end": "(y * 2).numpy()",
    "counters": "tensord.counters()",
    "publish": "tensord.publish('y', y)",
    "upload": "[(x * i).realize() for i in range(6)]; Tensor(np.ones(1 << 20, np.float32))",
}

SCRIPT = """
client = tensord.connect()
x = Tensor(np.ones(8, np.float32)).realize()
y = (x + 1).realize()
try:
    print("waits", flush=True)
    {wait}
    print("it ended", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    if {goes_on}:
        print(x.tolist(), Tensor([1, 2, 3]).realize().shape, flush=True)
    print(client.closed, flush=True)
    client.close()
"""


@pytest.mark.parametrize("name", WAITS)
def test_ctrl_c_ends_a_wait_and_not_the_session(start, child, until, name):
    daemon = start("--devices=paced(launch_us=3600000000)", "--launch-timeout=0")
    goes_on = name != "upload"
    client = child(SCRIPT.format(wait=WAITS[name], goes_on=goes_on), daemon)
    assert client.line() == "waits"
    time.sleep(0.3)  # until it does; earlier would be as good, but is what Python does by itself
    client.send(signal.SIGINT)
    assert client.line() == "interrupted"
    if goes_on:
        assert client.line() == "[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0] (3,)"
    assert client.end() == ("False\n", "")
    assert client.process.returncode == 0
    until(lambda: "ended id=session-1" in daemon.log.read_text())


def test_an_interrupted_upload_holds_up_nothing(start, child, until):
    """Neither while its command waits, nor when it is executed."""
    daemon = start("--devices=paced(launch_us=300000)")
    script = """
client = tensord.connect()
x = Tensor(np.ones(8, np.float32)).realize()
try:
    [(x * i).realize() for i in range(6)]
    print("waits", flush=True)
    Tensor(np.ones(1 << 20, np.float32))
except KeyboardInterrupt:
    print(Tensor(np.ones(1 << 20, np.float32)).numpy().sum(), tensord.counters()["live_bytes"] < 1 << 20, flush=True)
"""
    client = child(script, daemon)
    assert client.line() == "waits"
    time.sleep(0.2)
    client.send(signal.SIGINT)
    assert client.end() == ("1048576.0 True\n", "")


def test_a_handler_that_raises_nothing_ends_no_wait(start, child):
    daemon = start("--devices=paced(launch_us=500000)")
    script = """
import signal
heard = []
signal.signal(signal.SIGUSR1, lambda *_: (heard.append(1), print("heard", flush=True)))
y = Tensor(np.ones(8, np.float32)) + 1
print("waits", flush=True)
y.realize().numpy()
print(len(heard), flush=True)
"""
    client = child(script, daemon)
    assert client.line() == "waits"
    client.send(signal.SIGUSR1)
    assert client.line() == "heard"
    assert client.end() == ("1\n", "")
