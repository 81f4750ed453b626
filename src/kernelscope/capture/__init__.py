"""Front ends that make a program out of what PyTorch compiles.

The name is taken twice: ``kernelscope.capture`` is this room, and the public function of the same name. Importing
anything from the room binds the room to the name, so the room can be called and then does what the function does.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any


class _Room(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """``kernelscope.api.capture``."""
        return importlib.import_module("kernelscope.api").capture(*args, **kwargs)


sys.modules[__name__].__class__ = _Room
