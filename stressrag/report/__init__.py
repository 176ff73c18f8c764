"""Reports of finished runs; callable, as ``stressrag.report`` is both this package and the verb."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(self, *runs: Any, **options: Any) -> Any:
        """The same as :func:`stressrag.api.report`."""
        from stressrag.api import report

        return report(*runs, **options)


sys.modules[__name__].__class__ = _Callable
