"""Hand-written programs that tests share: one with every line kind, and lines of every kind."""

from __future__ import annotations

import dataclasses

import sympy
import torch

from kernelscope.ir import lines as l
from kernelscope.ir.builder import CPU, FunctionBuilder, contiguous
from kernelscope.ir.expr import parse_expr, symbol
from kernelscope.ir.kernels import (
    CppBuild,
    CppKernel,
    CppParam,
    Grid,
    MultiKernel,
    TritonConfig,
    TritonKernel,
    TritonParam,
)
from kernelscope.ir.program import (
    Constant,
    Function,
    Graph,
    GraphNode,
    ObjectInput,
    Program,
    ScalarInput,
    Storage,
    SymbolInfo,
    TensorInput,
)
from kernelscope.ir.values import (
    BufferRef,
    ConstantRef,
    DeviceValue,
    DTypeValue,
    LayoutValue,
    ListValue,
    MemoryFormatValue,
    NodeRef,
    NoneValue,
    ObjectRef,
    OperatorRef,
    Scalar,
    SymExpr,
    TupleValue,
    View,
)

A, B, C = BufferRef("a"), BufferRef("b"), BufferRef("c")
F4 = contiguous((4,))
ORIGIN = l.Origin(
    nodes=("mm", "relu"),
    ops=("aten.mm", "aten.relu"),
    locations=(l.SourceLocation(file='mo"del.py', line=12, function="forward", text="x @ w  # ünïcode"),),
)
KERNEL = CppKernel(
    name="cpp_add",
    source='extern "C" void kernel(const float* in_ptr0, float* out_ptr0, const int64_t ks0)\n{\n\n  // | "x"\n}\n',
    entry="kernel",
    params=(
        CppParam(name="in_ptr0", ctype="const float*", role="in", dtype=torch.float32),
        CppParam(name="out_ptr0", ctype="float*", role="out", dtype=torch.float32),
        CppParam(name="ks0", ctype="const int64_t", role="scalar"),
    ),
    fused_ops=("aten.add",),
)
TRITON = TritonKernel(
    name="triton_poi",
    source="@triton.jit\ndef triton_poi(x, n, XBLOCK: tl.constexpr):\n    pass\n",
    entry="triton_poi",
    params=(TritonParam(name="x", type="*fp32", role="inout"), TritonParam(name="n", type="i32", role="scalar")),
    constants=(("flag", True), ("scale", 0.5), ("none", None)),
    configs=(TritonConfig(meta=(("XBLOCK", 128),), num_warps=4, num_stages=1),),
    grid=Grid(kind="grid_1d", dims=((parse_expr("CeilDiv(n, 128)"), sympy.Integer(1), sympy.Integer(1)),)),
    category="pointwise",
    mutated=("x",),
)
MULTI = MultiKernel(name="multi", choices=("triton_poi",))

VALUES = (
    A,
    ConstantRef("c0"),
    BufferRef("view"),
    View(base=A, size=(2, symbol("s0")), stride=(symbol("s0"), 1), offset=parse_expr("s0*3"), dtype=torch.int32),
    Scalar(3),
    Scalar(True),
    Scalar(-0.0),
    Scalar(float("inf")),
    Scalar(float("nan")),
    Scalar(1e-30),
    Scalar(2 - 3j),
    Scalar('q"uote\n'),
    SymExpr(parse_expr("FloorDiv(s0 + 1, 2)*Max(s0, u0)")),
    NoneValue(),
    DTypeValue(torch.float8_e4m3fn),
    DeviceValue(torch.device("cuda:1")),
    LayoutValue("strided"),
    MemoryFormatValue("channels_last"),
    OperatorRef("aten.add.Tensor"),
    ObjectRef("generator"),
    NodeRef("mm_1"),
    ListValue((A, ListValue(()), Scalar(1))),
    TupleValue((Scalar(1),)),
)

_S0, _U0 = symbol("s0"), symbol("u0")
LINES: tuple[l.WrapperLine, ...] = (
    l.AllocateLine(name="b", type=F4, allocation_size=(8,), pinned=True, workspace=True),
    l.AllocateLine(name="b", type=dataclasses.replace(F4, offset=parse_expr("s0*2"), device=torch.device("cuda:0"))),
    l.FreeIfNotReusedLine(name="b"),
    l.ReuseLine(old="a", new="b", type=F4, delete_old=False),
    l.ReuseLine(old="a", new="b", type=F4),
    l.NullLine(),
    l.ReinterpretLine(name="b", value=A, type=F4),
    l.FreeLine(name="b"),
    l.KernelCallLine(kernel="k", args=(A, B, SymExpr(_S0)), reads=("a",), writes=("b",), device=CPU, stream=1),
    l.KernelCallLine(kernel="k", args=(), reads=(), writes=(), device=CPU),
    l.ExternKernelLine(op="aten.mm.out", args=(A, A), kwargs=(("beta", Scalar(1)),), out=B),
    l.ExternKernelAllocLine(op="aten.relu.default", args=(A,), result="b", type=F4, mutates=("a",), aliases=("c",)),
    l.ExternKernelAllocLine(op="my::op.default", args=(A,), result=None),
    l.ExternKernelMultiOutLine(op="my.op.out", args=(A,), outs=(("out0", B), ("out1", C))),
    l.MultiOutputLine(name="b", source="p", path=(0, "key"), type=F4, aliases=("a",)),
    l.MultiOutputLine(name="b", source="p", path=(), type=None),
    l.ScatterFallbackLine(
        op="aten.scatter_.src", target=A, dim=1, index=B, src=Scalar(2.5), kwargs=(("reduce", Scalar("add")),)
    ),
    l.IndexPutFallbackLine(op="aten.index_put_.default", target=A, indices=(B, NoneValue()), values=C, accumulate=True),
    l.CopyLine(dst=A, src=B, non_blocking=True),
    l.CollectiveLine(op="_c10d_functional.all_reduce_.default", args=(A,), result=None, mutates=("a",)),
    l.BindSymbolLine(symbol=_S0, source="a", attribute="size", dim=1),
    l.SymbolicCallArgLine(symbol=_S0, expr=parse_expr("u0*2")),
    l.DynamicScalarLine(symbol=_U0, source=A, convert="divide", divisor=4),
    l.DynamicSelectLine(symbol=_U0, index=_S0, base_offset=1, base_stride=2, size=_S0, clamp=True),
    l.DynamicSliceLine(symbol=_U0, start=0, end=_S0, step=2, size=9),
    l.UnbackedSymbolDefsLine(
        symbol=_U0, source="p", path=(("index", 0), ("size", 1), ("floordiv", 2), ("call", "numel"))
    ),
    l.AssertSizeStrideLine(name="a", size=(4,), stride=(_S0,), label="aten.mm"),
    l.AssertAlignmentLine(name="a", alignment_bytes=16, label="op"),
    l.AssertScalarLine(condition=parse_expr("u0 >= 0"), message='u0 must not be "negative"'),
    l.AlignInputLine(name="a"),
    l.EnterDeviceLine(device=torch.device("cuda:1"), num_streams=2),
    l.ExitDeviceLine(),
    l.EnterStreamLine(stream=1),
    l.ExitStreamLine(),
    l.InvokeSubgraphLine(result="p", function="f", operands=(A,), mutates=("a",)),
    l.ConditionalLine(
        result="p", predicate=SymExpr(parse_expr("s0 > 3")), true_function="f", false_function="g", operands=(A,)
    ),
    l.WhileLoopLine(
        result="p", cond_function="f", body_function="g", carried=(A,), additional=(B,), stack_outputs=True
    ),
    l.CommentLine(text='a "remark" # here'),
    l.ProbeLine(
        number=7,
        moment="after",
        subject="k",
        call=3,
        operands=(A, Scalar(2)),
        labels=("a", "xnumel"),
        written=("a",),
        unwritten=("b",),
    ),
    l.ReturnLine(values=VALUES),
)


def rich_program() -> Program:
    """A program (not a valid one) in which every record of the IR occurs."""
    lines = (*(dataclasses.replace(line, origin=ORIGIN) for line in LINES), *_definitions())
    inputs = (
        TensorInput(name="a", type=contiguous((4, _S0)), donated=True),
        ScalarInput(name="n", expr=parse_expr("s0 + 1")),
        ObjectInput(name="generator", kind="GeneratorState"),
    )
    return Program(
        name='ri"ch',
        phase="forward",
        main=Function(name="main", inputs=inputs, lines=lines),
        functions=(Function(name="f", inputs=(), lines=(l.ReturnLine(values=()),)),),
        constants=(Constant(name="c0", type=F4, storage="k1"),),
        storages=(Storage(key="k1", nbytes=16, data=bytes(range(16))), Storage(key="k2", nbytes=4)),
        symbols=(SymbolInfo(symbol=_S0, kind="backed", hint=8, lower=2), SymbolInfo(symbol=_U0, kind="unbacked")),
        cpp_build=CppBuild(isa="avx2", compile_flags=("-O3", '-D"x"'), link_flags=()),
        graph=Graph(
            nodes=(
                GraphNode(name="x", op="placeholder", target="x", type=F4),
                GraphNode(
                    name="mm",
                    op="call_function",
                    target="aten.mm.default",
                    args=(NodeRef("x"),),
                    kwargs=(("k", Scalar(1)),),
                    location=ORIGIN.locations[0],
                ),
            ),
            buffers=(("buf0", "mm"),),
        ),
        passes=("plan_memory",),
        torch_version="2.13.0",
    )


def _definitions() -> tuple[l.WrapperLine, ...]:
    return tuple(l.KernelDefinitionLine(kernel=kernel) for kernel in (KERNEL, TRITON, MULTI))


def chain() -> FunctionBuilder:
    """A valid function: three products through two buffers."""
    builder = FunctionBuilder()
    x, w = builder.tensor("x", contiguous((4, 4))), builder.tensor("w", contiguous((4, 4)))
    for _ in range(3):
        y = builder.allocate(contiguous((4, 4)))
        builder.out("aten.mm.out", (x, w), y)
        if x.name != "x":
            builder.free(x)
        x = y
    return builder
