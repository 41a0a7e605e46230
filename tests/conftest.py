"""Makes the stand-ins in this directory importable, and keeps tests away from the user's own cache."""

from __future__ import annotations

import os

# before NumPy is imported, as the command line does it: on a busy machine BLAS threads wait for each other
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest


@pytest.fixture(autouse=True, scope="session")
def _private_cache(tmp_path_factory: pytest.TempPathFactory) -> object:
    with pytest.MonkeyPatch.context() as patch:
        # the workers of one session share what NVRTC made: their folders lie in one
        base = tmp_path_factory.getbasetemp()
        session = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
        patch.setenv("UMMA_PROBE_CACHE", str(session / "compiled"))
        yield
