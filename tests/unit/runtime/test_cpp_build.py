"""The kernel builder: grouping, binding, cache, and what it says when something is wrong."""

from __future__ import annotations

import multiprocessing
import os
import stat

import pytest
import torch

from kernelscope import config
from kernelscope.errors import BuildError
from kernelscope.runtime import cache as cache_module
from kernelscope.runtime.cpp_build import CppSource, start_build
from kernelscope.runtime.cpp_units import units

FLAGS = ("-std=c++17", "-O1", "-fPIC")


def source(name, body, extra=""):
    signature = "const float* in_ptr0, float* out_ptr0, const int64_t ks0"
    includes = f"#include <cstdint>\n#include <stdexcept>\n{extra}\n"
    text = f'{includes}extern "C"  void kernel({signature})\n{{\n{body}\n}}\n'
    return CppSource(name, text, "kernel", ("const float*", "float*", "const int64_t"))


HELPER = "static float helper(float x) { return x %s 2; }"
DOUBLE = source("twice", "for (int64_t i = 0; i < ks0; ++i) out_ptr0[i] = helper(in_ptr0[i]);", HELPER % "*")
HALVE = source("halve", "for (int64_t i = 0; i < ks0; ++i) out_ptr0[i] = helper(in_ptr0[i]);", HELPER % "/")
THROW = source("throws", 'throw std::runtime_error("divided by zero");')
DEFINES = source("defines", "out_ptr0[0] = FACTOR;", "#define FACTOR 7")


def build(*sources, flags=FLAGS):
    return start_build(sources, isa="none", compile_flags=flags, link_flags=()).load()


@pytest.fixture
def cache(tmp_path):
    with config.override(cache_dir=tmp_path, compile_jobs=2):
        yield tmp_path


def test_helpers_of_equal_names_do_not_clash(cache):
    library = build(DOUBLE, HALVE, DEFINES)
    x, y = torch.tensor([1.0, 3.0]), torch.empty(2)
    library.twice(x, y, 2)
    assert y.tolist() == [2.0, 6.0]
    library.halve(x, y, 2)
    assert y.tolist() == [0.5, 1.5]
    library.defines(x, y, 2)
    assert y[0] == 7


def test_kernels_with_definitions_stand_alone():
    assert len(units([DOUBLE, HALVE, DEFINES], most=1)) == 2


def test_large_kernels_are_spread():
    large = [source(f"k{index}", "//" + "x" * 20_000) for index in range(4)]
    assert len(units(large, most=2)) == 2
    assert len(units([DOUBLE, HALVE], most=2)) == 1


def test_wrong_arguments_are_refused(cache):
    library, x = build(DOUBLE), torch.zeros(2)
    with pytest.raises(TypeError, match="kernel twice, argument 0: cannot take a value of type str"):
        library.twice("x", x, 2)
    with pytest.raises(TypeError, match="argument 2: cannot take a value of type float"):
        library.twice(x, x, 2.5)
    with pytest.raises(TypeError, match="takes 3 arguments, got 1"):
        library.twice(x)


def test_an_exception_becomes_an_error(cache):
    x = torch.zeros(2)
    with pytest.raises(RuntimeError, match="kernel throws: divided by zero"):
        build(THROW).throws(x, x, 2)


def test_a_failing_compiler_is_explained(cache):
    with pytest.raises(BuildError) as caught:
        build(source("broken", "this is no C++"))
    assert "this is no C++" in caught.value.what or "error" in caught.value.what
    assert os.path.exists(caught.value.where)
    assert "-std=c++17" in caught.value.hint


def test_a_missing_compiler_is_explained(cache):
    with config.override(cxx="no-such-compiler"), pytest.raises(BuildError, match="no-such-compiler") as caught:
        build(DOUBLE)
    assert "apt-get install" in caught.value.hint


def test_an_unwritable_cache_is_replaced_with_a_warning(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.warns(UserWarning, match="not writable"):
        found = cache_module.directory(blocked / "cache")
    assert stat.S_ISDIR(found.stat().st_mode)


def _cold(folder, queue):
    with config.override(cache_dir=folder):
        x, y = torch.ones(1), torch.empty(1)
        build(DOUBLE).twice(x, y, 1)
        queue.put(y.item())


def test_processes_that_start_cold_at_once(tmp_path):
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    processes = [context.Process(target=_cold, args=(tmp_path, queue)) for _ in range(2)]
    for process in processes:
        process.start()
    assert [queue.get(timeout=120) for _ in processes] == [2.0, 2.0]
    for process in processes:
        process.join()
    assert len(list((tmp_path / "kernels").rglob("*.so"))) == 1
