"""Rules over a program as a whole: its names, constants, kernels' choices, and who calls whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kernelscope.ir.dataflow import called_functions
from kernelscope.ir.kernels import MultiKernel
from kernelscope.ir.verify_subject import Breach, Context


def names_are_unique(context: Context) -> Iterator[Breach]:
    """Functions, kernels, constants, storages and symbols have names of their own."""
    program = context.program
    groups = {
        "function": Counter(function.name for function in program.all_functions()),
        "kernel": Counter(kernel.name for kernel in program.kernels()),
        "constant": Counter(constant.name for constant in program.constants),
        "storage": Counter(storage.key for storage in program.storages),
        "symbol": Counter(str(info.symbol) for info in program.symbols),
    }
    for kind, names in groups.items():
        for name, count in sorted(names.items()):
            if count > 1:
                yield Breach("names_are_unique", f"{kind} {name} is defined more than once")


def constants_have_storage(context: Context) -> Iterator[Breach]:
    """Each constant lies within a storage of the program."""
    sizes = {storage.key: storage.nbytes for storage in context.program.storages}
    for constant in context.program.constants:
        needed = constant.type.nbytes()
        if constant.storage not in sizes:
            yield Breach("constants_have_storage", f"constant {constant.name} has no storage {constant.storage}")
        elif isinstance(needed, int) and needed > sizes[constant.storage]:
            yield Breach("constants_have_storage", f"constant {constant.name} needs {needed} bytes of storage")


def kernel_choices_exist(context: Context) -> Iterator[Breach]:
    """A multi-kernel chooses among defined kernels that take the same kinds of operands."""
    for kernel in context.kernels.values():
        if not isinstance(kernel, MultiKernel):
            continue
        roles = set()
        for name in kernel.choices:
            choice = context.kernels.get(name)
            if choice is None or isinstance(choice, MultiKernel):
                yield Breach("kernel_choices_exist", f"choice {name} of kernel {kernel.name} is no single kernel")
            else:
                roles.add(tuple(param.role for param in choice.params))
        if not kernel.choices or len(roles) > 1:
            problem = "take different operands" if kernel.choices else "are none"
            yield Breach("kernel_choices_exist", f"the choices of kernel {kernel.name} {problem}")


def calls_do_not_recur(context: Context) -> Iterator[Breach]:
    """No function calls itself, directly or through others."""
    called = {
        name: {callee for line in function.lines for callee in called_functions(line)}
        for name, function in context.functions.items()
    }
    for name in called:
        seen: set[str] = set()
        waiting = [name]
        while waiting:
            onward = called.get(waiting.pop(), set()) - seen
            seen |= onward
            waiting.extend(onward)
        if name in seen:
            yield Breach("calls_do_not_recur", f"function {name} calls itself")
