"""The daemon as a service: docs/operating.md, docs/metrics.md and tools/package/debian say what it does."""

import os
import pathlib
import re
import shlex
import subprocess
import time
import urllib.request

import tensord
from tensord import Tensor
from tensord.connection import _binary
from tensord.testing import Daemon

ROOT = pathlib.Path(__file__).parents[2]
PACKAGE = ROOT / "tools/package/debian"


def scrape(daemon):
    """Families by name: type, help, names of labels, and the samples."""
    url = re.search(r"serving metrics url=(\S+)", daemon.log.read_text())[1]
    families = {}
    for line in urllib.request.urlopen(url, timeout=60).read().decode().splitlines():
        kind, name, rest = line.split(" ", 2) if line[0] == "#" else ("", line, "")
        if kind:
            kind, name, rest = re.fullmatch(r"# (HELP|TYPE) (\S+) (.*)", line).groups()
            families.setdefault(name, {"labels": [], "samples": {}})[kind] = rest
            continue
        name, labels, value = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line).groups()
        family = families.get(name) or families[re.sub("_(count|sum|bucket)$", "", name)]
        family["samples"][line[: -len(value) - 1]] = float(value)
        for label in re.findall(r'(\w+)="', labels or ""):
            if label not in (*family["labels"], "le", "quantile"):
                family["labels"].append(label)
    return families


def check(text, folder, *flags):
    file = folder / "t.toml"
    file.write_text(text)
    return subprocess.run([_binary(), "--check-config", "--config", file, *flags], text=True, capture_output=True)


def values(checked):
    assert checked.returncode == 0, checked.stderr
    return dict(line.split("  # ")[0].split(" = ", 1) for line in checked.stdout.splitlines())


def test_metrics_md_lists_what_a_daemon_says(tmp_path):
    rows = re.findall(r"^\| `(tensord_\w+)` \| (\w+) \| (.*?) ?\| (.*) \|$", (ROOT / "docs/metrics.md").read_text(), re.M)
    documented = {name: (kind, [label for label in labels.split(", ") if label], text) for name, kind, labels, text in rows}
    flags = "--metrics-listen=localhost:0", "--probe-interval=10ms"
    with Daemon(tmp_path, *flags) as daemon, tensord.connect(daemon.address):
        x = tensord.rand(512, 512)
        (x @ x).numpy()
        while "tensord_device_healthy" not in (families := scrape(daemon)):  # there was no probe yet
            time.sleep(0.01)
    told = {
        name: (family["TYPE"], family["labels"], family["HELP"])
        for name, family in families.items()
        if not name.startswith("exposer_")
    }
    assert told == documented
    # The rest of the values is tested beside the server; these need a device that computes.
    samples = {name: value for family in families.values() for name, value in family["samples"].items()}
    assert samples['tensord_device_busy_seconds_total{device="CPU:0"}'] > 0
    assert samples["tensord_schedule_duration_seconds_count"] >= 1
    assert samples["tensord_compile_duration_seconds_sum"] > 0


def test_each_device_has_its_busy_time(tmp_path):
    with Daemon(tmp_path, "--metrics-listen=localhost:0", "--devices=cpu:2") as daemon, tensord.connect(daemon.address):
        x = Tensor([[1.0, 2.0], [3.0, 4.0]]).shard(("CPU:0", "CPU:1"), axis=0)
        assert (x * 2).sum().item() == 20
        busy = scrape(daemon)["tensord_device_busy_seconds_total"]["samples"]
    assert len(busy) == 2 and all(seconds > 0 for seconds in busy.values())


def test_the_example_of_operating_md_is_a_configuration(tmp_path):
    (example,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs/operating.md").read_text(), re.S)
    assert values(check(example, tmp_path))["max-session-bytes"] == '"64GiB"'


def test_the_packaged_configuration_shows_defaults(tmp_path):
    text = (PACKAGE / "tensord.toml").read_text()
    assert values(check(text, tmp_path))["metrics-listen"] == '"localhost:9178"'
    shown = re.sub(r"^# ([a-z-]+ = )", r"\1", text, flags=re.M)
    assert shown.count("\n") == text.count("\n") and shown != text
    ours, defaults = values(check(shown, tmp_path)), values(check("", tmp_path))
    different = {name for name in ours if ours[name] != defaults[name]}
    assert different == {"listen", "metrics-listen"}


def test_the_unit_starts_the_daemon_as_it_may_be_started(tmp_path):
    unit = (PACKAGE / "tensord.service").read_text()
    commands = re.findall(r"^Exec(?:Start|Reload)=/usr/bin/tensord (.*)$", unit, re.M)
    assert len(commands) == 2
    # systemd's words for the folders that it makes, and what they are there.
    (variables,) = re.findall(r"^Environment=(.*)$", unit.replace("%C", "/var/cache").replace("%S", "/var/lib"), re.M)
    environment = {**os.environ, **dict(each.split("=") for each in variables.split())}
    for command in commands:
        flags = [str(PACKAGE / "tensord.toml") if flag.startswith("/etc/") else flag for flag in shlex.split(command)]
        done = subprocess.run(
            [_binary(), *flags, *{"--check-config"} - set(flags)], env=environment, text=True, capture_output=True
        )
        in_force = values(done)
        assert in_force["cache-dir"] == '"/var/cache/tensord/kernels"' and in_force["state-dir"] == '"/var/lib/tensord"'
    assert {"CacheDirectory=tensord", "StateDirectory=tensord"} <= set(unit.splitlines())
    assert re.search(r"^Type=notify$", unit, re.M)


def control(daemon, *arguments, code=0):
    program = ROOT / "bazel-bin/tools/tensorctl/tensorctl"
    done = subprocess.run([program, "--address", daemon.address, *arguments], text=True, capture_output=True, timeout=300)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def test_an_operator_sees_buffers_ends_sessions_and_drains(tmp_path):
    with Daemon(tmp_path) as daemon:
        session = tensord.connect(daemon.address)
        large = tensord.ones(1000, 1000).contiguous().realize()
        session.synchronize()  # till then the daemon may not have begun
        assert re.search(r"^session-1 +tensor \S+ +3\.8 MiB +float32 +\[1000, 1000\] +CPU:0 +value$", control(daemon, "buffers"), re.M)
        assert "session-1" in control(daemon, "top", "--interval=10ms")
        assert "a second, one after another" in control(daemon, "bench", "--count=20")
        assert re.match(r"ended session-1, which held 3\.8 MiB", control(daemon, "sessions", "kill", "session-1", "--reason=lunch"))
        try:
            large.numpy()
            raise AssertionError("the session lives")
        except ConnectionError as error:
            assert re.search("session-1 was ended by '[^']+': lunch", str(error))
        session.close()
        assert "no session 'session-1'" in control(daemon, "sessions", "kill", "session-1", code=1)
        control(daemon, "drain")
        daemon.process.wait(60)
        assert daemon.process.returncode == 0


def test_bench_gives_up_on_a_device_that_hangs(tmp_path):
    with Daemon(tmp_path, "--devices=paced:1(hang_launch=1)") as daemon:
        assert "did not finish the run in time" in control(daemon, "bench", "--count=1", "--timeout=1s", code=1)
