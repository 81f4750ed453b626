"""Rules over memory: who owns a storage, what fits into it, and what a running collective works on."""

from __future__ import annotations

from collections.abc import Iterator

from kernelscope.ir import lines as l
from kernelscope.ir.collectives import InFlight, is_wait
from kernelscope.ir.storage import Storages, nbytes_of
from kernelscope.ir.values import Dim, TensorType, View
from kernelscope.ir.verify_subject import Breach, Subject

_ONLY_LOOKS = (l.ReturnLine, l.MultiOutputLine, l.ReinterpretLine, l.AssertSizeStrideLine, l.AssertAlignmentLine)


def storage_has_one_owner(subject: Subject) -> Iterator[Breach]:
    """A storage is taken over only when nothing alive uses it, and only if it may be."""
    context = subject.context
    storages = Storages.of(subject.function, context.constants, context.calls)
    for index, line, _ in subject:
        if isinstance(line, l.ReuseLine) and line.old in storages:
            for problem in _reuse_problems(line, storages, subject):
                yield subject.breach("storage_has_one_owner", problem, index)
        storages.step(line)


def _reuse_problems(line: l.ReuseLine, storages: Storages, subject: Subject) -> Iterator[str]:
    roots = storages.roots_of(line.old)
    for root in roots:
        if root in subject.context.constants:
            yield f"{line.old} is a constant" if root == line.old else f"{line.old} is on constant {root}"
        elif root in storages.borrowed:
            yield f"{line.old} belongs to the caller"
    sharing = set().union(*(storages.alive_on(root) for root in roots)) - {line.old}
    if sharing:
        yield f"{', '.join(sorted(sharing))} still use(s) {line.old}'s storage"
    if not line.delete_old:
        yield f"{line.old} stays alive beside {line.new}"


def sizes_fit(subject: Subject) -> Iterator[Breach]:
    """A reusing tensor and a view fit the storage they are laid over (where sizes are static)."""
    storages = Storages.of(subject.function, subject.context.constants, subject.context.calls)
    storages.types.update(subject.context.constants)
    storages.sizes.update((name, nbytes_of(layout)) for name, layout in subject.context.constants.items())
    for index, line, _ in subject:
        if isinstance(line, l.ReuseLine):
            for problem in _reuse_misfits(line, storages):
                yield subject.breach("sizes_fit", problem, index)
        elif isinstance(line, l.ReinterpretLine) and not isinstance(line.value, View):
            needed, have = nbytes_of(line.type), _room_of(line.value.name, storages)
            if isinstance(needed, int) and isinstance(have, int) and needed > have:
                message = f"{line.name} needs {needed} bytes, {line.value.name} has {have}"
                yield subject.breach("sizes_fit", message, index)
        for reference in subject.references[index]:
            if isinstance(reference, View):
                needed, have = _view_bytes(reference, storages), _room_of(reference.base.name, storages)
                if isinstance(needed, int) and isinstance(have, int) and needed > have:
                    message = f"a view of {reference.base.name} needs {needed} bytes of {have}"
                    yield subject.breach("sizes_fit", message, index)
        storages.step(line)


def _reuse_misfits(line: l.ReuseLine, storages: Storages) -> Iterator[str]:
    needed, have = nbytes_of(line.type), storages.bytes_of(line.old)
    if isinstance(needed, int) and isinstance(have, int) and needed > have:
        yield f"{line.new} needs {needed} bytes, {line.old} has {have}"
    old = storages.types.get(line.old)
    if old is not None and (old.device, old.dtype) != (line.type.device, line.type.dtype):
        yield f"{line.new} and {line.old} differ in dtype or device"


def _room_of(name: str, storages: Storages) -> Dim | None:
    """Bytes a view may cover: the storage's, or the layout's that an operator says its aliasing result has."""
    have, layout = storages.bytes_of(name), storages.types.get(name)
    said = None if layout is None else nbytes_of(layout)
    return max(have, said) if isinstance(have, int) and isinstance(said, int) else have


def _view_bytes(view: View, storages: Storages) -> int | None:
    base = storages.types.get(view.base.name)
    dims = (*view.size, *view.stride, view.offset)
    if base is None or base.offset != 0 or not all(isinstance(dim, int) for dim in dims):
        return None
    layout = TensorType(dtype=base.dtype, device=base.device, size=view.size, stride=view.stride, offset=view.offset)
    needed = layout.nbytes()
    return needed if isinstance(needed, int) else None


def collectives_are_awaited(subject: Subject) -> Iterator[Breach]:
    """What a collective works on is not touched before it was waited for."""
    if not any(isinstance(line, l.CollectiveLine) for line in subject.lines):
        return
    storages = Storages.of(subject.function, subject.context.constants, subject.context.calls)
    flight = InFlight(storages)
    for index, line, effects in subject:
        if not is_wait(line) and not isinstance(line, _ONLY_LOOKS):
            for name, start in flight.forbids(effects.reads, effects.writes):
                message = f"{name} is in a collective since line {start}"
                yield subject.breach("collectives_are_awaited", message, index)
        storages.step(line)
        flight.step(line, index)
