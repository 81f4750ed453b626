"""What the reference of the IR says beyond the classes: each field's meaning, and what must hold (see ir_page)."""

from dataclasses import dataclass, field

_OP = "qualified overload name of the operator"
_KWARGS = "keyword arguments, `(name, operand)` pairs"
_MUTATES = "buffers that the call writes in place; their old contents are read"
_ALIASES = "buffers whose storage the results may share"
_RESULT_TYPE = "layout of the result; None when the result is a pack"
_SYMBOL = "the symbol that gets its value here; canonical (see `kernelscope/ir/expr.py`)"
_NEW = "a name not defined before"


@dataclass(frozen=True)
class Note:
    """Meanings of fields by name, and rules."""

    fields: dict[str, str] = field(default_factory=dict)
    rules: tuple[str, ...] = ()


_MEMORY = {
    "AllocateLine": Note(
        {
            "name": _NEW,
            "type": "layout of the tensor; the storage has room for all of it, offset included",
            "allocation_size": "size in elements that is allocated, where it is larger than the tensor's own",
            "pinned": "in page-locked host memory",
            "workspace": "scratch memory of a kernel: never returned",
        },
        ("`allocation_size` has the rank of `type` and is at least as large in each dimension.",),
    ),
    "FreeIfNotReusedLine": Note(
        {"name": "the buffer that ends"},
        (
            "`name` is alive before and must not be used after.",
            "`plan_memory` turns this line and a later allocation into a `ReuseLine` where it pays.",
        ),
    ),
    "ReuseLine": Note(
        {
            "old": "the buffer whose storage is taken over",
            "new": _NEW,
            "type": "layout of `new`",
            "delete_old": "whether `old` ends here",
        },
        (
            "`old` owns its storage: it is neither an input that the caller keeps nor a constant.",
            "No other name alive uses the storage of `old`.",
            "`type` has the dtype and device of `old` and fits into its storage.",
        ),
    ),
    "NullLine": Note({}, ("Targets emit nothing for it.",)),
    "ReinterpretLine": Note(
        {"name": _NEW, "value": "the buffer, constant or view that `name` looks at", "type": "layout of `name`"},
        ("The storage of `value` has room for `type` (checked where sizes are static).",),
    ),
    "FreeLine": Note({"name": "the input, pack or object that ends"}, ("`name` must not be used after.",)),
}

_CALLS = {
    "KernelDefinitionLine": Note(
        {"kernel": "a `CppKernel`, `TritonKernel` or `MultiKernel` (`kernelscope/ir/kernels.py`)"},
        (
            "Kernels have names of their own in the whole program.",
            "A `MultiKernel` chooses among single kernels with the same kinds of parameters.",
            "The text form prints the name in place and the kernel in a section after the functions.",
        ),
    ),
    "KernelCallLine": Note(
        {
            "kernel": "name of the kernel",
            "args": "one operand per parameter: tensors for pointers, numbers for scalars",
            "reads": "buffers that it reads: operands of roles `in` and `inout`",
            "writes": "buffers that it writes: operands of roles `out` and `inout`",
            "device": "where it runs",
            "stream": "number of the stream in the device scope; None where the call names none",
        },
        (
            "The kernel is defined before the call.",
            "Operands match the parameters in number, kind and dtype; `reads` and `writes` follow from the roles.",
        ),
    ),
    "ExternKernelLine": Note(
        {"op": _OP, "args": "positional arguments", "kwargs": f"{_KWARGS}, without `out`", "out": "what is written"},
        ("`out` has the size that the operator gives: it is never resized.",),
    ),
    "ExternKernelAllocLine": Note(
        {
            "op": _OP,
            "args": "positional arguments",
            "kwargs": _KWARGS,
            "result": "name of what it returns; None when that is not used",
            "type": _RESULT_TYPE,
            "mutates": _MUTATES,
            "aliases": _ALIASES,
        },
        ("A pack (`type` is None) is only taken apart and freed, never passed as a tensor.",),
    ),
    "ExternKernelMultiOutLine": Note(
        {
            "op": _OP,
            "args": "positional arguments",
            "kwargs": f"{_KWARGS}, without the outs",
            "outs": "`(name, tensor)` pairs: what is written",
        },
    ),
    "MultiOutputLine": Note(
        {
            "name": _NEW,
            "source": "the pack",
            "path": "indices (int) and keys (str) from the pack to the element; empty for a result that is no pack",
            "type": "layout of the element; None when it is itself a pack, or no tensor",
            "aliases": _ALIASES,
        },
        ("`source` is a pack, or `path` is empty.",),
    ),
    "ScatterFallbackLine": Note(
        {
            "op": _OP,
            "target": "the tensor that is written in place",
            "dim": "dimension that is indexed",
            "index": "indices",
            "src": "values: a tensor or a number",
            "kwargs": f"{_KWARGS}: `reduce`, `include_self`",
        },
    ),
    "IndexPutFallbackLine": Note(
        {
            "op": _OP,
            "target": "the tensor that is written in place",
            "indices": "one index tensor per leading dimension of `target`, or None",
            "values": "values",
            "accumulate": "whether values are added to what is there",
        },
    ),
    "CopyLine": Note(
        {
            "dst": "the tensor that is written",
            "src": "the tensor that is read",
            "non_blocking": "whether a copy between devices may still run after the line",
        },
        ("The size of `src` expands to that of `dst`.",),
    ),
    "CollectiveLine": Note(
        {
            "op": f"{_OP} in `_c10d_functional`",
            "args": "positional arguments",
            "kwargs": _KWARGS,
            "result": "name of what it returns; None when that is not used",
            "type": _RESULT_TYPE,
            "mutates": _MUTATES,
            "aliases": _ALIASES,
        },
        (
            "An `op` that contains `wait_tensor` waits; any other starts.",
            "Between start and wait, what it writes is neither read nor written, and what it reads is not written.",
        ),
    ),
}

_SYMBOLS = {
    "BindSymbolLine": Note(
        {
            "symbol": _SYMBOL,
            "source": "the input",
            "attribute": "what is read of it: a `size` or `stride` along `dim`, or the `value` of a number",
            "dim": "dimension, for size and stride",
        },
        ("`source` is an input: a number for `value`, else a tensor that has dimension `dim`.",),
    ),
    "SymbolicCallArgLine": Note({"symbol": _SYMBOL, "expr": "what it is, over symbols that have values"}),
    "DynamicScalarLine": Note(
        {
            "symbol": _SYMBOL,
            "source": "tensor of one element",
            "convert": "`none`, `bool` or `divide`",
            "divisor": "for `divide`",
        },
        ("Reading the element of a tensor on a device waits for the device.",),
    ),
    "DynamicSelectLine": Note(
        {
            "symbol": _SYMBOL,
            "index": "the index, possibly negative",
            "base_offset": "storage offset of the tensor selected from",
            "base_stride": "its stride along the dimension",
            "size": "its size along the dimension",
            "clamp": "whether the index is brought into range first",
        },
    ),
    "DynamicSliceLine": Note(
        {
            "symbol": _SYMBOL,
            "start": "first index, possibly negative",
            "end": "index after the last, possibly negative",
            "step": "step, positive",
            "size": "size of the dimension",
        },
    ),
    "UnbackedSymbolDefsLine": Note(
        {
            "symbol": _SYMBOL,
            "source": "the tensor or pack that an operator returned",
            "path": "steps from it to the number: `index` and `key` into a pack, `size`, `stride`, `storage_offset`"
            " of a tensor, `floordiv` by a number, `call` of a method without arguments",
        },
        ("`floordiv` divides exactly.",),
    ),
}

_CHECKS = {
    "AssertSizeStrideLine": Note(
        {
            "name": "the tensor",
            "size": "size it must have",
            "stride": "strides it must have where the size is not 1",
            "label": "operator that made it, for the message",
        },
        ("`size` and `stride` have the rank of the tensor.",),
    ),
    "AssertAlignmentLine": Note(
        {"name": "the tensor", "alignment_bytes": "a power of two", "label": "operator that made it, for the message"},
    ),
    "AssertScalarLine": Note({"condition": "a condition over symbols that have values", "message": "error message"}),
    "AlignInputLine": Note({"name": "the input"}, ("Comes before any other use of the input.",)),
}

_CONTROL = {
    "EnterDeviceLine": Note(
        {"device": "the device", "num_streams": "how many streams the scope uses"},
        ("Scopes of devices and streams close in the reverse order of their opening, within a function.",),
    ),
    "ExitDeviceLine": Note({}, ("The innermost open scope is a device's.",)),
    "EnterStreamLine": Note(
        {"stream": "number of the stream in its device scope, less than the scope's `num_streams`"}
    ),
    "ExitStreamLine": Note({}, ("The innermost open scope is a stream's.",)),
    "InvokeSubgraphLine": Note(
        {
            "result": _NEW,
            "function": "name of the function",
            "operands": "one per input of the function",
            "mutates": _MUTATES,
        },
        (
            "The program has the function, and no function calls itself, directly or through others.",
            "Tensors are given where the function has tensor inputs, and only there.",
        ),
    ),
    "ConditionalLine": Note(
        {
            "result": _NEW,
            "predicate": "tensor of one element, or a condition over symbols",
            "true_function": "function that runs if it holds",
            "false_function": "function that runs if not",
            "operands": "one per input of either function",
            "mutates": _MUTATES,
        },
        ("Both functions return the same number of values.",),
    ),
    "WhileLoopLine": Note(
        {
            "result": _NEW,
            "cond_function": "function that says whether to go on",
            "body_function": "function that makes the next carried values",
            "carried": "initial values of what changes from round to round",
            "additional": "operands that stay the same",
            "stack_outputs": "whether the values of all rounds are returned, stacked",
            "mutates": _MUTATES,
        },
        ("Both functions take the carried values, then the additional ones.",),
    ),
    "CommentLine": Note({"text": "the remark"}, ("Targets may leave it out.",)),
    "ProbeLine": Note(
        {
            "number": "the probe's number in the program",
            "moment": "`inputs`, `before`, `after` or `returns`",
            "subject": "the kernel, operator or function called; the function's own name at inputs and returns",
            "call": "the call's number in the program",
            "operands": "what is shown",
            "labels": "a name for each operand",
            "written": "labels of operands whose contents the call changes",
            "unwritten": "labels of operands that nothing has written yet",
        },
        ("As many labels as operands, none twice.", "Put in by the pass `insert_probes`, after memory is planned."),
    ),
    "ReturnLine": Note(
        {"values": "what is returned, in order: tensors, views, numbers, None"},
        ("The last line of each function, and only the last.", "Every tensor returned is alive."),
    ),
}

NOTES: dict[str, Note] = {**_MEMORY, **_CALLS, **_SYMBOLS, **_CHECKS, **_CONTROL}
SECTIONS = {
    "Memory": _MEMORY,
    "Kernels and operators": _CALLS,
    "Symbols": _SYMBOLS,
    "Assertions": _CHECKS,
    "Scopes, control flow, return": _CONTROL,
}
