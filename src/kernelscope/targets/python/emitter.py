"""Writes a program as a Python module (B2): one short method per line kind.

The module needs only ``torch`` and ``kernelscope.runtime.host``. Kernels and constants are put into its namespace
by the loader. Passes have decided everything; here it is only spelled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from typing_extensions import assert_never

from kernelscope.ir import lines as l
from kernelscope.ir.dataflow import defines
from kernelscope.ir.expr import python_expr
from kernelscope.ir.program import Function, Program, TensorInput
from kernelscope.ir.values import Scalar, SymExpr, TensorType, Value
from kernelscope.targets.python import header
from kernelscope.targets.python.literals import device, dims, dtype, identifier, operator_alias, tensor, value, values
from kernelscope.targets.writer import Writer


class PythonEmitter:
    """Writes one program; use ``emit_source``."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.out = Writer()
        self.last_comment = ""
        self.layouts: dict[str, tuple[object, object]] = {}

    def emit(self) -> Writer:
        """Writes the whole module."""
        header.write(self.out, self.program)
        for function in (*self.program.functions, self.program.main):
            self.function(function, "call" if function is self.program.main else identifier(function.name))
        return self.out

    def function(self, function: Function, name: str) -> None:
        """Writes one function of the program."""
        self.out.line("\n")
        self.out.line(f"def {name}(args):")
        self.last_comment = ""
        self.layouts = {
            entry.name: (entry.type.size, entry.type.stride)
            for entry in function.inputs
            if isinstance(entry, TensorInput)
        }
        with self.out.indent():
            self._unpack(function)
            for index, line in enumerate(function.lines):
                self.out.mark(function.name, index)
                self.line(line)
                self._note_layout(line)

    def _unpack(self, function: Function) -> None:
        if function is self.program.main and any(isinstance(entry, TensorInput) for entry in function.inputs):
            self.out.line("check_inputs(args)")
        names = [identifier(entry.name) for entry in function.inputs]
        if names:
            self.out.line(f"{', '.join(names)}{',' if len(names) == 1 else ''} = args")
        self.out.line("args.clear()")

    # --- one method per line kind ---

    def line(self, line: l.WrapperLine) -> None:
        """Writes one line of the program."""
        match line:
            case l.AllocateLine():
                self.out.line(f"{identifier(line.name)} = {self._allocation(line)}")
            case l.FreeIfNotReusedLine() | l.FreeLine():
                self.out.line(f"del {identifier(line.name)}")
            case l.ReuseLine():
                self._reuse(line)
            case l.NullLine() | l.KernelDefinitionLine():
                return
            case l.ReinterpretLine():
                self.out.line(f"{identifier(line.name)} = {tensor(line.value)}")
            case l.KernelCallLine():
                self._comment(line)
                self.out.line(f"{identifier(line.kernel)}({values(line.args)})")
            case l.ExternKernelLine():
                self._comment(line)
                self.out.line(self._call(line.op, line.args, (*_needed(line), ("out", line.out))))
            case l.ExternKernelAllocLine() | l.CollectiveLine():
                self._comment(line)
                result = "" if line.result is None else f"{identifier(line.result)} = "
                self.out.line(result + self._call(line.op, line.args, line.kwargs))
            case l.ExternKernelMultiOutLine():
                self._comment(line)
                self.out.line(self._call(line.op, line.args, (*line.kwargs, *line.outs)))
            case l.MultiOutputLine():
                path = "".join(f"[{step!r}]" for step in line.path)
                self.out.line(f"{identifier(line.name)} = {identifier(line.source)}{path}")
            case l.ScatterFallbackLine():
                self._comment(line)
                operands = f"{tensor(line.target)}, {line.dim}, {tensor(line.index)}, {value(line.src)}"
                self.out.line(f"{operator_alias(line.op)}({operands}{self._keywords(line.kwargs)})")
            case l.IndexPutFallbackLine():
                self._comment(line)
                operands = f"{tensor(line.target)}, [{values(line.indices)}], {tensor(line.values)}, {line.accumulate}"
                self.out.line(f"{operator_alias(line.op)}({operands})")
            case l.CopyLine():
                self._comment(line)
                self.out.line(f"{tensor(line.dst)}.copy_({tensor(line.src)}, {line.non_blocking})")
            case _:
                self._symbol_line(line)

    def _symbol_line(self, line: Any) -> None:
        match line:
            case l.BindSymbolLine():
                attribute = "" if line.attribute == "value" else f".{line.attribute}({line.dim})"
                self.out.line(f"{line.symbol} = {identifier(line.source)}{attribute}")
            case l.SymbolicCallArgLine():
                self.out.line(f"{line.symbol} = {python_expr(line.expr)}")
            case l.DynamicScalarLine():
                self._dynamic_scalar(line)
            case l.DynamicSelectLine():
                bounds = f"{python_expr(line.index)}, {python_expr(line.size)}, clamp={line.clamp}"
                stride = f"{python_expr(line.base_stride)} * select_index({bounds})"
                self.out.line(f"{line.symbol} = {python_expr(line.base_offset)} + {stride}")
            case l.DynamicSliceLine():
                bounds = ", ".join(python_expr(dim) for dim in (line.start, line.end, line.step, line.size))
                self.out.line(f"{line.symbol} = slice_length({bounds})")
            case l.UnbackedSymbolDefsLine():
                self.out.line(f"{line.symbol} = {self._followed(line)}")
            case l.AssertSizeStrideLine():
                layout = f"{dims(line.size)}, {dims(line.stride)}"
                self.out.line(f"assert_size_stride({identifier(line.name)}, {layout}, {line.label!r})")
            case l.AssertAlignmentLine():
                self.out.line(f"assert_alignment({identifier(line.name)}, {line.alignment_bytes}, {line.label!r})")
            case l.AssertScalarLine():
                self.out.line(f"if not ({python_expr(line.condition)}):")
                with self.out.indent():
                    self.out.line(f"raise RuntimeError({line.message!r})")
            case l.AlignInputLine():
                self.out.line(f"{identifier(line.name)} = align_input({identifier(line.name)})")
            case _:
                self._control_line(line)

    def _control_line(self, line: Any) -> None:
        match line:
            case l.EnterDeviceLine():
                self.out.line(f"device_scopes = enter_device({device(line.device)}, {line.num_streams})")
            case l.ExitDeviceLine():
                self.out.line("exit_device(device_scopes)")
            case l.EnterStreamLine():
                self.out.line(f"enter_stream(device_scopes, {line.stream})")
            case l.ExitStreamLine():
                self.out.line("exit_stream(device_scopes)")
            case l.InvokeSubgraphLine():
                self._comment(line)
                self.out.line(f"{identifier(line.result)} = {self._invoke(line.function, line.operands)}")
            case l.ConditionalLine():
                self._conditional(line)
            case l.WhileLoopLine():
                self._comment(line)
                functions = f"{identifier(line.cond_function)}, {identifier(line.body_function)}"
                operands = f"[{values(line.carried)}], [{values(line.additional)}], stack={line.stack_outputs}"
                self.out.line(f"{identifier(line.result)} = while_loop({functions}, {operands})")
            case l.CommentLine():
                self.out.comment(line.text)
            case l.ProbeLine():
                self._comment(line)
                alone = "," if len(line.operands) == 1 else ""
                self.out.line(f"probe({line.number}, ({values(line.operands)}{alone}))")
            case l.ReturnLine():
                inner = values(line.values)
                self.out.line(f"return ({inner},)" if line.values else "return ()")
            case _:
                assert_never(line)

    # --- parts ---

    def _comment(self, line: l.WrapperLine) -> None:
        """One comment per fused group: the model's line and the operators."""
        if line.origin is None:
            return
        where = line.origin.locations[-1] if line.origin.locations else None
        place = f"{where.file.rsplit('/', 1)[-1]}:{where.line}  {where.text}" if where else ""
        text = "  ".join(part for part in (place, f"[{', '.join(line.origin.ops)}]") if part)
        if text != self.last_comment:
            self.out.comment(text)
            self.last_comment = text

    def _allocation(self, line: l.AllocateLine) -> str:
        size = line.type.size if line.allocation_size is None else line.allocation_size
        text = self._empty(line.type, dims(size), pinned=line.pinned)
        if line.allocation_size is not None:
            return f"reinterpret_tensor({text}, {dims(line.type.size)}, {dims(line.type.stride)}, 0)"
        return text

    def _empty(self, layout: TensorType, size: str, *, pinned: bool) -> str:
        shape = f"{size}, {dims(layout.stride)}"
        if layout.device.type == "cpu" and not pinned:
            return f"empty_strided_cpu({shape}, {dtype(layout.dtype)})"
        place = f", dtype={dtype(layout.dtype)}, device={device(layout.device)}"
        return f"torch.empty_strided({shape}{place}{', pin_memory=True' if pinned else ''})"

    def _reuse(self, line: l.ReuseLine) -> None:
        old, new = identifier(line.old), identifier(line.new)
        if self.layouts.get(line.old) == (line.type.size, line.type.stride):
            source = old
        else:
            source = f"reinterpret_tensor({old}, {dims(line.type.size)}, {dims(line.type.stride)}, 0)"
        self.out.line(f"{new} = {source}{f'; del {old}' if line.delete_old else ''}  # reuse")

    def _note_layout(self, line: l.WrapperLine) -> None:
        layout = getattr(line, "type", None)
        if isinstance(layout, TensorType):
            self.layouts.update((name, (layout.size, layout.stride)) for name in defines(line))

    def _call(self, op: str, args: tuple[Value, ...], kwargs: l.Kwargs) -> str:
        return f"{operator_alias(op)}({values(args)}{self._keywords(kwargs, first=not args)})"

    def _keywords(self, kwargs: l.Kwargs, *, first: bool = False) -> str:
        text = ", ".join(f"{name}={value(operand)}" for name, operand in kwargs)
        return text if first or not text else f", {text}"

    def _dynamic_scalar(self, line: l.DynamicScalarLine) -> None:
        item = f"{tensor(line.source)}.item()"
        if line.convert == "bool":
            item = f"1 if {item} else 0"
        elif line.convert == "divide":
            item = f"divide_exactly({item}, {line.divisor})"
        self.out.line(f"{line.symbol} = {item}")

    def _followed(self, line: l.UnbackedSymbolDefsLine) -> str:
        text = identifier(line.source)
        for kind, argument in line.path:
            text = _STEPS[kind](text, argument)
        return text

    def _invoke(self, function: str, operands: tuple[Value, ...]) -> str:
        return f"{identifier(function)}([{values(operands)}])"

    def _conditional(self, line: l.ConditionalLine) -> None:
        self._comment(line)
        predicate = line.predicate
        test = python_expr(predicate.expr) if isinstance(predicate, SymExpr) else f"{tensor(predicate)}.item()"
        for keyword, function in ((f"if {test}:", line.true_function), ("else:", line.false_function)):
            self.out.line(keyword)
            with self.out.indent():
                self.out.line(f"{identifier(line.result)} = {self._invoke(function, line.operands)}")


def _needed(line: l.ExternKernelLine) -> l.Kwargs:
    """The keywords of a call without the factors of ``addmm`` that are one, which are the operator's defaults."""
    return tuple(
        (name, operand) for name, operand in line.kwargs if not (name in ("alpha", "beta") and operand == Scalar(1))
    )


_STEPS: dict[str, Callable[[str, Any], str]] = {
    "index": lambda text, index: f"{text}[{index}]",
    "key": lambda text, key: f"{text}.{key}",
    "size": lambda text, dim: f"{text}.size({dim})",
    "stride": lambda text, dim: f"{text}.stride({dim})",
    "storage_offset": lambda text, _: f"{text}.storage_offset()",
    "floordiv": lambda text, divisor: f"({text} // {divisor})",
    "call": lambda text, method: f"{text}.{method}()",
}


def emit_source(program: Program) -> Writer:
    """The program as Python source, with its source map."""
    return PythonEmitter(program).emit()
