"""A headless Chromium, driven over its own pipe (DevTools protocol): no driver program, no port."""
import base64
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import time
import unittest

KEYS = {"Enter": (13, "\r"), "Escape": (27, ""), "Tab": (9, ""), "ArrowUp": (38, ""), "n": (78, "")}
SHIFT, ALT = 8, 1


def chromium():
    """The program; skips the test without it, or fails if everything is required."""
    path = shutil.which("chromium")
    if path:
        return path
    message = "there is no chromium: run tools/install check"
    if os.environ.get("BATON_REQUIRE_MODELS"):
        raise AssertionError(message)
    raise unittest.SkipTest(message)


class Browser:
    """One browser with one page. `requests` has every URL it asked for, `complaints` what went wrong."""

    def __init__(self, folder):
        to_read, to_write = os.pipe(), os.pipe()
        options = ["--headless=new", "--remote-debugging-pipe", f"--user-data-dir={folder}/profile",
                   "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage", "--disable-sync",
                   "--disable-background-networking", "--disable-component-update",
                   "--disable-default-apps", "--no-proxy-server"]
        if os.geteuid() == 0:
            options.append("--no-sandbox")
        # The pipe's ends are descriptors 3 and 4.
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec "$@" 3<&{to_read[0]} 4>&{to_write[1]}', "sh", chromium(), *options,
             "about:blank"],
            pass_fds=(to_read[0], to_write[1]), start_new_session=True,
            env={**os.environ, "HOME": str(folder)}, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read[0])
        os.close(to_write[1])
        self.out, self.source = to_read[1], to_write[0]
        self.buffer, self.last_id, self.session = b"", 0, None
        self.answers, self.requests, self.complaints = {}, [], []
        self.open_tab()

    def open_tab(self):
        """A new tab, which everything is about from now on; what `use` takes."""
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target,
                                 flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        return self.session

    def use(self, session):
        """Goes on with a tab."""
        self.session = session
        self.call("Page.bringToFront")

    def close_tab(self):
        """Closes the tab; another one is to be used then."""
        self.call("Page.close")

    def close(self):
        """Ends it, with all its processes."""
        try:
            self.session = None
            self.call("Browser.close", timeout=10)
            self.process.wait(10)
        except (AssertionError, OSError, subprocess.TimeoutExpired):
            pass
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(10)
        os.close(self.out)
        os.close(self.source)

    def call(self, method, timeout=30, **parameters):
        """The result of a command."""
        self.last_id += 1
        number = self.last_id
        message = {"id": number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.out, data):]
        deadline = time.monotonic() + timeout
        while number not in self.answers:
            self.listen(deadline - time.monotonic(), method)
        answer = self.answers.pop(number)
        if "error" in answer:
            raise AssertionError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def listen(self, seconds, what):
        if seconds <= 0 or not select.select([self.source], [], [], max(seconds, 0))[0]:
            raise AssertionError(f"the browser does not answer {what}")
        data = os.read(self.source, 1 << 20)
        if not data:
            raise AssertionError("the browser is gone")
        *messages, self.buffer = (self.buffer + data).split(b"\0")
        for text in messages:
            message = json.loads(text)
            if "id" in message:
                self.answers[message["id"]] = message
            else:
                self.note(message["method"], message["params"])

    def note(self, event, details):
        if event == "Network.requestWillBeSent":
            self.requests.append(details["request"]["url"])
        elif event == "Runtime.exceptionThrown":
            self.complaints.append(details["exceptionDetails"].get("exception", {}).get(
                "description", details["exceptionDetails"]["text"]))
        elif event == "Log.entryAdded" and details["entry"]["level"] == "error":
            # Statuses of requests are the page's business.
            if details["entry"]["source"] != "network":
                self.complaints.append(details["entry"]["text"])

    def js(self, expression):
        """The value of an expression, waited for if it is a promise."""
        done = self.call("Runtime.evaluate", expression=expression, awaitPromise=True,
                         returnByValue=True, userGesture=True)
        if "exceptionDetails" in done:
            raise AssertionError(f"{expression}: {done['exceptionDetails']}")
        return done["result"].get("value")

    def wait(self, expression, what, timeout=30):
        """Waits until an expression is true, and gives its value."""
        deadline = time.monotonic() + timeout
        while True:
            value = self.js(expression)
            if value or value == {}:  # what an element comes as
                return value
            if time.monotonic() > deadline:
                raise AssertionError(f"{what}: never, in {timeout} s: {expression}")
            time.sleep(0.03)

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'", f"{url} is there")

    def reload(self):
        self.js("window.old = true")
        self.call("Page.reload")
        self.wait("!window.old && document.readyState === 'complete'", "the page is there again")

    def text(self, selector):
        """What one sees of an element; empty if there is none."""
        return self.js(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def type(self, text):
        self.call("Input.insertText", text=text)

    def key(self, name, modifiers=0):
        code, text = KEYS[name]
        event = {"key": name, "code": "KeyN" if name == "n" else name, "modifiers": modifiers,
                 "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text,
                  **event)
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def click(self, selector):
        x, y = self.wait(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); if (!e) return null;"
            "e.scrollIntoView({block: 'nearest'}); const b = e.getBoundingClientRect();"
            "return b.width ? [b.x + b.width / 2, b.y + b.height / 2] : null; })()",
            f"{selector} can be clicked")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def size(self, width, height, scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=scale, mobile=False)

    def touch(self, is_on):
        """Whether fingers point here."""
        self.call("Emulation.setTouchEmulationEnabled", enabled=is_on)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "hover", "value": "none" if is_on else ""},
            {"name": "pointer", "value": "coarse" if is_on else ""}])

    def scheme(self, name):
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": name}])

    def picture(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))
