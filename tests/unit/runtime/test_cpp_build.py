"""The kernel builder: binding, cache, concurrency, and what it says when something is wrong."""

from __future__ import annotations

import multiprocessing
import os
import platform
import subprocess
import sys
import sysconfig
import threading
import time
from pathlib import Path

import pytest
import torch

from kernelscope import config
from kernelscope.errors import BuildError
from kernelscope.runtime import compiler, cpp_build, cpp_units
from kernelscope.runtime.cpp_build import CppSource, start_build
from tests.unit.runtime.kernels import (
    BROKEN,
    DEFINES,
    DOUBLE,
    FLAGS,
    HALVE,
    REDEFINES,
    THROWS,
    build,
    pointwise,
    source,
)


@pytest.fixture
def cache(tmp_path):
    with config.override(cache_dir=tmp_path, compile_jobs=2):
        yield tmp_path


@pytest.fixture
def forget():
    """Lets the next ``start_build`` look into the cache again, as a fresh process would."""

    def clear():
        cpp_build._pending.clear()

    return clear


def result(function, x, size=None):
    y = torch.empty_like(x)
    function(x, y, x.numel() if size is None else size)
    return y.tolist()


def libraries(folder):
    return list((folder / "kernels").rglob("*.so"))


def test_helpers_and_definitions_of_equal_names_do_not_clash(cache):
    library, x = build(DOUBLE, HALVE, DEFINES, REDEFINES), torch.tensor([1.0, 3.0])
    assert result(library.twice, x) == [2.0, 6.0]
    assert result(library.halve, x) == [0.5, 1.5]
    assert result(library.defines, x)[0] == 14
    assert result(library.redefines, x)[0] == 4


def test_kernels_that_do_not_compile_together_are_compiled_alone(cache):
    # A using-directive of one kernel's header would make the other's name ambiguous.
    (cache / "clash.h").write_text("#pragma once\nstruct helper_type { int x; };\nusing factor = helper_type;\n")
    first = pointwise("first", "factor{2}.x", f'#include "{cache}/clash.h"')
    second = source("second", "out_ptr0[0] = ::factor;", f'#include "{cache}/other.h"')
    (cache / "other.h").write_text("static const int factor = 3;\n")
    library, x = build(first, second), torch.ones(1)
    assert result(library.first, x) == [2.0]
    assert result(library.second, x) == [3.0]


def test_bits_are_those_of_kernels_compiled_alone(cache, tmp_path):
    flags = ("-std=c++17", "-O3", "-fPIC", "-ffp-contract=off", "-fno-tree-loop-vectorize")
    kernels = [
        pointwise("a", "std::exp(in_ptr0[i]) * 0.3f + 1.7f / (in_ptr0[i] * in_ptr0[i] + 0.1f)"),
        pointwise("b", "std::tanh(in_ptr0[i] * 0.79788456f) * helper(in_ptr0[i])", DOUBLE.text.split("extern")[0]),
        source(
            "c", "float s = 0; for (int64_t i = 0; i < ks0; ++i) { s += in_ptr0[i] * in_ptr0[i]; out_ptr0[i] = s; }"
        ),
    ]
    together, x = build(*kernels, flags=flags), torch.randn(1000)
    for kernel in kernels:
        alone = build(kernel, flags=flags)
        assert result(getattr(together, kernel.name), x) == result(getattr(alone, kernel.name), x)
    assert len(libraries(tmp_path)) == 4


def test_scalars(cache):
    text = (
        '#include <cstdint>\nextern "C" void kernel(double* out_ptr0, {}) {{ out_ptr0[0] = ks0; out_ptr0[1] = c; }}\n'
    )
    ctypes = ("int64_t", "const bool"), ("int32_t", "float"), ("uint8_t", "const double")
    kernels = [
        CppSource(f"k{index}", text.format(f"{first} ks0, {second} c"), "kernel", ("double*", first, second))
        for index, (first, second) in enumerate(ctypes)
    ]
    library, out = build(*kernels), torch.empty(2, dtype=torch.float64)
    library.k0(out, -(2**40), True)
    assert out.tolist() == [-(2**40), 1]
    library.k1(out, -7, 0.5)
    assert out.tolist() == [-7, 0.5]
    library.k2(out, 255, 1e300)
    assert out.tolist() == [255, 1e300]
    with pytest.raises(OverflowError, match=r"kernel k0, argument 1 \(ks0\): 9223372036854775808 does not fit"):
        library.k0(out, 2**63, True)


def test_wrong_arguments_are_refused(cache):
    library, x = build(DOUBLE), torch.zeros(2)
    for wrong, kind in (("x", "str"), (None, "NoneType"), (x.data_ptr(), "int"), ([x], "list")):
        message = rf"kernel twice, argument 0 \(in_ptr0\): cannot take a value of type {kind}"
        with pytest.raises(TypeError, match=message):
            library.twice(wrong, x, 2)
    with pytest.raises(TypeError, match=r"argument 2 \(ks0\): cannot take a value of type float"):
        library.twice(x, x, 2.5)
    with pytest.raises(TypeError, match="takes 3 arguments, got 1"):
        library.twice(x)


def test_an_exception_becomes_an_error(cache):
    x = torch.zeros(2)
    with pytest.raises(RuntimeError, match="kernel throws: divided by zero"):
        build(THROWS).throws(x, x, 2)


def test_pytorchs_own_error_helper(cache):
    include = "#include <torch/csrc/inductor/cpp_prefix.h>"
    header = Path(torch.__file__).parent / "include/torch/csrc/inductor/cpp_prefix.h"
    if "inductor_cpu_throw_if_integer_div_error" not in header.read_text():
        pytest.skip("this version of PyTorch has no such helper")
    # The form in which PyTorch's compiler writes it.
    body = """
        std::atomic<int> inductor_cpu_integer_div_error{0};
        inductor_cpu_integer_div_error_flag = &inductor_cpu_integer_div_error;
        #pragma omp parallel for
        for (int64_t i = 0; i < 100; ++i)
            out_ptr0[0] = floor_divide_integral(ks0, static_cast<int64_t>(in_ptr0[0]));
        inductor_cpu_integer_div_error_flag = nullptr;
        inductor_cpu_throw_if_integer_div_error(inductor_cpu_integer_div_error);"""
    flags = ("-std=c++20", "-O0", "-fPIC", "-fopenmp")
    library = build(source("divides", body, include), flags=flags, link_flags=("-ltorch_cpu", "-lc10"))
    x = torch.full((2,), 3.0)
    assert result(library.divides, x, 7)[0] == 2
    x[0] = 0
    with pytest.raises(RuntimeError, match="kernel divides: ZeroDivisionError"):
        library.divides(x, torch.zeros(2), 7)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="elsewhere every kernel lets go of the lock")
def test_a_long_kernel_lets_other_threads_run(cache):
    """The kernel ends early if, while it runs, another thread answers what it wrote."""
    body = """
    auto answer = (const volatile float*)in_ptr0;
    *(volatile float*)out_ptr0 = 1;
    for (int64_t i = 0; i < ks0; ++i) if (*answer == 1) { out_ptr0[0] = 2; return; }
    """
    library, x, y = build(source("waits", body)), torch.zeros(1), torch.zeros(1)
    for _ in range(64):
        library.waits(x, y, 200_000)

    def answer():
        while y[0] == 0:
            time.sleep(0.001)
        x[0] = 1

    y[0] = 0
    thread = threading.Thread(target=answer)
    thread.start()
    library.waits(x, y, 20_000_000_000)
    thread.join()
    assert y[0] == 2


def test_many_threads_call_one_kernel(cache):
    library = build(DOUBLE)
    failures = []

    def work(value):
        x, y = torch.full((1000,), value), torch.empty(1000)
        for _ in range(300):
            library.twice(x, y, 1000)
            if not torch.equal(y, 2 * x):
                failures.append(value)

    threads = [threading.Thread(target=work, args=(float(index),)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_starting_does_not_wait(cache, forget):
    waiting, go = cache / "waiting-g++", cache / "go"
    waits = f'[ "$1" = --version ] || while [ ! -e {go} ]; do sleep 0.05; done'
    waiting.write_text(f'#!/bin/sh\n{waits}\nexec {compiler.find_compiler("")} "$@"\n')
    waiting.chmod(0o755)
    with config.override(cxx=str(waiting)):
        pending = start_build([DOUBLE], isa="none", compile_flags=FLAGS, link_flags=())
        assert start_build([DOUBLE], isa="none", compile_flags=FLAGS, link_flags=()) is pending
        assert not pending.start().done()
        go.touch()
        assert result(pending.load().twice, torch.ones(1)) == [2.0]


def test_no_more_compilers_at_a_time_than_allowed(cache):
    counting = cache / "counting-g++"
    log = cache / "log"
    counting.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && exec {compiler.find_compiler("")} "$@"\n'
        f'echo start >> {log}\n{compiler.find_compiler("")} "$@"\ncode=$?\necho end >> {log}\nexit $code\n'
    )
    counting.chmod(0o755)
    with config.override(cxx=str(counting), compile_jobs=1):
        builds = [
            start_build([pointwise(f"k{index}", f"{index}")], isa="none", compile_flags=FLAGS, link_flags=())
            for index in range(2)
        ]
        for pending in builds:
            pending.load()
    assert log.read_text().split() == ["start", "end"] * 6


def test_a_warm_start_compiles_nothing(cache, forget):
    build(DOUBLE)
    forget()
    (before,) = libraries(cache)
    stamp = before.stat().st_mtime_ns
    build(DOUBLE)
    assert [path.stat().st_mtime_ns for path in libraries(cache)] == [stamp]


def test_a_read_only_cache_that_has_the_library_is_used(cache, forget, monkeypatch):
    build(DOUBLE)
    forget()
    monkeypatch.setattr(cpp_build.cache, "directory", lambda cache_dir: pytest.fail("nothing has to be written"))
    assert result(build(DOUBLE).twice, torch.ones(1)) == [2.0]


def test_everything_that_matters_is_in_the_key(cache, forget, monkeypatch):
    build(DOUBLE)
    build(DOUBLE, flags=(*FLAGS, "-DOTHER"))
    build(DOUBLE, flags=(*FLAGS, "-march=native"))
    monkeypatch.setattr(cpp_build.vectors, "fingerprint", lambda: "another CPU")
    build(DOUBLE, flags=(*FLAGS, "-march=native"))
    assert len(libraries(cache)) == 4


def test_a_failing_compiler_is_explained(cache):
    with pytest.raises(BuildError) as caught:
        build(DOUBLE, BROKEN)
    assert "error" in caught.value.what
    assert len(caught.value.what) < 2300
    assert "this is no C++" in Path(caught.value.where).read_text()
    assert "-std=c++17" in caught.value.hint


def test_a_failed_build_is_tried_again(cache):
    with pytest.raises(BuildError) as first:
        build(BROKEN)
    with pytest.raises(BuildError) as second:
        build(BROKEN)
    assert not Path(first.value.where).exists()  # one failed build is kept, not all of them
    assert Path(second.value.where).exists()


def test_a_missing_compiler_is_explained(cache):
    with config.override(cxx="no-such-compiler"), pytest.raises(BuildError, match="no-such-compiler") as caught:
        build(DOUBLE)
    assert "apt-get install" in caught.value.hint


def test_missing_python_headers_are_explained(cache, monkeypatch):
    compiler.python_include.cache_clear()
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(cache / "nowhere"))
    with pytest.raises(BuildError, match=r"Python\.h") as caught:
        build(DOUBLE)
    assert caught.value.hint == "apt-get install -y g++ python3-dev"
    compiler.python_include.cache_clear()


def test_a_library_that_cannot_be_loaded_is_explained(cache):
    pending = start_build([DOUBLE], isa="none", compile_flags=FLAGS, link_flags=())
    library = pending.start().result()
    library.unlink()
    library.write_bytes(b"not a library")
    with pytest.raises(BuildError, match="cannot load") as caught:
        pending.load()
    assert caught.value.where == str(library)


def test_progress_is_shown_when_asked_for(cache, capsys):
    slow = cache / "slow-g++"
    slow.write_text(f'#!/bin/sh\n[ "$1" = --version ] || sleep 1\nexec {compiler.find_compiler("")} "$@"\n')
    slow.chmod(0o755)
    with config.override(cxx=str(slow), progress="on"):
        build(pointwise("slow_on", "1"))
    assert "building 1 kernel" in capsys.readouterr().err
    with config.override(cxx=str(slow), progress="auto"):
        build(pointwise("slow_auto", "1"))
    assert capsys.readouterr().err == ""


def _cold(folder, queue):
    with config.override(cache_dir=folder):
        queue.put(result(build(DOUBLE).twice, torch.ones(1)))


def test_processes_that_start_cold_at_once(tmp_path):
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    processes = [context.Process(target=_cold, args=(tmp_path, queue)) for _ in range(2)]
    for process in processes:
        process.start()
    assert [queue.get(timeout=120) for _ in processes] == [[2.0], [2.0]]
    for process in processes:
        process.join()
    (library,) = libraries(tmp_path)
    assert {path.suffix for path in library.parent.iterdir()} == {".so", ".lock"}


KILLED = """
import os, sys
from pathlib import Path
from kernelscope import config
from tests.unit.runtime.kernels import DOUBLE, build
with config.override(cache_dir=Path(sys.argv[1]), cxx=sys.argv[2]):
    build(DOUBLE)
"""


def test_a_builder_that_was_killed_leaves_nothing_in_the_way(tmp_path):
    killer = tmp_path / "killer-g++"
    found = compiler.find_compiler("")
    killer.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exec {found} "$@"\nkill -9 $PPID\n')
    killer.chmod(0o755)
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), str(killer)], check=False, cwd=os.getcwd())
    assert done.returncode == -9
    assert not libraries(tmp_path)
    with config.override(cache_dir=tmp_path):
        assert result(build(DOUBLE).twice, torch.ones(1)) == [2.0]
    (library,) = libraries(tmp_path)
    assert {path.suffix for path in library.parent.iterdir()} == {".so", ".lock"}


FORKS = """
import os, sys
from pathlib import Path
import torch
from kernelscope import config
from kernelscope.runtime.cpp_build import start_build
from tests.unit.runtime.kernels import DOUBLE, FLAGS
with config.override(cache_dir=Path(sys.argv[1])):
    pending = start_build([DOUBLE], isa="none", compile_flags=FLAGS, link_flags=())
    child = os.fork()  # while the parent's thread holds the lock and builds
    x, y = torch.ones(1), torch.empty(1)
    pending.load().twice(x, y, 1)
    if child == 0:
        os._exit(int(y.item()) + 40)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
    assert y.item() == 2
"""


def test_a_child_that_was_forked_during_a_build(tmp_path):
    subprocess.run([sys.executable, "-c", FORKS, str(tmp_path)], check=True, cwd=os.getcwd(), timeout=120)


FORKS_BESIDE_COMPILERS = """
import os, threading, time
from pathlib import Path
from kernelscope.runtime import compiler

def compile():
    for _ in range(300):
        compiler.run(["/bin/true"], kept=Path("/"))

thread = threading.Thread(target=compile)
thread.start()
children = []
while thread.is_alive() and len(children) < 100:
    child = os.fork()
    if child == 0:
        time.sleep(600)
    children.append(child)
    time.sleep(0.003)
thread.join(timeout=60)
for child in children:
    os.kill(child, 9)
    os.waitpid(child, 0)
assert not thread.is_alive()
"""


def test_a_forked_child_keeps_nothing_that_a_compiler_is_waited_for_by():
    subprocess.run([sys.executable, "-c", FORKS_BESIDE_COMPILERS], check=True, timeout=120)


def test_the_binding_compiles_fast(cache):
    text = cpp_units.binding([pointwise(f"k{index}", "1") for index in range(50)], "m")
    (cache / "m.cpp").write_text(text)
    command = [compiler.find_compiler(""), *cpp_build._LIGHT_FLAGS, f"-I{cpp_build.NATIVE}", compiler.python_include()]
    start = os.times().children_user
    compiler.run([*command, "-c", str(cache / "m.cpp"), "-o", str(cache / "m.o")], kept=cache)
    assert os.times().children_user - start < 5
