"""Small kernels written by hand, for tests of the builder; their text has the form that PyTorch's compiler writes."""

from __future__ import annotations

from kernelscope.runtime.cpp_build import CppSource, start_build

FLAGS = ("-std=c++17", "-O1", "-fPIC")
CTYPES = ("const float*", "float*", "const int64_t")


def source(name, body, extra="", flavour="void"):
    """A kernel ``void kernel(const float* in_ptr0, float* out_ptr0, const int64_t ks0)`` with this body."""
    signature = "const float* in_ptr0, float* out_ptr0, const int64_t ks0"
    includes = f"#include <cmath>\n#include <cstdint>\n#include <stdexcept>\n{extra}\n"
    text = f'{includes}extern "C"  {flavour} kernel({signature})\n{{\n{body}\n}}\n'
    return CppSource(name, text, "kernel", CTYPES)


def pointwise(name, expression, extra=""):
    return source(name, f"for (int64_t i = 0; i < ks0; ++i) out_ptr0[i] = {expression};", extra)


HELPER = "inline float helper(float x) { return x %s 2; }"
DOUBLE = pointwise("twice", "helper(in_ptr0[i])", HELPER % "*")
HALVE = pointwise("halve", "helper(in_ptr0[i])", HELPER % "/")
THROWS = source("throws", 'throw std::runtime_error("divided by zero");')
DEFINES = source("defines", "out_ptr0[0] = helper(FACTOR);", "#define FACTOR 7\n" + HELPER % "*")
REDEFINES = source("redefines", "out_ptr0[0] = helper(FACTOR);", "#define FACTOR 8\n" + HELPER % "/")
BROKEN = source("broken", "this is no C++")


def build(*sources, flags=FLAGS, link_flags=()):
    return start_build(sources, isa="none", compile_flags=flags, link_flags=link_flags).load()
