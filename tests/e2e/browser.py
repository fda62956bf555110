"""A headless Chromium, driven by its own protocol over two pipes: no driver, no port, no packages.

    with Browser(binary, profile_folder) as browser:
        page = browser.open("http://localhost:7080/", width=1440, height=900)
        page.wait("document.title === 'tensord'")
        page.screenshot(path)
"""

import base64
import fcntl
import json
import os
import shutil
import subprocess
import threading


def find():
    """The path of a Chromium or Chrome of this machine, or None."""
    names = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
    return next(filter(None, map(shutil.which, names)), None)


class Browser:
    def __init__(self, binary, profile):
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()

        def place():
            # It reads commands from descriptor 3 and writes answers to 4, either of which may be taken.
            ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (to_read, to_write)]
            for number, end in enumerate(ends, start=3):
                os.dup2(end, number)

        self._process = subprocess.Popen(
            [binary, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--hide-scrollbars", "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=place, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self._next = 0
        self._replies = {}
        self._changed = threading.Condition()
        self._dead = False
        self.events = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        rest = b""
        while more := os.read(self._read, 1 << 16):
            *whole, rest = (rest + more).split(b"\0")
            with self._changed:
                for text in whole:
                    message = json.loads(text)
                    if "id" in message:
                        self._replies[message["id"]] = message
                    else:
                        self.events.append(message)
                self._changed.notify_all()
        with self._changed:
            self._dead = True
            self._changed.notify_all()

    def call(self, method, session=None, **parameters):
        with self._changed:
            self._next += 1
            number = self._next
        message = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        with self._changed:
            assert self._changed.wait_for(lambda: self._dead or number in self._replies, 120), f"no answer to {method}"
            assert number in self._replies, f"the browser ended at {method}"
            reply = self._replies.pop(number)
        assert "error" not in reply, f"{method}: {reply['error']}"
        return reply["result"]

    def open(self, url, width=1440, height=900, scheme="light", scale=1):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        page.show(width, height, scheme, scale)
        page.call("Page.navigate", url=url)
        return page

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait(60)
        os.close(self._write)


class Page:
    def __init__(self, browser, session):
        self._browser = browser
        self._session = session

    def call(self, method, **parameters):
        return self._browser.call(method, self._session, **parameters)

    def show(self, width, height, scheme="light", scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def run(self, expression):
        """The value of JavaScript; a promise is awaited."""
        reply = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in reply, reply["exceptionDetails"]
        return reply["result"].get("value")

    def wait(self, expression, seconds=60):
        """Until JavaScript says true; pages look by themselves, so that nobody polls from here."""
        self.run(f"""new Promise((done, fail) => {{
            const end = Date.now() + {seconds * 1000};
            const look = () => {{
                let value = false;
                try {{ value = {expression}; }} catch (error) {{ value = false; }}
                if (value) done(true); else if (Date.now() > end) fail(new Error({json.dumps('never: ' + expression)})); else setTimeout(look, 20);
            }};
            look();
        }})""")

    def press(self, key, code=None, text=None):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=code or key, **({"text": text} if text and kind == "keyDown" else {}),
                      windowsVirtualKeyCode={"Tab": 9, "Enter": 13, "Escape": 27}.get(key, 0))  # fmt: skip

    def faults(self):
        """What the page complained of: exceptions, and refusals by its policy."""
        found = []
        for event in self._browser.events:
            if event.get("sessionId") != self._session:
                continue
            if event["method"] == "Runtime.exceptionThrown":
                found.append(event["params"]["exceptionDetails"])
            if event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
                found.append(event["params"]["entry"])
        return found

    def requests(self):
        return [event["params"]["request"]["url"] for event in self._browser.events
                if event.get("sessionId") == self._session and event["method"] == "Network.requestWillBeSent"]  # fmt: skip

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
