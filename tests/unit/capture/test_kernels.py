"""Kernel text becomes kernel records."""

from __future__ import annotations

import pytest
import torch
from torch._inductor.cpp_builder import CppTorchOptions
from torch._inductor.cpu_vec_isa import pick_vec_isa

from kernelscope.capture.inductor.grids import grid_expr
from kernelscope.capture.inductor.kernels import cpp_build, cpp_kernel, shell_call
from kernelscope.capture.inductor.versions import no_vector_probes
from kernelscope.errors import UnsupportedError
from kernelscope.ir.expr import substitute, symbol


def test_parameters_have_roles():
    kernel = cpp_kernel(
        "k",
        '#include "x.h"\nextern "C"  void kernel(float* in_out_ptr0,\n  const int64_t* in_ptr0, '
        "bool* out_ptr0, const int64_t ks0) {}",
    )
    assert [(param.name, param.role, param.dtype) for param in kernel.params] == [
        ("in_out_ptr0", "inout", torch.float32),
        ("in_ptr0", "in", torch.int64),
        ("out_ptr0", "out", torch.bool),
        ("ks0", "scalar", None),
    ]
    assert kernel.entry == "kernel"


@pytest.mark.parametrize("text", ["print(1)", "async_compile", "kernel()"])
def test_an_unknown_shell_is_refused(text):
    with pytest.raises(UnsupportedError, match="unknown form"):
        shell_call(text)


def test_text_without_a_kernel_is_refused():
    with pytest.raises(UnsupportedError, match="defines no"):
        cpp_kernel("k", "int x;")


def test_flags_are_those_of_inductor():
    with no_vector_probes():
        build, options = cpp_build(), CppTorchOptions(vec_isa=pick_vec_isa(), include_pytorch=False, shared=True)
    assert build.isa == str(pick_vec_isa())
    theirs = {f"-{flag}" for flag in options.get_cflags()} | {f"-D{name.strip()}" for name in options.get_definitions()}
    ours = set(build.compile_flags) | {f"-D{flag}" for flag in build.compile_flags}
    assert theirs - ours <= {"-DTORCH_INDUCTOR_PRECOMPILE_HEADERS"}
    assert not [flag for flag in build.compile_flags if flag.startswith(("-I", "-L", "/"))]


@pytest.mark.parametrize("n", [0, 1, 1023, 1024, 1025, 70_000_000])
def test_grid_text_is_read(n):
    xs = {symbol("xnumel"): n, symbol("y_grid_div_"): 3}
    assert substitute(grid_expr("-((xnumel) // -(1024))"), xs) == -(n // -1024)
    assert substitute(grid_expr("max(xnumel + 2, 7*y_grid_div_)"), xs) == max(n + 2, 21)


def test_grid_text_of_an_unknown_form_is_refused():
    with pytest.raises(UnsupportedError, match="unknown form"):
        grid_expr("open('x')")
