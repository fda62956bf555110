"""The console's page in a headless Chromium, where there is one: how it is used, and that names are only text."""

import contextlib
import re
import subprocess
import sys

import pytest
import tensord
from browser import Browser, find
from console_test import control, serving
from tensord.testing import Daemon

pytestmark = pytest.mark.skipif(find() is None, reason="no Chromium is installed")

VIEWS = "overview", "memory", "kernels", "cache", "log"
HOSTILE = "</script><img src=x onerror=alert(1)>"
# A client of its own, because its script gives it its name.
WORK = """
import sys, tensord
with tensord.connect(sys.argv[1]):
    x = tensord.rand(200, 200).realize()
    (x @ x).numpy()
    print("ready", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(find(), tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@contextlib.contextmanager
def working(daemon, folder):
    """A session that has run a program, of a client with a name that is no good."""
    script = folder / HOSTILE.replace("/", "\u2044")
    script.write_text(WORK)
    process = subprocess.Popen([sys.executable, script, daemon.address], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"ready\n"
        yield
    finally:
        process.stdin.close()
        process.stdout.close()
        assert process.wait(60) == 0


def log_in(browser, daemon, **how):
    page = browser.open(control(daemon.address, "console").stdout.strip(), **how)
    page.wait("!document.getElementById('overview').hidden && document.querySelector('.card')")
    return page


def open_view(page, name):
    page.run(f"location.hash = '#/{name}'")
    page.wait(f"!document.getElementById('{name}').hidden")


def test_each_view_shows_what_there_is(browser, tmp_path):
    with serving(tmp_path) as (daemon, port), working(daemon, tmp_path):
        page = log_in(browser, daemon)
        # The code is gone from the address, and the login outlives a reload.
        assert page.run("location.href") == f"http://localhost:{port}/"
        assert re.fullmatch("[0-9a-f]{32}", page.run("sessionStorage.getItem('tensord-token')"))
        page.run("location.reload()")
        page.wait("document.querySelectorAll('#devices .card').length === 2")
        page.wait("document.querySelectorAll('#sessions tbody tr').length === 1")
        row = page.run("document.querySelector('#sessions tbody tr').innerText")
        assert "session-1" in row and "onerror=alert(1)" in row
        page.wait("document.querySelector('.chart .edge').getAttribute('d').includes('L')")
        open_view(page, "memory")
        page.wait("document.querySelector('#maps .legend')?.innerText.includes('session-1')")
        page.wait("document.querySelector('#tensors tbody')?.innerText.includes('[200, 200]')")
        open_view(page, "kernels")
        page.wait("document.querySelector('#kernel-table tbody')?.innerText.includes('fold_200_200')")
        page.run("[...document.querySelectorAll('#kernel-table button.link')].find((each) => each.textContent.startsWith('fold_200_200')).click()")
        page.wait("document.getElementById('source').open && document.getElementById('source-text').textContent.startsWith('# linear fold_200_200')")
        page.press("Escape")
        page.wait("!document.getElementById('source').open")
        open_view(page, "cache")
        page.wait("document.querySelector('#cache-table tbody')?.innerText.includes('fold_200_200')")
        open_view(page, "log")
        page.wait("document.getElementById('log-lines').innerText.includes('opened id=session-1')")
        page.run("document.getElementById('log-text').value = 'logged in'; document.getElementById('log-text').dispatchEvent(new Event('input'))")
        assert "opened id=session-1" not in page.run("document.getElementById('log-lines').innerText")
        # What the client is called is a text like others, and nobody else was asked for anything.
        assert page.run("document.querySelectorAll('main img, main script').length") == 0
        assert all(url.startswith(f"http://localhost:{port}/") for url in page.requests())
        assert page.faults() == []


def test_it_is_there_without_a_session(browser, tmp_path):
    with serving(tmp_path) as (daemon, _):
        page = log_in(browser, daemon)
        for view, text in (("overview", "No sessions"), ("memory", "No tensors"), ("kernels", "No kernel has run")):
            open_view(page, view)
            page.wait(f"[...document.querySelectorAll('.empty')].some((each) => each.checkVisibility() && each.textContent.includes('{text}'))")
        assert page.faults() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_each_width(browser, tmp_path, scheme):
    with serving(tmp_path) as (daemon, _), working(daemon, tmp_path):
        page = log_in(browser, daemon, scheme=scheme)
        for width in (320, 760, 1440):
            page.show(width, 800, scheme)
            for view in VIEWS:
                open_view(page, view)
                assert page.run("document.documentElement.scrollWidth") <= width, (width, view)
        # Texts stand out from what they stand on: 4.5 to 1, as WCAG has it.
        for text, paper in (("ink", "paper"), ("soft", "card"), ("soft", "paper"), ("accent", "card"), ("bad", "card"), ("warn", "card")):
            colours = [page.run(f"getComputedStyle(document.documentElement).getPropertyValue('--{name}').trim()") for name in (text, paper)]
            assert contrast(*colours) >= 4.5, (text, paper, colours)


def contrast(*colours):
    def luminance(colour):
        digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
        parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted(luminance(colour) for colour in colours)
    return (high + 0.05) / (low + 0.05)


def test_keys_and_names_for_who_does_not_see(browser, tmp_path):
    with serving(tmp_path) as (daemon, _), working(daemon, tmp_path):
        page = log_in(browser, daemon)
        reached = []
        for _ in range(12):
            page.press("Tab")
            reached.append(page.run("document.activeElement.innerText || document.activeElement.getAttribute('aria-label')"))
        assert reached[:7] == ["Skip to content", "Overview", "Memory", "Kernels", "Cache", "Log", "Log out"]
        assert any("busy over time" in name for name in reached if name)
        open_view(page, "kernels")
        page.wait("document.querySelector('#kernel-table th button')")
        page.run("document.querySelector('#kernel-table th button').focus()")
        for direction in ("ascending", "descending"):
            page.press("Enter", text="\r")
            page.wait(f"document.querySelector('#kernel-table th').getAttribute('aria-sort') === '{direction}'")
        # Rows are told anew every second or two; what has the focus keeps it.
        page.run("document.querySelector('#kernel-table tbody button').focus(); window.focused = document.activeElement")
        page.wait("beat % 2 === 0")
        page.wait("beat % 2 === 1")
        assert page.run("document.activeElement === window.focused && focused.isConnected")
        for view in VIEWS:
            open_view(page, view)
            for node in page.call("Accessibility.getFullAXTree")["nodes"]:
                role = node.get("role", {}).get("value")
                if role in ("button", "link", "textbox", "searchbox", "combobox", "checkbox", "image", "region", "columnheader"):
                    assert node.get("ignored") or node["name"]["value"].strip(), (view, node)


def test_a_session_is_ended_after_a_question(browser, tmp_path):
    with serving(tmp_path) as (daemon, _):
        session = tensord.connect(daemon.address)
        tensord.ones(3).realize()
        page = log_in(browser, daemon)
        page.wait("document.querySelector('#sessions td.act button')")
        page.run("document.querySelector('#sessions td.act button').click()")
        assert page.run("document.getElementById('kill-title').textContent") == "End session-1?"
        page.run("document.getElementById('kill-no').click()")
        assert "session-1" in control(daemon.address, "sessions").stdout
        page.run("document.querySelector('#sessions td.act button').click()")
        page.run("document.getElementById('kill-yes').click()")
        page.wait("document.querySelector('#sessions .empty')")
        assert "no sessions" in control(daemon.address, "sessions").stdout
        with contextlib.suppress(tensord.TensordError):
            session.close()


def test_a_daemon_that_goes_and_comes_back(browser, tmp_path):
    with serving(tmp_path) as (daemon, port):
        page = log_in(browser, daemon)
    page.wait("!document.getElementById('away').hidden && document.getElementById('health').textContent === 'away'")
    assert "does not answer" in page.run("document.getElementById('away').textContent")
    assert page.run("document.querySelectorAll('.card').length") == 2  # what was known stays
    with Daemon(tmp_path, f"--console-listen=localhost:{port}"):
        page.wait("!document.getElementById('login').hidden && document.getElementById('away').hidden")
        assert "You are logged out" in page.run("document.getElementById('login').innerText")


def test_logging_in_and_out(browser, tmp_path):
    with serving(tmp_path) as (daemon, port):
        link = control(daemon.address, "console").stdout.strip()
        page = browser.open(link)
        page.wait("!document.getElementById('overview').hidden")
        page.run("document.getElementById('logout').click()")
        page.wait("!document.getElementById('login').hidden")
        assert page.run("sessionStorage.length") == 0
        again = browser.open(link)
        again.wait("document.getElementById('login-why').textContent.startsWith('This link was used before')")
        again.run("document.getElementById('token').value = 'guessed'; document.querySelector('#token-form button').click()")
        again.wait("document.getElementById('login-why').textContent.startsWith('The daemon does not know this token')")
        bare = browser.open(f"http://localhost:{port}/")
        bare.wait("!document.getElementById('login').hidden")
        assert bare.run("document.getElementById('login-why').checkVisibility()") is False
