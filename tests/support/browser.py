"""A real headless Chromium, driven over its DevTools protocol.

    with Browser(tmp_path) as browser:
        browser.open("file:///tmp/report.html")
        browser.press("2")
        assert browser.evaluate("document.title") == "..."
    assert browser.errors == []

Offline: every request but the page's own file is refused, and noted as an error by the browser.
"""

import base64
import json
import os
import shutil
import subprocess
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from websockets.sync.client import connect

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *(
        "--remote-debugging-port=0",
        "--hide-scrollbars",
        "--disable-dev-shm-usage",
        "--force-color-profile=srgb",
    ),
)
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
START_S, ANSWER_S = 60.0, 60.0
NO_BROWSER = "no Chromium found; install it: apt-get install chromium (or set CHROMIUM to its path)"
PAGE_HAS_GONE = "Inspected target navigated or closed"
DRAWN = "new Promise((done) => requestAnimationFrame(() => setTimeout(done, 5)))"
CODES = {"Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
CODES |= {"Tab": 9, "Enter": 13}


def find_browser() -> str:
    """Path of the browser. A missing one fails a test; it never skips it."""
    named = os.environ.get("CHROMIUM")
    found = named or next(filter(None, map(shutil.which, PROGRAMS)), None)
    assert found, NO_BROWSER
    return found


class Browser:
    """One page of one browser."""

    def __init__(self, folder: Path, *, width: int = 1440, height: int = 900) -> None:
        self.folder = folder / "chromium"
        self.size = (width, height)
        self.errors: list[str] = []
        """Exceptions, console errors, refused requests and breaches of the page's policy."""
        self.requested: list[str] = []
        """Addresses of all requests."""
        self._last = 0

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True)
        size = f"--window-size={self.size[0]},{self.size[1]}"
        command = [find_browser(), *FLAGS, size, f"--user-data-dir={self.folder}", "about:blank"]
        # Proxies of the surroundings are not for a page of this machine.
        env = {name: one for name, one in os.environ.items() if "proxy" not in name.lower()}
        self._open = ExitStack()
        with ExitStack() as opening:
            log = opening.enter_context((self.folder / "log").open("wb"))
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=env)
            opening.callback(self._end)
            address = self._address()
            self._socket = opening.enter_context(
                connect(address, max_size=None, open_timeout=START_S, proxy=None)
            )
            self._open = opening.pop_all()
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        width, height = self.size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.close()

    def _end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _address(self) -> str:
        """The page's DevTools address, once the browser has written its port."""
        port = self.folder / "DevToolsActivePort"
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self._process.poll() is None:
            if port.is_file() and (lines := port.read_text().split("\n")) and len(lines) > 1:
                address = f"http://127.0.0.1:{lines[0]}/json/list"
                opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
                with opener.open(address, timeout=START_S) as answer:
                    pages = [one for one in json.load(answer) if one["type"] == "page"]
                if pages:
                    return str(pages[0]["webSocketDebuggerUrl"])
            time.sleep(0.02)
        raise AssertionError(f"Chromium did not start: {(self.folder / 'log').read_text()[-2000:]}")

    def call(self, method: str, **parameters: Any) -> Any:
        """The answer to one command of the protocol; asked again of the next page where this one
        goes meanwhile."""
        while True:
            answer = self._answer(method, parameters)
            if "error" not in answer:
                return answer["result"]
            assert answer["error"]["message"] == PAGE_HAS_GONE, (method, answer["error"])

    def _answer(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        self._last += 1
        self._socket.send(json.dumps({"id": self._last, "method": method, "params": parameters}))
        while True:
            message: dict[str, Any] = json.loads(self._socket.recv(timeout=ANSWER_S))
            if message.get("id") == self._last:
                return message
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        method, given = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(str(given["exceptionDetails"].get("exception", given)))
        elif method == "Runtime.consoleAPICalled" and given["type"] in ("error", "warning"):
            self.errors.append(str(given["args"]))
        elif method == "Log.entryAdded" and given["entry"]["level"] == "error":
            self.errors.append(given["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requested.append(given["request"]["url"])
        elif method == "Page.javascriptDialogOpening":
            self.errors.append(f"a dialog opened: {given['message']}")
            self._socket.send(
                '{"id":0,"method":"Page.handleJavaScriptDialog","params":{"accept":true}}'
            )

    def offline(self) -> None:
        """Take the network away."""
        nothing = {"latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
        self.call("Network.emulateNetworkConditions", offline=True, **nothing)

    def open(self, address: str) -> float:
        """Open a page and wait until it is drawn; return its own milliseconds until then."""
        # Another part of the same page would be no loading of it.
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=address)
        return self.wait_ready()

    def reload(self) -> float:
        """Load the page again."""
        self.evaluate("delete document.documentElement.dataset.ready")
        self.call("Page.reload")
        return self.wait_ready()

    def wait_ready(self) -> float:
        """Wait for a report's page; its milliseconds from the start of loading."""
        self.wait("document.documentElement?.dataset.ready")
        return float(self.evaluate("document.documentElement.dataset.ready"))

    def wait(self, condition: str) -> None:
        """Wait until an expression of the page is true."""
        deadline = time.monotonic() + ANSWER_S
        while not self.evaluate(f"Boolean({condition})"):
            assert time.monotonic() < deadline, (condition, self.errors)
            time.sleep(0.02)

    def evaluate(self, expression: str) -> Any:
        """The value of an expression of the page, promises awaited."""
        given = {"expression": expression, "awaitPromise": True, "returnByValue": True}
        answer = self.call("Runtime.evaluate", **given)
        assert "exceptionDetails" not in answer, (expression, answer["exceptionDetails"])
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """Press and release a key, as a person does, and wait until what it did is drawn."""
        text = {} if key in CODES and key != "Enter" else {"text": "\r" if key == "Enter" else key}
        code = {"windowsVirtualKeyCode": CODES[key]} if key in CODES else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text, **code)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, **code)
        self.evaluate(DRAWN)

    def screenshot(self, path: Path) -> None:
        """Write what is on the screen as PNG."""
        shot = self.call("Page.captureScreenshot", format="png")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def dark(self, on: bool = True) -> None:
        """Prefer dark, or light."""
        value = "dark" if on else "light"
        feature = {"name": "prefers-color-scheme", "value": value}
        self.call("Emulation.setEmulatedMedia", features=[feature])
