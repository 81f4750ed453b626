"""The verifier: rules across lines that every program must keep (A5).

Each rule is a small function over one function of a program; it yields the breaches it finds. ``verify`` collects
all of them. Must not live here: what holds within one record (that is in ``__post_init__``), and repair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import sympy

from kernelscope.errors import VerifyError
from kernelscope.ir import lines as l
from kernelscope.ir.dataflow import (
    called_functions,
    defined_symbol,
    defines,
    ends,
    operand_names,
    reads,
    used_symbols,
    writes,
)
from kernelscope.ir.kernels import Kernel, MultiKernel, ParamRole
from kernelscope.ir.program import Function, Program, ScalarInput, TensorInput
from kernelscope.ir.storage import Storages
from kernelscope.ir.text import print_line
from kernelscope.ir.values import BufferRef, ConstantRef, ListValue, TensorType, TupleValue, View

_CONTEXT = 3
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Breach:
    """One breach of a rule, at line ``index`` of ``function`` (None: of the program as a whole)."""

    rule: str
    message: str
    function: Function | None = None
    index: int | None = None


@dataclass(slots=True)
class _Context:
    """What rules need to know of the whole program."""

    program: Program
    kernels: dict[str, Kernel] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    constants: frozenset[str] = frozenset()


def verify(program: Program) -> None:
    """Checks a program against all rules.

    Raises:
        VerifyError: some rule is broken; its text lists every breach with the lines around it.
    """
    context = _Context(
        program=program,
        kernels={kernel.name: kernel for kernel in program.kernels()},
        functions={function.name: function for function in program.all_functions()},
        constants=frozenset(constant.name for constant in program.constants),
    )
    breaches = [breach for rule in _PROGRAM_RULES for breach in rule(context)]
    for function in program.all_functions():
        for function_rule in _FUNCTION_RULES:
            breaches.extend(function_rule(function, context))
    if breaches:
        raise VerifyError(
            f"program {program.name} breaks {len(breaches)} rule{'s' if len(breaches) > 1 else ''} of the IR",
            where="\n".join(_report(breach) for breach in breaches[:_SHOWN]),
            hint="a pass or a front end made a wrong program: report it with the program's text",
        )


def _report(breach: Breach) -> str:
    text = f"[{breach.rule}] {breach.message}"
    if breach.function is None or breach.index is None:
        return text
    lines = breach.function.lines
    shown = range(max(0, breach.index - _CONTEXT), min(len(lines), breach.index + _CONTEXT + 1))
    around = [f"  {'>' if at == breach.index else ' '} {at:4d}  {print_line(lines[at])}" for at in shown]
    return "\n".join([f"{text} (function {breach.function.name}, line {breach.index})", *around])


# --- rules over a program --------------------------------------------------------------------------------------


def names_are_unique(context: _Context) -> Iterator[Breach]:
    """Functions, kernels, constants and storages have names of their own."""
    program = context.program
    groups = {
        "function": [function.name for function in program.all_functions()],
        "kernel": [kernel.name for kernel in program.kernels()],
        "constant": [constant.name for constant in program.constants],
        "storage": [storage.key for storage in program.storages],
    }
    for kind, names in groups.items():
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield Breach("names_are_unique", f"{kind} {name} is defined more than once")


def constants_have_storage(context: _Context) -> Iterator[Breach]:
    """Each constant lies within a storage of the program."""
    sizes = {storage.key: storage.nbytes for storage in context.program.storages}
    for constant in context.program.constants:
        needed = constant.type.nbytes()
        if constant.storage not in sizes:
            yield Breach("constants_have_storage", f"constant {constant.name} has no storage {constant.storage}")
        elif isinstance(needed, int) and needed > sizes[constant.storage]:
            yield Breach("constants_have_storage", f"constant {constant.name} needs {needed} bytes of storage")


def calls_do_not_recur(context: _Context) -> Iterator[Breach]:
    """No function calls itself, directly or through others."""
    called = {
        name: {callee for line in function.lines for callee in called_functions(line)}
        for name, function in context.functions.items()
    }

    def reaches(start: str, goal: str, seen: set[str]) -> bool:
        onward = called.get(start, set()) - seen
        return goal in onward or any(reaches(callee, goal, seen | onward) for callee in onward)

    for name in called:
        if reaches(name, name, set()):
            yield Breach("calls_do_not_recur", f"function {name} calls itself")


# --- rules over a function -------------------------------------------------------------------------------------


def defined_before_use(function: Function, context: _Context) -> Iterator[Breach]:
    """A name is defined, once, before it is used, and not used after it ended."""
    known = {entry.name for entry in function.inputs} | context.constants
    over: dict[str, int] = {}
    for index, line in enumerate(function.lines):
        for name in dict.fromkeys((*reads(line), *writes(line), *ends(line))):
            if name in over:
                yield Breach("not_used_after_free", f"{name} ended at line {over[name]}", function, index)
            elif name not in known:
                yield Breach("defined_before_use", f"{name} is not defined", function, index)
        for name in ends(line):
            over[name] = index
        for name in defines(line):
            if name in known:
                yield Breach("defined_once", f"{name} is defined already", function, index)
            known.add(name)


def symbols_before_use(function: Function, context: _Context) -> Iterator[Breach]:
    """A symbol has a value before it is used."""
    known: set[sympy.Symbol] = set()
    for index, line in enumerate(function.lines):
        for sym in sorted(used_symbols(line) - known, key=str):
            yield Breach("symbols_before_use", f"symbol {sym} has no value", function, index)
            known.add(sym)
        own = defined_symbol(line)
        if own is not None:
            known.add(own)


def returns_once(function: Function, context: _Context) -> Iterator[Breach]:
    """The last line, and no other, returns."""
    returning = [index for index, line in enumerate(function.lines) if isinstance(line, l.ReturnLine)]
    if returning != [len(function.lines) - 1]:
        index = returning[0] if returning else None
        yield Breach("returns_once", f"function {function.name} must end in its only return", function, index)


def scopes_balance(function: Function, context: _Context) -> Iterator[Breach]:
    """Device and stream scopes are closed in the reverse order of their opening."""
    pairs = {l.ExitDeviceLine: l.EnterDeviceLine, l.ExitStreamLine: l.EnterStreamLine}
    open_scopes: list[type[l.Line]] = []
    for index, line in enumerate(function.lines):
        if isinstance(line, (l.EnterDeviceLine, l.EnterStreamLine)):
            open_scopes.append(type(line))
        elif type(line) in pairs and (not open_scopes or open_scopes.pop() is not pairs[type(line)]):
            yield Breach("scopes_balance", "a scope is closed that is not the innermost", function, index)
    if open_scopes:
        yield Breach("scopes_balance", "a scope is never closed", function, len(function.lines) - 1)


def kernels_before_call(function: Function, context: _Context) -> Iterator[Breach]:
    """A kernel is defined before its call, and called with one operand of the right kind per parameter."""
    defined = {
        line.kernel.name
        for other in context.program.functions
        if other is not function
        for line in other.lines
        if isinstance(line, l.KernelDefinitionLine)
    }
    if function is not context.program.main:
        defined.update(context.kernels)
    for index, line in enumerate(function.lines):
        if isinstance(line, l.KernelDefinitionLine):
            defined.add(line.kernel.name)
        elif isinstance(line, l.KernelCallLine):
            if line.kernel not in defined:
                yield Breach("kernels_before_call", f"kernel {line.kernel} is not defined", function, index)
            else:
                yield from _call_matches(line, context, function, index)


def _roles(kernel: Kernel, context: _Context) -> tuple[ParamRole, ...]:
    if isinstance(kernel, MultiKernel):
        return _roles(context.kernels[kernel.choices[0]], context)
    return tuple(param.role for param in kernel.params)


def _call_matches(line: l.KernelCallLine, context: _Context, function: Function, index: int) -> Iterator[Breach]:
    roles = _roles(context.kernels[line.kernel], context)
    if len(roles) != len(line.args):
        message = f"kernel {line.kernel} takes {len(roles)} operands, got {len(line.args)}"
        yield Breach("kernel_operands", message, function, index)
        return
    for position, (role, arg) in enumerate(zip(roles, line.args, strict=True)):
        tensor = isinstance(arg, (BufferRef, ConstantRef, View))
        if tensor != (role != "scalar"):
            message = f"operand {position} of kernel {line.kernel} is {'a' if tensor else 'no'} tensor"
            yield Breach("kernel_operands", message, function, index)
    for label, given, wanted in (("reads", line.reads, ("in", "inout")), ("writes", line.writes, ("out", "inout"))):
        pairs = zip(roles, line.args, strict=True)
        names = {name for role, arg in pairs if role in wanted for name in operand_names(arg)}
        if names != set(given):
            message = f"{label} {sorted(given)} of kernel {line.kernel} should be {sorted(names)}"
            yield Breach("kernel_effects", message, function, index)


def packs_and_tensors(function: Function, context: _Context) -> Iterator[Breach]:
    """A pack is only taken apart; a tensor is never taken apart by index."""
    tensors = {entry.name for entry in function.inputs if isinstance(entry, TensorInput)} | context.constants
    packs: set[str] = set()
    for index, line in enumerate(function.lines):
        touched = dict.fromkeys((*reads(line), *writes(line)))
        if isinstance(line, l.MultiOutputLine):
            if line.source in tensors and line.path:
                yield Breach("packs_and_tensors", f"tensor {line.source} is taken apart", function, index)
        elif not isinstance(line, (l.UnbackedSymbolDefsLine, l.ReturnLine, l.AssertSizeStrideLine)):
            for name in touched:
                if name in packs:
                    yield Breach("packs_and_tensors", f"{name} is a pack, not a tensor", function, index)
        for name in defines(line):
            (tensors if isinstance(getattr(line, "type", None), TensorType) else packs).add(name)
    return


def storage_has_one_owner(function: Function, context: _Context) -> Iterator[Breach]:
    """A storage is taken over only when nothing alive uses it, and only if it may be."""
    storages = Storages.of(function, context.constants)
    for index, line in enumerate(function.lines):
        if isinstance(line, l.ReuseLine) and line.old in storages:
            root = storages.root(line.old)
            if root in context.constants:
                yield Breach("storage_has_one_owner", f"{line.old} is a constant", function, index)
            elif root in storages.borrowed:
                yield Breach("storage_has_one_owner", f"{line.old} belongs to the caller", function, index)
            sharing = storages.alive_on(root) - {line.old}
            if sharing:
                others = ", ".join(sorted(sharing))
                yield Breach("storage_has_one_owner", f"{others} still use(s) {line.old}'s storage", function, index)
            if not line.delete_old:
                yield Breach("storage_has_one_owner", f"{line.old} stays alive beside {line.new}", function, index)
        storages.step(line)


def sizes_fit(function: Function, context: _Context) -> Iterator[Breach]:
    """A reusing tensor and a view fit the storage they are laid over (where sizes are static)."""
    storages = Storages.of(function, context.constants)
    storages.sizes.update({constant.name: constant.type.nbytes() for constant in context.program.constants})
    for index, line in enumerate(function.lines):
        if isinstance(line, l.ReuseLine):
            yield from _reuse_fits(line, storages, function, index)
        for view in _views(line):
            needed = _view_bytes(view, storages)
            have = storages.bytes_of(view.base.name)
            if needed is not None and isinstance(have, int) and needed > have:
                message = f"a view of {view.base.name} needs {needed} bytes of {have}"
                yield Breach("sizes_fit", message, function, index)
        storages.step(line)


def _reuse_fits(line: l.ReuseLine, storages: Storages, function: Function, index: int) -> Iterator[Breach]:
    needed, have = line.type.nbytes(), storages.bytes_of(line.old)
    if isinstance(needed, int) and isinstance(have, int) and needed > have:
        yield Breach("sizes_fit", f"{line.new} needs {needed} bytes, {line.old} has {have}", function, index)
    old = storages.types.get(line.old)
    if old is not None and (old.device, old.dtype) != (line.type.device, line.type.dtype):
        yield Breach("sizes_fit", f"{line.new} and {line.old} differ in dtype or device", function, index)


def _views(line: l.WrapperLine) -> Iterator[View]:
    for name in getattr(type(line), "__slots__", ()):
        yield from _views_in(getattr(line, name))


def _views_in(value: object) -> Iterator[View]:
    if isinstance(value, View):
        yield value
    elif isinstance(value, (ListValue, TupleValue)):
        yield from _views_in(value.items)
    elif isinstance(value, tuple):
        for item in value:
            yield from _views_in(item)


def _view_bytes(view: View, storages: Storages) -> int | None:
    base = storages.types.get(view.base.name)
    dims = (*view.size, *view.stride, view.offset)
    if base is None or base.offset != 0 or not all(isinstance(dim, int) for dim in dims):
        return None
    layout = TensorType(dtype=base.dtype, device=base.device, size=view.size, stride=view.stride, offset=view.offset)
    needed = layout.nbytes()
    return needed if isinstance(needed, int) else None


def calls_match(function: Function, context: _Context) -> Iterator[Breach]:
    """A called function exists and gets as many operands as it has inputs."""
    for index, line in enumerate(function.lines):
        operands = _operand_count(line)
        for name in called_functions(line):
            callee = context.functions.get(name)
            if callee is None:
                yield Breach("calls_match", f"there is no function {name}", function, index)
            elif operands != len(callee.inputs):
                message = f"function {name} takes {len(callee.inputs)} operands, got {operands}"
                yield Breach("calls_match", message, function, index)


def _operand_count(line: l.WrapperLine) -> int:
    if isinstance(line, l.WhileLoopLine):
        return len(line.carried) + len(line.additional)
    return len(line.operands) if isinstance(line, (l.InvokeSubgraphLine, l.ConditionalLine)) else 0


def collectives_are_awaited(function: Function, context: _Context) -> Iterator[Breach]:
    """What a collective works on is not touched before it was waited for."""
    running: dict[str, int] = {}
    for index, line in enumerate(function.lines):
        if isinstance(line, l.CollectiveLine):
            operands = set(operand_names(line.args))
            if "wait_tensor" in line.op:
                for name in operands:
                    running.pop(name, None)
                continue
            running.update(dict.fromkeys(line.mutates, index))
            if line.result is not None and line.type is not None:
                running[line.result] = index
            continue
        for name in dict.fromkeys((*reads(line), *writes(line))):
            if name in running and not isinstance(line, (l.MultiOutputLine, l.ReturnLine)):
                message = f"{name} is in a collective since line {running[name]}"
                yield Breach("collectives_are_awaited", message, function, index)


def bindings_name_inputs(function: Function, context: _Context) -> Iterator[Breach]:
    """A symbol is bound to an input that exists and has that dimension."""
    inputs = {entry.name: entry for entry in function.inputs}
    for index, line in enumerate(function.lines):
        if not isinstance(line, l.BindSymbolLine):
            continue
        entry = inputs.get(line.source)
        scalar = line.attribute == "value"
        if scalar and not isinstance(entry, ScalarInput):
            yield Breach("bindings_name_inputs", f"{line.source} is no scalar input", function, index)
        elif not scalar and not (isinstance(entry, TensorInput) and line.dim < len(entry.type.size)):
            yield Breach("bindings_name_inputs", f"{line.source} has no dimension {line.dim}", function, index)


_PROGRAM_RULES: tuple[Callable[[_Context], Iterator[Breach]], ...] = (
    names_are_unique,
    constants_have_storage,
    calls_do_not_recur,
)
_FUNCTION_RULES: tuple[Callable[[Function, _Context], Iterator[Breach]], ...] = (
    defined_before_use,
    symbols_before_use,
    returns_once,
    scopes_balance,
    kernels_before_call,
    packs_and_tensors,
    storage_has_one_owner,
    sizes_fit,
    calls_match,
    collectives_are_awaited,
    bindings_name_inputs,
)
