"""Settings are read strictly, and overridden in a scope."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelscope import config
from kernelscope.config import Config
from kernelscope.errors import OptionError


def test_values_are_read():
    found = Config.from_env(
        {"KERNELSCOPE_TARGET": "interpreter", "KERNELSCOPE_VERIFY": "2", "KERNELSCOPE_CACHE_DIR": "/c"}
    )
    assert (found.target, found.verify, found.cache_dir) == ("interpreter", 2, Path("/c"))


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("KERNELSCOPE_VERYFY", "1", "did you mean KERNELSCOPE_VERIFY"),
        ("KERNELSCOPE_ZZZZZZZZZZZZZZZZZZ", "1", "known variables"),
        ("KERNELSCOPE_VERIFY", "4", "must be one of"),
        ("KERNELSCOPE_VERIFY", "", "must be one of"),
        ("KERNELSCOPE_COMPILE_JOBS", "-1", "whole number"),
        ("KERNELSCOPE_PROGRESS", "True", "must be one of"),
    ],
)
def test_bad_values_are_refused(variable, value, message):
    with pytest.raises(OptionError, match=message):
        Config.from_env({variable: value})


def test_overrides_nest_and_end():
    before = config.current().target
    with config.override(target="a"), config.override(verify=0):
        assert (config.current().target, config.current().verify) == ("a", 0)
    assert config.current().target == before
    with pytest.raises(OptionError, match="unknown setting"), config.override(tarrget="a"):
        pass
