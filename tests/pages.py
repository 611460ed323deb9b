"""Pages in a real browser, for tests and benches: the system's Chromium, driven by Selenium."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium.webdriver import ActionChains, Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.actions.action_builder import ActionBuilder
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
MISSING = (
    None if CHROMIUM and DRIVER else "no Chromium with its driver: apt-get install chromium chromium-driver"
)

IN_SIGHT = """(b => b.bottom > 0 && b.top < innerHeight && b.right > 0 && b.left < innerWidth)(
  arguments[0].getBoundingClientRect())"""


class Browser(Chrome):
    """A browser, and the page that it shows. Elements are named by CSS selectors, in the page or within one of them."""

    def evaluate(self, expression: str, *arguments: Any) -> Any:
        return self.execute_script(f"return {expression}", *arguments)

    def all(self, css: str, within: WebElement | None = None) -> list[WebElement]:
        return (within or self).find_elements("css selector", css)

    def first(self, css: str, within: WebElement | None = None) -> WebElement:
        """Waits until there is one."""
        return WebDriverWait(self, 30, 0.02).until(lambda _: self.all(css, within), f"never: {css}")[0]

    def named(self, name: str, css: str = "button", within: WebElement | None = None) -> WebElement:
        """The only one of these whose accessible name has this in it, in capitals or not."""
        (found,) = (each for each in self.all(css, within) if name.lower() in each.accessible_name.lower())
        return found

    def texts(self, css: str, within: WebElement | None = None) -> list[str]:
        """Their text, also of those that are not displayed."""
        every = "[...(arguments[1] ?? document).querySelectorAll(arguments[0])].map(each => each.textContent)"
        return self.evaluate(every, css, within)

    def when(self, expression: str, *arguments: Any) -> None:
        """Waits until it is true."""
        WebDriverWait(self, 60, 0.02).until(
            lambda _: self.evaluate(expression, *arguments), f"never: {expression}"
        )

    def box(self, element: WebElement) -> tuple[float, float, float, float]:
        """Left, top, width and height in the window."""
        return self.evaluate(
            "(b => [b.x, b.y, b.width, b.height])(arguments[0].getBoundingClientRect())", element
        )

    def colours(self, *names: str) -> list[list[float]]:
        """Red, green and blue of custom properties."""
        return self.evaluate(
            """[...arguments].map(name => {
              const probe = document.createElement('i'); probe.style.color = `var(${name})`; document.body.append(probe);
              return getComputedStyle(probe).color.match(/[\\d.]+/g).slice(0, 3).map(Number); })""",
            *names,
        )

    def click(self, element: WebElement) -> None:
        """In the middle of the window, where nothing of the page lies over it."""
        self.evaluate("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element)
        element.click()

    def unfold(self) -> None:
        """Opens every part of a report, as who reads on does."""
        self.evaluate("document.querySelectorAll('.part').forEach(part => { part.open = true })")

    def press(self, *keys: str) -> None:
        ActionChains(self).send_keys(*keys).perform()

    def point(self, *places: tuple[float, float], pressed: bool = True) -> None:
        """Moves the pointer over the places of the window; pressed at the first, let go at the last."""
        actions = ActionBuilder(self, duration=0)
        pointer = actions.pointer_action
        for index, place in enumerate(places):
            pointer.move_to_location(*place)
            if pressed and not index:
                pointer.pointer_down()
        if pressed:
            pointer.pointer_up()
        actions.perform()

    def trouble(self, expected: tuple[str, ...]) -> list[str]:
        """What was said on consoles since it was last asked, and what was asked for of other addresses than these. That devices
        came or went, as those of other tests do, is no fault of a page, which asks again.
        """
        said = [entry["message"] for entry in self.get_log("browser")]
        found = [message for message in said if not message.endswith("net::ERR_NETWORK_CHANGED")]
        for entry in self.get_log("performance"):
            event = json.loads(entry["message"])["message"]
            if event["method"] == "Network.requestWillBeSent":
                url = event["params"]["request"]["url"]
                found += [] if url.startswith(expected) else [url]
        return found


@contextmanager
def started() -> Iterator[Browser]:
    options = ChromeOptions()
    options.binary_location = CHROMIUM or ""
    for argument in (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        # The process that forks the others may spin in the kernel for a minute when one of them ends, with a CPU to itself.
        "--no-zygote",
        "--disable-renderer-backgrounding",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with Browser(options, Service(DRIVER)) as browser:
        yield browser


@contextmanager
def opened(
    browser: Browser,
    address: str | Path,
    width: int = 1280,
    *,
    scripts: bool = True,
    saved: Path | None = None,
    **media: str,
) -> Iterator[Browser]:
    """Shows it in a tab of its own: nothing may be said on the console, and nothing asked for elsewhere."""
    if isinstance(address, Path):
        address = address.as_uri()
    first, _ = browser.current_window_handle, browser.trouble(())
    browser.switch_to.new_window("tab")
    try:
        features = [
            {"name": f"prefers-{name.replace('_', '-')}", "value": value} for name, value in media.items()
        ]
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        downloads = {"behavior": "allow", "downloadPath": str(saved)} if saved else {"behavior": "deny"}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.execute_cdp_cmd("Emulation.setFocusEmulationEnabled", {"enabled": True})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not scripts})
        browser.execute_cdp_cmd("Browser.setDownloadBehavior", downloads)
        browser.get(address)
        yield browser
        trouble = browser.trouble(("file:" if address.startswith("file:") else address, "data:"))
        assert not trouble, trouble
    finally:
        browser.close()
        browser.switch_to.window(first)
