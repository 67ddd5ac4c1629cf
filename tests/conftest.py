from __future__ import annotations

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Playwright's synchronous API keeps an event loop running on the main thread: asyncio.run() fails behind it.
    items.sort(key=lambda item: "browser" in item.path.parts)
