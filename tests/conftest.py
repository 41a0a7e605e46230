"""Makes the stand-ins in this directory importable, and keeps tests away from the user's own cache."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="session")
def _private_cache(tmp_path_factory: pytest.TempPathFactory) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UMMA_PROBE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
