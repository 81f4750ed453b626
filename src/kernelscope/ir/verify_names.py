"""Rules over the names in a function: tensors, packs, objects, symbols, scopes, and its return."""

from __future__ import annotations

from collections.abc import Iterator

import sympy

from kernelscope.ir import lines as l
from kernelscope.ir.dataflow import defined_symbol, used_symbols
from kernelscope.ir.program import ObjectInput, ScalarInput, TensorInput
from kernelscope.ir.values import BufferRef, ConstantRef, NodeRef, TensorType, View
from kernelscope.ir.verify_subject import Breach, Reference, Subject

_TAKES_PACKS = (l.UnbackedSymbolDefsLine, l.ReturnLine, l.AssertSizeStrideLine, l.ProbeLine)


def defined_before_use(subject: Subject) -> Iterator[Breach]:
    """A name is defined, once, before it is used, and not used after it ended."""
    known = {entry.name for entry in subject.function.inputs} | set(subject.context.constants)
    over: dict[str, int] = {}
    for index, line, effects in subject:
        for name in dict.fromkeys((*effects.reads, *effects.writes, *effects.ends, *getattr(line, "aliases", ()))):
            if name in over:
                yield subject.breach("not_used_after_free", f"{name} ended at line {over[name]}", index)
            elif name not in known:
                yield subject.breach("defined_before_use", f"{name} is not defined", index)
        for name in effects.ends:
            over[name] = index
        for name in effects.defines:
            if name in known:
                yield subject.breach("defined_once", f"{name} is defined already", index)
            known.add(name)


def references_name_their_kind(subject: Subject) -> Iterator[Breach]:
    """An operand says truly whether it is a buffer, a constant or an object; nodes of the graph are no operands."""
    objects = {entry.name for entry in subject.function.inputs if isinstance(entry, ObjectInput)}
    scalars = {entry.name for entry in subject.function.inputs if isinstance(entry, ScalarInput)}
    constants = subject.context.constants
    for index, mentioned in enumerate(subject.references):
        for reference in mentioned:
            name, kind = _mention(reference)
            if kind is BufferRef:
                wrong = name in constants or name in objects or name in scalars
            elif kind is ConstantRef:
                wrong = name not in constants
            else:
                wrong = kind is NodeRef or name not in objects
            if wrong:
                message = f"{name} is mentioned as {kind.__name__}, which it is not"
                yield subject.breach("references_name_their_kind", message, index)


def _mention(reference: Reference) -> tuple[str, type]:
    named = reference.base if isinstance(reference, View) else reference
    return named.name, type(named)


def symbols_before_use(subject: Subject) -> Iterator[Breach]:
    """A symbol has a value before it is used."""
    known: set[sympy.Symbol] = set()
    for index, line, _ in subject:
        missing = used_symbols(line) - known
        for sym in sorted(missing, key=str):
            yield subject.breach("symbols_before_use", f"symbol {sym} has no value", index)
        known |= missing
        own = defined_symbol(line)
        if own is not None:
            known.add(own)


def bindings_name_inputs(subject: Subject) -> Iterator[Breach]:
    """A symbol is bound to an input that exists and has that dimension."""
    inputs = {entry.name: entry for entry in subject.function.inputs}
    for index, line, _ in subject:
        if not isinstance(line, l.BindSymbolLine):
            continue
        entry = inputs.get(line.source)
        scalar = line.attribute == "value"
        if scalar and not isinstance(entry, ScalarInput):
            yield subject.breach("bindings_name_inputs", f"{line.source} is no scalar input", index)
        elif not scalar and not (isinstance(entry, TensorInput) and line.dim < len(entry.type.size)):
            yield subject.breach("bindings_name_inputs", f"{line.source} has no dimension {line.dim}", index)


def packs_and_tensors(subject: Subject) -> Iterator[Breach]:
    """A pack is only taken apart; a tensor is never taken apart by index."""
    tensors = {entry.name for entry in subject.function.inputs if isinstance(entry, TensorInput)}
    tensors.update(subject.context.constants)
    packs: set[str] = set()
    for index, line, effects in subject:
        if isinstance(line, l.MultiOutputLine):
            if line.source in tensors and line.path:
                yield subject.breach("packs_and_tensors", f"tensor {line.source} is taken apart", index)
        elif packs and not isinstance(line, _TAKES_PACKS):
            for name in effects.touched():
                if name in packs:
                    yield subject.breach("packs_and_tensors", f"{name} is a pack, not a tensor", index)
        if effects.defines:
            is_tensor = isinstance(getattr(line, "type", None), TensorType)
            (tensors if is_tensor else packs).update(effects.defines)


def probes_name_their_operands(subject: Subject) -> Iterator[Breach]:
    """A probe has one label for each operand, no label twice, and says of no other what is written."""
    for index, line, _ in subject:
        if not isinstance(line, l.ProbeLine):
            continue
        labels = set(line.labels)
        if len(line.labels) != len(line.operands):
            message = f"probe {line.number} has {len(line.operands)} operands and {len(line.labels)} labels"
            yield subject.breach("probes_name_their_operands", message, index)
        elif len(labels) != len(line.labels) or not labels.issuperset((*line.written, *line.unwritten)):
            message = f"probe {line.number} names an operand twice, or one that it does not have"
            yield subject.breach("probes_name_their_operands", message, index)


def returns_once(subject: Subject) -> Iterator[Breach]:
    """The last line, and no other, returns."""
    returning = [index for index, line, _ in subject if isinstance(line, l.ReturnLine)]
    if returning != [len(subject.lines) - 1]:
        index = returning[0] if returning else None
        yield subject.breach("returns_once", f"function {subject.function.name} must end in its only return", index)


def scopes_balance(subject: Subject) -> Iterator[Breach]:
    """Device and stream scopes are closed in the reverse order of their opening."""
    pairs = {l.ExitDeviceLine: l.EnterDeviceLine, l.ExitStreamLine: l.EnterStreamLine}
    open_scopes: list[tuple[int, type[l.Line]]] = []
    for index, line, _ in subject:
        if isinstance(line, (l.EnterDeviceLine, l.EnterStreamLine)):
            open_scopes.append((index, type(line)))
        elif type(line) in pairs and (not open_scopes or open_scopes.pop()[1] is not pairs[type(line)]):
            yield subject.breach("scopes_balance", "a scope is closed that is not the innermost", index)
    for index, _ in open_scopes:
        yield subject.breach("scopes_balance", "a scope is never closed", index)
