"""Objects of generated C++ for tests that have a cache of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from opinfo.analysis.support.files.user_cache import user_cache
from opinfo.byoc.codegen.compilers import kept_code


@pytest.fixture(scope="package", autouse=True)
def kept_objects() -> Iterator[None]:
    """Keep objects in the user's cache: these tests need their own plans, but compile the same."""
    with pytest.MonkeyPatch.context() as patch:
        keep_objects(patch)
        yield


def keep_objects(patch: pytest.MonkeyPatch) -> None:
    """Keep them in the cache of the user, whatever cache is set after this."""
    patch.setattr(kept_code, "FOLDER", str(user_cache(kept_code.FOLDER)))
