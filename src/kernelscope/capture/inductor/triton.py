"""Triton kernels as records: source, signature, constants, every configuration, and the grid.

A generated kernel comes as the text of a module whose decorator holds Inductor's heuristics; the module is loaded
once, here, to ask the heuristics for all configurations. Nothing of it is needed to launch the kernel later.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Mapping, Sequence
from typing import Any, Literal
from unittest import mock

import sympy
from torch._inductor import ir
from torch._inductor.virtualized import V

from kernelscope.capture.inductor.grids import grid_of
from kernelscope.errors import UnsupportedError
from kernelscope.ir.expr import canonical, symbol
from kernelscope.ir.kernels import Grid, ParamRole, TritonConfig, TritonKernel, TritonParam

Category = Literal["pointwise", "reduction", "persistent_reduction", "template", "foreach", "user", "other"]
Literals = "tuple[tuple[str, int | float | bool | str | None], ...]"

_CATEGORIES: dict[str, Category] = {
    "pointwise": "pointwise",
    "reduction": "reduction",
    "persistent_reduction": "persistent_reduction",
    "template": "template",
    "foreach": "foreach",
}


# --- generated kernels ---------------------------------------------------------------------------------------


def triton_kernel(name: str, entry: str, source: str) -> TritonKernel:
    """The record of a kernel that Inductor generated.

    Args:
        name: The kernel's name in the program.
        entry: The name of its function in ``source``.
        source: The text of its module.
    """
    tuner = _load(entry, source)
    meta, extra = tuner.triton_meta, tuner.inductor_meta
    configs = [_config(config) for config in tuner.configs]
    mutated = tuple(extra.get("mutated_arg_names", ()))
    return TritonKernel(
        name=name,
        source=_without_heuristics(source, entry),
        entry=entry,
        params=tuple(
            TritonParam(name=param, type=str(kind), role=_role(param, str(kind), mutated))
            for param, kind in meta["signature"].items()
            if kind != "constexpr"
        ),
        constants=_literals(meta.get("constants", {})),
        configs=tuple(configs),
        grid=grid_of(extra, list(tuner.configs)),
        category=_CATEGORIES.get(_heuristic(source, entry), "other"),
        mutated=mutated,
    )


def _load(entry: str, source: str) -> Any:
    from torch._inductor.runtime import triton_helpers

    filename = f"<kernelscope:triton:{entry}:{hash(source) & 0xFFFFFFFF:08x}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"__file__": filename, "__name__": f"kernelscope_triton_{entry}"}
    # Loading must work on a machine without the device: nothing is launched here.
    with mock.patch.object(triton_helpers, "set_driver_to_gpu", return_value=None):
        exec(compile(source, filename, "exec"), namespace)
    return namespace[entry]


def _function(source: str, entry: str) -> ast.FunctionDef:
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == entry:
            return node
    raise UnsupportedError(f"Triton kernel text does not define {entry}")


def _heuristic(source: str, entry: str) -> str:
    for decorator in _function(source, entry).decorator_list:
        if isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Attribute):
            return decorator.func.attr
    return ""


def _without_heuristics(source: str, entry: str) -> str:
    """The module's text with the kernel's ``@triton.jit`` alone, and without the heuristics' imports."""
    tree = ast.parse(source)
    function = _function(source, entry)
    kept = source.splitlines()
    first = function.decorator_list[0].lineno - 1
    jit = function.decorator_list[-1].lineno - 1
    dropped = set(range(first, jit))
    for node in tree.body:
        text = ast.unparse(node)
        if "triton_heuristics" in text.split("\n")[0] and isinstance(node, ast.ImportFrom):
            dropped.update(range(node.lineno - 1, (node.end_lineno or node.lineno)))
        if text.startswith(("triton_helpers.set_driver", "from torch._inductor.runtime.hints")):
            dropped.update(range(node.lineno - 1, (node.end_lineno or node.lineno)))
    lines = [line for index, line in enumerate(kept) if index not in dropped]
    if "triton_helpers" in "\n".join(lines):
        lines.insert(0, "from torch._inductor.runtime import triton_helpers")
    return "\n".join(lines).strip() + "\n"


def _role(param: str, kind: str, mutated: Sequence[str]) -> ParamRole:
    if not kind.startswith("*"):
        return "scalar"
    if param.startswith("out_ptr"):
        return "out"
    return "inout" if param in mutated or param.startswith("in_out_ptr") else "in"


def _config(config: Any) -> TritonConfig:
    return TritonConfig(
        meta=_literals(config.kwargs), num_warps=int(config.num_warps), num_stages=int(config.num_stages)
    )


def _literals(values: Mapping[Any, Any]) -> Any:
    return tuple((str(name), value) for name, value in values.items() if _is_literal(value))


def _is_literal(value: Any) -> bool:
    if not isinstance(value, (int, float, bool, str, type(None))):
        raise UnsupportedError(f"constant {value!r} of a Triton kernel has no form in the wrapper IR")
    return True


# --- kernels that the user wrote -----------------------------------------------------------------------------


def user_triton_kernel(
    kernel: Any,
    configs: Sequence[Any],
    kwargs: Mapping[str, Any],
    restore: Sequence[str],
    reset: Sequence[str],
    grids: Sequence[Sequence[Any]],
) -> tuple[TritonKernel, list[sympy.Symbol]]:
    """The record of a kernel that the user wrote, and the host sizes that its grid needs as extra arguments.

    Args:
        kernel: The ``triton.JITFunction``.
        configs: Its autotuning configurations; none for a plain kernel.
        kwargs: Its arguments by parameter name: Inductor's IR nodes and numbers.
        restore: Parameters whose buffers autotuning must restore.
        reset: Parameters whose buffers autotuning must zero.
        grids: One grid per configuration, or one for all.
    """
    changed = _changed_buffers()
    constexprs = {param.name for param in kernel.params if param.is_constexpr}
    passed = [name for name in kernel.arg_names if name in kwargs and name not in constexprs]
    absent = {name: None for name in passed if kwargs[name] is None}
    host = _grid_symbols(grids)
    given = {name: _constant(kwargs[name]) for name in constexprs if name in kwargs}
    params = [_user_param(name, kwargs[name], changed) for name in passed if name not in absent]
    params += [TritonParam(name=f"grid_{sym}", type="grid", role="scalar") for sym in host]
    record = TritonKernel(
        name=kernel.__name__,
        source=_user_source(kernel),
        entry=kernel.__name__,
        params=tuple(params),
        constants=_literals({**given, **absent}),
        configs=tuple(_config(config) for config in configs) or (TritonConfig(meta=(), num_warps=4, num_stages=3),),
        grid=_user_grid(grids, host),
        category="user",
        mutated=tuple(param.name for param in params if param.role == "inout"),
        restore_value=tuple(restore),
        reset_to_zero=tuple(reset),
        autotune_key=_autotune_key(),
    )
    return record, host


def _changed_buffers() -> set[str]:
    node = V.graph.scheduler.current_node.node
    return {name for output in node.mutation_outputs for name in output.get_mutation_names()}


def _autotune_key() -> tuple[str, ...]:
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

    node = V.graph.scheduler.current_node.node
    return tuple(getattr(kernel_side_table.get_kernel(node.kernel_idx), "keys", ()))


def _user_param(name: str, arg: Any, changed: set[str]) -> TritonParam:
    from torch._inductor.codegen.common import SizeArg, TensorArg
    from torch._inductor.codegen.triton_utils import signature_of

    if isinstance(arg, ir.TMADescriptor):
        raise UnsupportedError(f"tensor descriptor {name} of a user-defined Triton kernel")
    if isinstance(arg, ir.IRNode):
        kind = signature_of(TensorArg(name=name, buffer=arg.get_name(), dtype=arg.get_dtype()), size_dtype=None)
        return TritonParam(name=name, type=kind, role="inout" if arg.get_name() in changed else "in")
    return TritonParam(name=name, type=signature_of(SizeArg(name, arg), size_dtype=None), role="scalar")


def _constant(value: Any) -> Any:
    if isinstance(value, sympy.Integer):
        return int(value)
    if hasattr(value, "primitive_bitwidth"):
        return str(value)
    return value


def _grid_symbols(grids: Sequence[Sequence[Any]]) -> list[sympy.Symbol]:
    found = {sym for grid in grids for dim in grid if isinstance(dim, sympy.Expr) for sym in dim.free_symbols}
    return sorted(found, key=str)


def _user_grid(grids: Sequence[Sequence[Any]], host: Sequence[sympy.Symbol]) -> Grid:
    renamed = {symbol(str(sym)): symbol(f"grid_{sym}") for sym in host}
    dims = tuple(tuple(canonical(dim).xreplace(renamed) for dim in (*grid, *([1] * (3 - len(grid))))) for grid in grids)
    return Grid(kind="user", dims=dims)


def _user_source(kernel: Any) -> str:
    from torch._inductor.codegen.wrapper import user_defined_triton_kernel_transitive_closure_source_code

    text = user_defined_triton_kernel_transitive_closure_source_code(kernel)
    return f"import triton\nimport triton.language as tl\n\n\n@triton.jit\n{str(text).strip()}\n"
