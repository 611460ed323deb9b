"""That a page is quiet and alone is seen to: one that is not is told of."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import Browser, opened

TROUBLE = {
    "said": "<script>console.debug('said')</script>",
    "thrown is not defined": "<script>setTimeout(() => thrown())</script>",
    "http://192.0.2.1/asked": "<link rel=prefetch href='http://192.0.2.1/asked'>",
    "Content Security Policy": "<meta http-equiv=Content-Security-Policy content=\"script-src 'none'\"><script>0</script>",
}


@pytest.mark.parametrize("told", TROUBLE)
def test_trouble_of_a_page_is_told(browser: Browser, tmp_path: Path, told: str) -> None:
    page = tmp_path / "page.html"
    page.write_text(f"<!doctype html><title>page</title>{TROUBLE[told]}")
    with pytest.raises(AssertionError, match=told), opened(browser, page) as shown:
        shown.evaluate("new Promise(done => setTimeout(done, 100))")
    page.write_text("<!doctype html><title>quiet</title>")
    with opened(browser, page) as shown:
        assert shown.title == "quiet"
