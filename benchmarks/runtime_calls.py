"""Nanoseconds per call of what generated code calls most, beside PyTorch's own Python functions; one thread.

Each number is the least of several rounds, with the time of an empty function taken off.
"""

import argparse
import json
import time

import torch

from kernelscope.runtime import host
from kernelscope.runtime.cpp_build import CppSource, start_build

ROUNDS, CALLS = 15, 10_000
KERNEL = """#include <cstdint>
extern "C" void kernel(const float* in_ptr0, float* out_ptr0, const int64_t ks0)
{ for (int64_t i = 0; i < ks0; ++i) out_ptr0[i] = in_ptr0[i] + 1; }
"""


def least(call):
    """The least time of one call over several rounds."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter_ns()
        for _ in range(CALLS):
            call()
        times.append((time.perf_counter_ns() - start) / CALLS)
    return min(times)


def calls():
    """What is measured, by name."""
    x, y, out, bias = torch.randn(8, 8), torch.randn(8, 8), torch.empty(8, 8), torch.randn(8)
    flags = ("-std=c++17", "-O2", "-fPIC")
    source = CppSource("add_one", KERNEL, "kernel", ("const float*", "float*", "const int64_t"))
    kernel = start_build([source], isa="", compile_flags=flags, link_flags=()).load().add_one
    mm, addmm = host.operator("aten.mm.out"), host.operator("aten.addmm.out")
    bmm = host.operator("aten.bmm.out")
    batch, batch_out = x[None], torch.empty(1, 8, 8)
    specs = tuple((index, f"x{index}", torch.float32, "cpu", (8, 8), (8, 1)) for index in range(51))
    check, inputs = host.input_checker(51, specs), [x] * 51
    return {
        "kernel of 64 elements": lambda: kernel(x, out, 64),
        "torch.mm 8x8": lambda: torch.mm(x, y, out=out),
        "our mm 8x8": lambda: mm(x, y, out=out),
        "torch.addmm 8x8": lambda: torch.addmm(bias, x, y, out=out),
        "our addmm 8x8": lambda: addmm(bias, x, y, out=out),
        "torch.bmm 8x8": lambda: torch.bmm(batch, batch, out=batch_out),
        "our bmm 8x8": lambda: bmm(batch, batch, out=batch_out),
        "empty_strided_cpu": lambda: host.empty_strided_cpu((8, 8), (8, 1), torch.float32),
        "reinterpret_tensor": lambda: host.reinterpret_tensor(x, (64,), (1,), 0),
        "check of 51 inputs": lambda: check(inputs),
        "the same in Python": lambda: host.check_inputs(inputs, specs),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with torch.no_grad():
        empty = least(lambda: None)
        results = {name: least(call) - empty for name, call in calls().items()}
    if options.json:
        print(json.dumps(results, indent=1))
        return
    for name, nanoseconds in results.items():
        print(f"{name:24}{nanoseconds:10.0f} ns")


if __name__ == "__main__":
    main()
