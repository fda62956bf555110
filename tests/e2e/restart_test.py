"""What a client meets when the service is restarted under it, at a socket that stays, as a service manager keeps it."""

import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import tensord
from tensord import Tensor, nn
from tensord.connection import _binary
from tensord.nn import optim
from tensord.testing import Daemon

# Becomes the daemon that finds the socket where systemd puts it.
ACTIVATE = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
os.execv(sys.argv[2], sys.argv[2:])
"""


class Service(Daemon):
    """A daemon at a socket that is open whether the daemon runs or not."""

    def __init__(self, folder, *flags):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(str(folder / "tensord.sock"))
        self.socket.listen()
        super().__init__(folder, *flags)

    def start(self):
        """Does not wait: clients do."""
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", ACTIVATE, str(self.socket.fileno()), _binary(), "--config", "none",
                 "--cache-dir", str(self.cache), "--exit-with-parent", *self._flags],
                stdin=subprocess.PIPE, stdout=log, stderr=log, pass_fds=[self.socket.fileno()])  # fmt: skip

    def __exit__(self, *exception):
        super().__exit__(*exception)
        self.socket.close()


STEPS, KEPT_EVERY = 12, 3


class Training:
    """A model, its optimiser, and the loop that people write: it keeps files, and goes on from the last when it must."""

    def __init__(self, folder):
        self.file = folder / "checkpoint.pt"
        tensord.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
        self.optimizer = optim.AdamW(self.model.parameters(), lr=0.01)
        self.step_once = tensord.jit(self.step)
        self.begun = 0  # steps, those that are done again as well
        self.losses = {}

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = ((self.model(x) - y) ** 2).mean()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def keep(self, step):
        tensord.save({"step": step, "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, self.file)

    def recall(self):
        kept = tensord.load(self.file)
        self.model.load_state_dict(kept["model"])
        self.optimizer.load_state_dict(kept["optimizer"])
        return kept["step"]

    def run(self, before_step=lambda step: None):
        """Returns the errors that it went on after."""
        self.keep(0)
        errors, step = [], 0
        while step is None or step < STEPS:
            try:
                if step is None:
                    step = self.recall()
                before_step(step)
                numbers = np.random.default_rng(step)
                x = Tensor(numbers.standard_normal((4, 8), dtype=np.float32))
                self.losses[step] = self.step_once(x, x.sum(1, keepdim=True)).item()
                step += 1
                if step % KEPT_EVERY == 0:
                    self.keep(step)
                if step == STEPS:
                    self.result = {name: value.tolist() for name, value in self.model.state_dict().items()}
            except tensord.errors.UnavailableError as error:
                errors.append(error)
                step = None
        return errors


def killed(service):
    service.kill()
    service.start()


def drained(service):
    assert service.terminate() == 0
    service.start()


def drained_under_way(service):
    """The client goes on meanwhile."""
    service.process.send_signal(signal.SIGTERM)

    def start_again():
        service.process.wait()
        service.start()

    threading.Thread(target=start_again).start()


@pytest.mark.parametrize("restart", [killed, drained, drained_under_way])
def test_training_goes_on_from_its_last_file(tmp_path, restart):
    with Service(tmp_path) as service:
        with tensord.connect(service.address):
            undisturbed = Training(tmp_path)
            assert undisturbed.run() == []
            expected = undisturbed.result
        with tensord.connect(service.address):
            training, restarts = Training(tmp_path), iter([restart])

            def before_step(step):
                if step == 7:
                    for each in restarts:
                        each(service)

            errors = training.run(before_step)
        # While the daemon drains a new command is refused, and then the session is lost.
        assert errors and all(re.search("session-. with .* is lost|the daemon is shutting down", str(e)) for e in errors)
        assert training.losses == undisturbed.losses and training.result == expected


@pytest.mark.parametrize("restart", [killed, drained])
def test_what_a_restart_keeps(tmp_path, restart):
    with Service(tmp_path, f"--state-dir={tmp_path}/state") as service, tensord.connect(service.address) as client:
        weights = tensord.arange(12).reshape(3, 4).float()
        tensord.publish("weights", {"w": weights})
        assert (weights @ weights.T).sum().item() == 1134
        assert client.counters()["kernels_compiled"] > 0
        restart(service)
        with pytest.raises(tensord.errors.UnavailableError, match="session-1 with .* is lost"):
            weights.numpy()
        (kept,) = tensord.attach("weights").values()
        assert (kept @ kept.T).sum().item() == 1134
        counters = tensord.counters()
        assert counters["kernels_compiled"] == 0 and counters["kernel_disk_hits"] > 0


def test_a_client_that_comes_while_nobody_serves_waits(tmp_path):
    with Service(tmp_path) as service:
        service.kill()
        answers = []

        def compute():
            with tensord.connect(service.address, connect_timeout=300):
                answers.append((Tensor([1.0, 2.0]) + 1).tolist())

        client = threading.Thread(target=compute)
        client.start()
        # Whoever has connected is in the kernel's queue.
        select.select([service.socket], [], [])
        service.start()
        client.join(300)
        assert answers == [[2.0, 3.0]]


HOLDS = """
import tensord
kept = tensord.ones(1 << 20).realize()
kept.sum().item()
print("holds", flush=True)
input()
"""


def test_a_drain_does_not_wait_for_sessions_whose_clients_are_gone(tmp_path):
    with Service(tmp_path, "--session-lease=1h", "--drain-timeout=1h") as service:
        child = subprocess.Popen([sys.executable, "-c", HOLDS], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 env={**os.environ, "TENSORD_ADDRESS": service.address})  # fmt: skip
        assert child.stdout.readline() == "holds\n"
        child.kill()
        child.communicate(timeout=60)
        while "parked id=session-1" not in service.log.read_text():
            time.sleep(0.01)
        assert service.terminate() == 0
        assert "all_work_finished=true" in service.log.read_text()
