"""A process that ends badly while a compiled program runs: ``dying.py HOW TARGET FOLDER``."""

import ctypes
import dataclasses
import os
import signal
import sys

import torch

import kernelscope as ks
from kernelscope.ir.lines import KernelDefinitionLine

MARK = "the culprit"
ENDS = {
    "segv": lambda: ctypes.string_at(0),
    "abort": os.abort,
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
}
END = None
IN_KERNEL = {
    "write": "((volatile float*)in_out_ptr0)[1L << 40] = 1.0f;",
    "endless": "for (volatile int i = 0;; ) (void)i;",
}


@torch.library.custom_op("dying::op", mutates_args=())
def dies(x: torch.Tensor) -> torch.Tensor:
    END()
    return x.clone()


@dies.register_fake
def _(x):
    return torch.empty_like(x)


def with_operator(x, w):
    y = torch.relu(x @ w)
    z = torch.ops.dying.op(y)  # the culprit
    return z.sum(0)


def with_kernel(x, w):
    y = x @ w
    z = torch.sigmoid(y)  # the culprit
    return z @ w


def broken(program, statement):
    """The program, whose only kernel has a statement more at its beginning."""

    def edited(line):
        if not isinstance(line, KernelDefinitionLine):
            return line
        head, entry, body = line.kernel.source.rpartition('extern "C"')
        signature, brace, rest = body.partition("{")
        source = f"{head}{entry}{signature}{brace}\n    {statement}{rest}"
        return dataclasses.replace(line, kernel=dataclasses.replace(line.kernel, source=source))

    main = dataclasses.replace(program.main, lines=tuple(map(edited, program.main.lines)))
    return ks.Program.of(dataclasses.replace(program.plain(), main=main))


def main(how, target, folder):
    global END
    END = ENDS.get(how)
    inputs = torch.randn(4, 4), torch.randn(4, 4)
    if how in IN_KERNEL:
        call = broken(ks.capture(with_kernel, *inputs), IN_KERNEL[how]).emit(target).load()
        with ks.scope(flight=folder):
            call(list(inputs))
    else:
        compiled = torch.compile(with_operator, backend="kernelscope", options={"target": target})
        with ks.scope(flight=folder):
            compiled(*inputs)


if __name__ == "__main__":
    main(*sys.argv[1:])
