"""Entry methods for symbols: inputs' sizes, host scalars, unbacked sizes, run-time assertions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sympy
from torch._inductor import ir
from torch._inductor.virtualized import V
from torch.fx.experimental.symbolic_shapes import (
    CallMethodKey,
    ConvertIntKey,
    DivideByKey,
    InnerTensorKey,
    resolve_unbacked_bindings,
)
from torch.utils import _pytree as pytree
from torch.utils._sympy.symbol import SymT, symbol_is_type

from kernelscope.capture.inductor.recording import Recording
from kernelscope.capture.inductor.values import dims, to_tensor_value
from kernelscope.errors import UnsupportedError
from kernelscope.ir.expr import canonical, canonical_dim, symbol
from kernelscope.ir.lines import (
    AssertScalarLine,
    BindSymbolLine,
    DynamicScalarLine,
    DynamicSelectLine,
    DynamicSliceLine,
    PathStep,
    SymbolicCallArgLine,
    UnbackedSymbolDefsLine,
)
from kernelscope.ir.values import Dim


def _path(keypath: tuple[Any, ...]) -> tuple[PathStep, ...]:
    steps: list[PathStep] = []
    keys = list(keypath)
    while keys:
        key = keys.pop(0)
        if isinstance(key, CallMethodKey) and keys and isinstance(keys[0], pytree.SequenceKey):
            steps.append((key.name, keys.pop(0).idx))  # type: ignore[arg-type]
        elif isinstance(key, CallMethodKey) and key.name == "storage_offset":
            steps.append(("storage_offset", 0))
        elif isinstance(key, CallMethodKey):
            steps.append(("call", key.name))
        elif isinstance(key, pytree.SequenceKey):
            steps.append(("index", key.idx))
        elif isinstance(key, DivideByKey):
            steps.append(("floordiv", int(key.divisor)))
        elif isinstance(key, InnerTensorKey):
            steps.append(("key", key.inner_name))
        else:
            raise UnsupportedError(f"the path {keypath} to an unbacked symbol has no form in the wrapper IR")
    return tuple(steps)


class SymbolEntries(Recording):
    """Definitions and checks of symbols."""

    # --- inputs ---

    def bind_input_symbols(self, inputs: dict[str, Any]) -> None:
        """Records how each symbol is read off the inputs: plain numbers first, then sizes and strides."""
        bound: set[sympy.Symbol] = set()
        ordered = sorted(inputs.items(), key=lambda item: not isinstance(item[1], sympy.Symbol))
        for name, value in ordered:
            if isinstance(value, sympy.Symbol):
                self._bind(value, name, "value", 0, bound)
            elif isinstance(value, ir.TensorBox):
                for dim, size in enumerate(value.get_size()):
                    self._bind(size, name, "size", dim, bound)
                for dim, stride in enumerate(value.get_stride()):
                    self._bind(stride, name, "stride", dim, bound)

    def _bind(self, sym: Any, source: str, attribute: Any, dim: int, bound: set[sympy.Symbol]) -> None:
        if not isinstance(sym, sympy.Symbol) or sym in bound:
            return
        bound.add(sym)
        self.record(BindSymbolLine(symbol=symbol(str(sym)), source=source, attribute=attribute, dim=dim))
        for alias, target in V.graph.sizevars.shape_env.replacements.items():
            # Deferred assertions may still name a symbol that constraint solving replaced by this one.
            unbacked = symbol_is_type(alias, (SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT))
            if target == sym and isinstance(alias, sympy.Symbol) and alias not in bound and not unbacked:
                bound.add(alias)
                self.record(SymbolicCallArgLine(symbol=symbol(str(alias)), expr=canonical(sym)))

    # --- host scalars ---

    def generate_numel_expr(self, kernel_name: str, tree: Any, suffix: str | None = None) -> Any:
        """Records the element count a kernel gets as an argument; gives its symbol."""
        name = f"{kernel_name}_{tree.prefix}numel" + ("" if suffix is None else f"_{suffix}")
        sym = sympy.Symbol(name, is_integer=True, is_positive=True)
        if kernel_name:
            self.record(SymbolicCallArgLine(symbol=symbol(name), expr=canonical(tree.numel)))
        return sym

    def codegen_dynamic_scalar(self, node: Any) -> None:
        """Records the reading of a tensor's single element."""
        convert, divisor = "none", 1
        if len(node.keypath) == 1 and isinstance(node.keypath[0], ConvertIntKey):
            convert = "bool"
        elif len(node.keypath) == 1 and isinstance(node.keypath[0], DivideByKey):
            convert, divisor = "divide", int(node.keypath[0].divisor)
        elif node.keypath:
            raise UnsupportedError(f"host scalar with path {node.keypath}", where=self._where())
        line = DynamicScalarLine(
            symbol=symbol(str(node.sym)),
            source=to_tensor_value(node.inputs[0]),
            convert=convert,  # type: ignore[arg-type]
            divisor=divisor,
        )
        self.record(line, nodes=(node,))

    def codegen_dynamic_select_index(self, node: Any, clamp: bool) -> None:
        """Records the storage offset of a selection whose index is known at run time only."""
        self.record(
            DynamicSelectLine(
                symbol=symbol(str(node.unbacked_offset_symbol)),
                index=canonical(node.index),
                base_offset=canonical_dim(node.base_offset),
                base_stride=canonical_dim(node.base_dim_stride),
                size=canonical_dim(node.size),
                clamp=bool(clamp),
            ),
            nodes=(node,),
        )

    def codegen_dynamic_slice_size(self, node: Any) -> None:
        """Records the length of a slice whose bounds are known at run time only."""
        self.record(
            DynamicSliceLine(
                symbol=symbol(str(node.unbacked_size_symbol)),
                start=canonical_dim(node.start),
                end=canonical_dim(node.end),
                step=canonical_dim(node.step),
                size=canonical_dim(node.size),
            ),
            nodes=(node,),
        )

    def codegen_unbacked_symbol_defs_for_outputs(self, output_name: str, outputs: Any, bindings: Any) -> None:
        """Records how unbacked symbols are read off an operator's result."""
        resolved = resolve_unbacked_bindings(V.graph.sizevars.shape_env, bindings)
        for sym, keypath in (resolved or {}).items():
            self.record(UnbackedSymbolDefsLine(symbol=symbol(str(sym)), source=output_name, path=_path(tuple(keypath))))

    def record_assertion(self, condition: Any, message: str) -> None:
        """Records a run-time assertion on symbols, unsimplified."""
        self.record(AssertScalarLine(condition=canonical(condition), message=message))

    # --- sizes that Inductor passes back to us ---

    def codegen_sizevar(self, expr: Any) -> Dim:
        """A size, typed: the recorder never turns it into text."""
        return canonical_dim(expr)

    def codegen_python_sizevar(self, expr: Any, *, simplify: bool = True) -> Dim:
        """A size, typed."""
        return canonical_dim(expr)

    def codegen_shape_tuple(self, shape: Iterable[Any]) -> tuple[Dim, ...]:
        """A shape, typed."""
        return dims(shape)

    def codegen_python_shape_tuple(self, shape: Iterable[Any]) -> tuple[Dim, ...]:
        """A shape, typed."""
        return dims(shape)

    def val_to_arg_str(self, value: Any, type_: Any = None) -> str:
        """A printable form; only error messages and cache keys of the compiler use it."""
        return repr(value)
