"""The vector instruction set, against PyTorch's own answer and for CPUs that are not here."""

from __future__ import annotations

import platform
from unittest import mock

import pytest

from kernelscope.errors import BuildError
from kernelscope.runtime import isa

AVX2 = {"avx2", "fma", "f16c"}
AVX512 = AVX2 | {"avx512f", "avx512vl", "avx512bw", "avx512dq"}

x86_only = pytest.mark.skipif(platform.machine() != "x86_64", reason="flags of x86-64")


@pytest.mark.parametrize("capability", [None, "default", "avx2", "avx512"])
def test_it_is_what_pytorch_would_choose(capability, monkeypatch):
    from torch._inductor import cpu_vec_isa

    if capability is None:
        monkeypatch.delenv("ATEN_CPU_CAPABILITY", raising=False)
    else:
        monkeypatch.setenv("ATEN_CPU_CAPABILITY", capability)
    cpu_vec_isa.valid_vec_isa_list.cache_clear()
    with mock.patch.object(cpu_vec_isa.VecISA, "check_build", return_value=True):
        assert isa.best() == str(cpu_vec_isa.pick_vec_isa())
        assert isa.supported() == tuple(str(entry) for entry in cpu_vec_isa.valid_vec_isa_list())
    cpu_vec_isa.valid_vec_isa_list.cache_clear()


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (AVX512 | {"avx512_vnni", "amx_tile"}, ("avx512 avx512_vnni amx_tile", "avx512 avx512_vnni", "avx512", "avx2")),
        (AVX512 | {"avx512_vnni"}, ("avx512 avx512_vnni", "avx512", "avx2")),
        (AVX512, ("avx512", "avx2")),
        (AVX2, ("avx2",)),
        ({"sse2"}, ()),
    ],
)
def test_names_for_flags(flags, names):
    assert isa.x86_names(frozenset(flags)) == names


def test_other_machines():
    for machine, name in (("aarch64", "asimd"), ("ppc64le", "vsx"), ("s390x", "zvector")):
        with mock.patch.object(platform, "machine", return_value=machine):
            assert isa.best() == name
    with mock.patch.object(platform, "machine", return_value="riscv64"):
        assert isa.best() == isa.NONE
        with pytest.raises(BuildError, match="lacks avx2"):
            isa.require("avx2", ())


@x86_only
def test_kernels_for_a_larger_cpu_are_refused():
    with mock.patch.object(isa, "cpu_flags", return_value=frozenset(AVX512)):
        isa.require("avx512", ("-mavx512f", "-mfma", "-march=native"))
        isa.require(isa.NONE, ())
        with pytest.raises(BuildError, match=r"written for avx512 avx512_vnni; this CPU lacks avx512_vnni, avx512bf16"):
            isa.require("avx512 avx512_vnni", ("-mavx512bf16",))
        with pytest.raises(BuildError, match="lacks asimd"):
            isa.require("asimd", ())
    with mock.patch.object(isa, "cpu_flags", return_value=frozenset(AVX512 | {"amx_tile", "avx512_bf16"})):
        isa.require("avx512", ("-mavx512bf16", "-mamx-tile"))
