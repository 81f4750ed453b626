"""Where lines come from: FX nodes, fused operators, lines of the model (A7), and the graph before fusion."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterable
from typing import Any

import torch
from torch import fx

from kernelscope.errors import UnsupportedError
from kernelscope.ir.expr import canonical_dim
from kernelscope.ir.lines import Origin, SourceLocation
from kernelscope.ir.program import Graph, GraphNode
from kernelscope.ir.values import ListValue, NodeRef, ObjectRef, Scalar, TensorType, TupleValue, Value

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)\n(?:\s+(?P<text>[^\n]*))?')
_LOCATIONS_PER_LINE = 3


def location_of(node: fx.Node) -> SourceLocation | None:
    """The innermost frame of the model in a node's stack trace."""
    trace = node.meta.get("stack_trace") or ""
    frames = list(_FRAME.finditer(trace))
    if not frames:
        return None
    frame = frames[-1]
    text = frame["text"] or linecache.getline(frame["file"], int(frame["line"])).strip()
    return SourceLocation(file=frame["file"], line=int(frame["line"]), function=frame["function"], text=text.strip())


def operator_name(target: Any) -> str:
    """An FX target as a qualified name: ``aten.mm.default`` for an overload."""
    if isinstance(target, (torch._ops.OpOverload, str)):
        return str(target)
    if isinstance(target, torch._ops.HigherOrderOperator):
        return f"higher_order.{target._name}"
    module = getattr(target, "__module__", "") or ""
    return f"{module}.{getattr(target, '__name__', type(target).__name__)}".lstrip(".")


def origin_of(nodes: Iterable[fx.Node]) -> Origin | None:
    """The origin that a set of FX nodes gives, in the order of the graph; None for no node."""
    ordered = sorted({node for node in nodes if node.op != "placeholder"}, key=_graph_order)
    if not ordered:
        return None
    ops = dict.fromkeys(_source_operator(node) for node in ordered if node.op.startswith("call"))
    locations = dict.fromkeys(where for node in ordered if (where := location_of(node)) is not None)
    return Origin(
        nodes=tuple(dict.fromkeys(node.name for node in ordered)),
        ops=tuple(ops),
        locations=tuple(locations)[:_LOCATIONS_PER_LINE],
    )


def _graph_order(node: fx.Node) -> Any:
    return (id(node.graph), node._sort_key, node.name)


def _source_operator(node: fx.Node) -> str:
    original = node.meta.get("original_aten") or node.target
    packet = getattr(original, "_overloadpacket", None)
    return str(packet) if packet is not None else operator_name(original)


def ir_origins(nodes: Iterable[Any]) -> list[fx.Node]:
    """The FX nodes behind nodes of Inductor's IR or its scheduler."""
    found: dict[fx.Node, None] = {}
    for node in nodes:
        members = node.get_nodes() if hasattr(node, "get_nodes") else (node,)
        for member in members:
            inner = getattr(member, "node", member)
            if inner is not None and hasattr(inner, "get_origins"):
                found.update(dict.fromkeys(inner.get_origins()))
    return list(found)


def record_graph(graph: fx.Graph, buffers: Iterable[tuple[str, fx.Node]]) -> Graph:
    """The FX graph as data, with the node that each buffer holds the value of."""
    names = {node.name for node in graph.nodes}
    return Graph(
        nodes=tuple(_record_node(node) for node in graph.nodes),
        buffers=tuple((buffer, node.name) for buffer, node in buffers if node.name in names),
    )


def _record_node(node: fx.Node) -> GraphNode:
    op: Any = node.op if node.op in ("placeholder", "get_attr", "call_function", "output") else "opaque"
    return GraphNode(
        name=node.name,
        op=op,
        target=operator_name(node.target),
        args=tuple(_graph_value(arg) for arg in node.args),
        kwargs=tuple((name, _graph_value(value)) for name, value in node.kwargs.items()),
        type=_fake_type(node.meta.get("val")),
        location=location_of(node),
    )


def _graph_value(value: Any) -> Value:
    from kernelscope.capture.inductor.values import to_value

    if isinstance(value, fx.Node):
        return NodeRef(value.name)
    if isinstance(value, (list, tuple)):
        kind = TupleValue if isinstance(value, tuple) else ListValue
        return kind(tuple(_graph_value(item) for item in value))
    if isinstance(value, slice):
        return TupleValue((Scalar("slice"), *(_graph_value(part) for part in (value.start, value.stop, value.step))))
    try:
        return to_value(value)
    except UnsupportedError:
        # The graph is a record for reading and reference runs: what it cannot replay is named, not hidden.
        return ObjectRef(f"{type(value).__name__}")


def _fake_type(value: Any) -> TensorType | None:
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return None
    return TensorType(
        dtype=value.dtype,
        device=value.device,
        size=tuple(_fake_dim(dim) for dim in value.shape),
        stride=tuple(_fake_dim(dim) for dim in value.stride()),
        offset=_fake_dim(value.storage_offset()),
    )


def _fake_dim(dim: Any) -> Any:
    return canonical_dim(dim.node.expr if isinstance(dim, torch.SymInt) else dim)
