"""Grouping kernels into translation units."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from kernelscope.runtime import cpp_units, error_flag
from kernelscope.runtime.cpp_units import CppSource
from tests.unit.runtime.kernels import DEFINES, DOUBLE, HALVE, THROWS, pointwise, source


def names(groups):
    return [[source.name for source in group] for group in groups]


def test_kernels_with_definitions_stand_alone():
    assert names(cpp_units.groups([DOUBLE, DEFINES, HALVE], most=1)) == [["halve", "twice"], ["defines"]]


@pytest.mark.parametrize("line", ["#define A", "  #  if A", "#ifdef A", "#undef A", "#pragma once", "#pragma GCC pop"])
def test_directives_that_reach_further_than_a_namespace(line):
    assert len(cpp_units.groups([source("a", "", line), DOUBLE], most=8)) == 2


@pytest.mark.parametrize("line", ["#pragma omp parallel for", "#pragma GCC ivdep", "#pragma unroll 4", "// #define A"])
def test_directives_that_do_not(line):
    assert len(cpp_units.groups([source("a", "", line), DOUBLE], most=8)) == 1


def test_more_units_only_where_they_pay():
    large = [source(f"k{index}", "//" + "x" * 60_000) for index in range(4)]
    assert len(cpp_units.groups([DOUBLE, HALVE, THROWS], most=64)) == 1
    assert len(cpp_units.groups(large, most=2)) == 2
    assert len(cpp_units.groups(large, most=1)) == 1
    assert len(cpp_units.groups(large, most=64)) == 4
    assert cpp_units.groups([], most=2) == []


def test_groups_are_balanced_and_do_not_depend_on_order():
    kernels = [source(f"k{index}", "//" + "x" * 10_000 * index) for index in range(1, 9)]
    groups = cpp_units.groups(kernels, most=2)
    sizes = [sum(len(kernel.text) for kernel in group) for group in groups]
    assert max(sizes) < 1.2 * min(sizes)
    assert groups == cpp_units.groups(kernels[::-1], most=2)


def test_only_the_entry_is_renamed():
    text = (
        "#include <cstdint>\n"
        "template <bool a> inline void kernel_micro(float* x) {}\n"
        "struct S { void kernel(int) {} };\n"
        "inline void other(S s) { s.kernel(1); }\n"
        'extern "C" __attribute__((visibility("default")))\n'
        "void kernel(float* in_out_ptr0) { kernel_micro<true>(in_out_ptr0); }\n"
    )
    unit = cpp_units.unit([CppSource("k", text, "kernel", ("float*",))])
    assert unit.count("ks_k") == 1
    assert "void ks_k(float* in_out_ptr0) { kernel_micro<true>(in_out_ptr0); }" in unit


def test_includes_come_first_and_once():
    unit = cpp_units.unit([DOUBLE, HALVE])
    assert unit.count("#include <cmath>") == 1
    assert unit.index("#include <stdexcept>") < unit.index("namespace kernelscope_twice")


def test_conditions_around_includes_stay_around_them():
    text = '#define A 1\n#if A\n#include <cmath>\n#endif\n#if A\nint x;\n#endif\nextern "C" void kernel() {}\n'
    unit = cpp_units.unit([CppSource("k", text, "kernel", ())])
    head, body = unit.split("namespace kernelscope_k {\n")
    assert head.strip().splitlines() == ["#define A 1", "#if A", "#include <cmath>", "#endif"]
    assert body.startswith("#if A\nint x;\n#endif\n")


def test_parameters_have_the_names_of_the_text():
    assert cpp_units.parameter_names(DOUBLE) == ("in_ptr0", "out_ptr0", "ks0")
    assert cpp_units.parameter_names(CppSource("k", "no definition", "kernel", ("float*",))) == ("float*",)


def test_identity_sees_texts_and_types_but_not_grouping():
    first, second = pointwise("a", "1"), pointwise("a", "2")
    assert list(cpp_units.identity([first])) != list(cpp_units.identity([second]))
    wider = CppSource("a", first.text, "kernel", ("const float*", "float*", "double"))
    assert list(cpp_units.identity([first])) != list(cpp_units.identity([wider]))


FLAGGED = """
    std::atomic<int> inductor_cpu_integer_div_error{0};
    inductor_cpu_integer_div_error_flag = &inductor_cpu_integer_div_error;
    out_ptr0[0] = %s;
    inductor_cpu_integer_div_error_flag = nullptr;
    inductor_cpu_throw_if_integer_div_error(inductor_cpu_integer_div_error);"""


def test_the_flag_of_integer_divisions_stays_only_where_something_divides(monkeypatch):
    monkeypatch.setattr(error_flag, "_setters", lambda: ("mod",))
    divides, does_not = source("divides", FLAGGED % "mod(ks0, 3)"), source("does_not", FLAGGED % "modern(ks0)")
    unit = cpp_units.unit([divides, does_not])
    kept, gone = unit.split("namespace kernelscope_does_not")
    assert kept.count("inductor_cpu_") == 6
    assert "integer_div_error" not in gone
    assert "out_ptr0[0] = modern(ks0);" in gone
    binding = cpp_units.binding([divides, does_not, DOUBLE], "m")
    assert "(divides, ks_divides, true," in binding
    assert "(does_not, ks_does_not, false," in binding
    assert "(twice, ks_twice, false," in binding


def test_the_functions_that_set_the_flag_are_found_in_pytorchs_header():
    setters = error_flag._setters()
    assert "inductor_cpu_note_integer_div_by_zero" in setters
    if "remainder_integral" in (Path(torch.__file__).parent / "include/torch/csrc/inductor/cpp_prefix.h").read_text():
        assert setters == (
            "floor_divide_integral",
            "inductor_cpu_note_integer_div_by_zero",
            "mod",
            "remainder_integral",
        )
