"""Executes the lines of a program one by one: no code is generated.

``Machine.steps`` stops before every line, which is what stepping and checking build on; ``Machine.call`` runs
through.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from typing_extensions import assert_never

from kernelscope.ir import lines as l
from kernelscope.ir.program import Function, Program
from kernelscope.ir.values import SymExpr
from kernelscope.runtime import host
from kernelscope.runtime.switch import Probe
from kernelscope.targets.inputs import input_specs
from kernelscope.targets.interpreter.evaluate import number, shape, value, values


@dataclasses.dataclass(slots=True, kw_only=True)
class Frame:
    """One running function: the values of its names, and of its symbols by name."""

    function: Function
    env: dict[str, Any]
    scopes: list[Any] = dataclasses.field(default_factory=list)
    returned: tuple[Any, ...] = ()


def unobserved(number: int, values: tuple[Any, ...]) -> None:
    """The observer of a program that nobody observes."""


class Machine:
    """Runs a program.

    Args:
        program: The program.
        kernels: A callable for each kernel by name.
        constants: The program's constants by name.
        probe: Gets each probe's number and values.
    """

    def __init__(
        self,
        program: Program,
        kernels: Mapping[str, Callable[..., Any]],
        constants: Mapping[str, Any],
        probe: Probe = unobserved,
    ) -> None:
        self.program = program
        self.kernels = kernels
        self.constants = constants
        self.probe = probe
        self.functions = {function.name: function for function in program.all_functions()}
        self.check = host.input_checker(len(program.main.inputs), input_specs(program.main))

    def call(self, args: list[Any]) -> tuple[Any, ...]:
        """Runs ``main`` on the flat list of its inputs, which is emptied."""
        return self.run(self.program.main, args)

    def run(self, function: Function, args: list[Any]) -> tuple[Any, ...]:
        """Runs one function to its end."""
        frame = self.enter(function, args)
        for line in function.lines:
            self.execute(line, frame)
        return frame.returned

    def steps(self, args: list[Any]) -> Iterator[tuple[int, l.WrapperLine, Frame]]:
        """Runs ``main``, stopping before each line: index, line and frame; the caller may change the frame."""
        frame = self.enter(self.program.main, args)
        for index, line in enumerate(self.program.main.lines):
            yield index, line, frame
            self.execute(line, frame)

    def enter(self, function: Function, args: list[Any]) -> Frame:
        """The frame of a function about to run.

        Raises:
            CallError: an input does not fit its type.
        """
        if function is self.program.main:
            self.check(args)
        env = dict(self.constants)
        env.update((entry.name, arg) for entry, arg in zip(function.inputs, args, strict=True))
        args.clear()
        return Frame(function=function, env=env)

    # --- one case per line kind ---

    def execute(self, line: l.WrapperLine, frame: Frame) -> None:
        """Executes one line."""
        env = frame.env
        match line:
            case l.AllocateLine():
                env[line.name] = _allocate(line, env)
            case l.FreeIfNotReusedLine() | l.FreeLine():
                del env[line.name]
            case l.ReuseLine():
                self._reuse(line, env)
            case l.NullLine() | l.KernelDefinitionLine() | l.CommentLine():
                return
            case l.ReinterpretLine():
                env[line.name] = value(line.value, env)
            case l.KernelCallLine():
                self.kernels[line.kernel](*values(line.args, env))
            case l.ExternKernelLine():
                _operator_call(line, env, out=value(line.out, env))
            case l.ExternKernelAllocLine() | l.CollectiveLine():
                result = _operator_call(line, env)
                if line.result is not None:
                    env[line.result] = result
            case l.ExternKernelMultiOutLine():
                _operator_call(line, env, **{name: value(out, env) for name, out in line.outs})
            case l.MultiOutputLine():
                env[line.name] = _element(env[line.source], line.path)
            case l.ScatterFallbackLine():
                operands = values((line.target, line.index, line.src), env)
                call = host.operator(line.op)
                call(operands[0], line.dim, *operands[1:], **_keywords(line.kwargs, env))
            case l.IndexPutFallbackLine():
                target, values_ = value(line.target, env), value(line.values, env)
                host.operator(line.op)(target, values(line.indices, env), values_, line.accumulate)
            case l.CopyLine():
                value(line.dst, env).copy_(value(line.src, env), line.non_blocking)
            case l.ProbeLine():
                self.probe(line.number, tuple(values(line.operands, env)))
            case l.ReturnLine():
                frame.returned = tuple(values(line.values, env))
            case _:
                self._execute_symbol(line, frame)

    def _execute_symbol(self, line: Any, frame: Frame) -> None:
        env = frame.env
        match line:
            case l.BindSymbolLine():
                source = env[line.source]
                env[str(line.symbol)] = (
                    source if line.attribute == "value" else getattr(source, line.attribute)(line.dim)
                )
            case l.SymbolicCallArgLine():
                env[str(line.symbol)] = number(line.expr, env)
            case l.DynamicScalarLine():
                env[str(line.symbol)] = _item(line, value(line.source, env).item())
            case l.DynamicSelectLine():
                index = host.select_index(number(line.index, env), number(line.size, env), clamp=line.clamp)
                env[str(line.symbol)] = number(line.base_offset, env) + number(line.base_stride, env) * index
            case l.DynamicSliceLine():
                bounds = shape((line.start, line.end, line.step, line.size), env)
                env[str(line.symbol)] = host.slice_length(*bounds)
            case l.UnbackedSymbolDefsLine():
                env[str(line.symbol)] = _follow(env[line.source], line.path)
            case l.AssertSizeStrideLine():
                host.assert_size_stride(env[line.name], shape(line.size, env), shape(line.stride, env), line.label)
            case l.AssertAlignmentLine():
                host.assert_alignment(env[line.name], line.alignment_bytes, line.label)
            case l.AssertScalarLine():
                if not number(line.condition, env):
                    raise RuntimeError(line.message)
            case l.AlignInputLine():
                env[line.name] = host.align_input(env[line.name])
            case _:
                self._execute_control(line, frame)

    def _execute_control(self, line: Any, frame: Frame) -> None:
        env = frame.env
        match line:
            case l.EnterDeviceLine():
                frame.scopes.append(host.enter_device(line.device, line.num_streams))
            case l.ExitDeviceLine():
                host.exit_device(frame.scopes.pop())
            case l.EnterStreamLine():
                host.enter_stream(frame.scopes[-1], line.stream)
            case l.ExitStreamLine():
                host.exit_stream(frame.scopes[-1])
            case l.InvokeSubgraphLine():
                env[line.result] = self.run(self.functions[line.function], values(line.operands, env))
            case l.ConditionalLine():
                test = value(line.predicate, env)
                truth = test if isinstance(line.predicate, SymExpr) else test.item()
                chosen = line.true_function if truth else line.false_function
                env[line.result] = self.run(self.functions[chosen], values(line.operands, env))
            case l.WhileLoopLine():
                env[line.result] = host.while_loop(
                    lambda args: self.run(self.functions[line.cond_function], args),
                    lambda args: self.run(self.functions[line.body_function], args),
                    values(line.carried, env),
                    values(line.additional, env),
                    stack=line.stack_outputs,
                )
            case _:
                assert_never(line)

    def _reuse(self, line: l.ReuseLine, env: dict[str, Any]) -> None:
        old = env[line.old]
        size, stride = shape(line.type.size, env), shape(line.type.stride, env)
        same = tuple(old.shape) == size and old.stride() == stride
        env[line.new] = old if same else host.reinterpret_tensor(old, size, stride, 0)
        if line.delete_old:
            del env[line.old]


def _allocate(line: l.AllocateLine, env: Mapping[str, Any]) -> torch.Tensor:
    layout = line.type
    size, stride = shape(layout.size, env), shape(layout.stride, env)
    allocated = size if line.allocation_size is None else shape(line.allocation_size, env)
    tensor = torch.empty_strided(allocated, stride, dtype=layout.dtype, device=layout.device, pin_memory=line.pinned)
    return tensor if allocated == size else host.reinterpret_tensor(tensor, size, stride, 0)


def _operator_call(line: Any, env: Mapping[str, Any], **outs: Any) -> Any:
    return host.operator(line.op)(*values(line.args, env), **_keywords(line.kwargs, env), **outs)


def _keywords(kwargs: l.Kwargs, env: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value(operand, env) for name, operand in kwargs}


def _element(pack: Any, path: tuple[int | str, ...]) -> Any:
    for step in path:
        pack = pack[step]
    return pack


def _item(line: l.DynamicScalarLine, item: Any) -> Any:
    if line.convert == "bool":
        return 1 if item else 0
    return host.divide_exactly(item, line.divisor) if line.convert == "divide" else item


def _follow(found: Any, path: tuple[l.PathStep, ...]) -> Any:
    for kind, argument in path:
        if kind == "index":
            found = found[argument]
        elif kind == "floordiv":
            found = found // argument
        elif kind in ("size", "stride"):
            found = getattr(found, kind)(argument)
        else:
            attribute = getattr(found, str(argument) if kind in ("key", "call") else kind)
            found = attribute if kind == "key" else attribute()
    return found
