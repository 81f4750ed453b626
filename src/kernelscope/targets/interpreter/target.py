"""The interpreter as a target, so that ``torch.compile`` can run through it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from kernelscope.ir.program import Program
from kernelscope.ir.serialize import from_json
from kernelscope.ir.text import print_program
from kernelscope.runtime.boot import install_kernels, pack, unpack
from kernelscope.targets.artifact import Artifact
from kernelscope.targets.interpreter.machine import Machine
from kernelscope.targets.kernel_set import constant_tensors, cpp_kernels
from kernelscope.version import __version__


class InterpreterTarget:
    """Runs the program's lines one by one."""

    name = "interpreter"

    def emit(self, program: Program) -> Artifact:
        """The program's text form, and a loader that interprets it."""
        return Artifact(target=self.name, source=print_program(program), loader=functools.partial(_load, program))

    def module(self, program: Program, program_json: str) -> str:
        """The text of a Python module whose ``call`` interprets the program."""
        payload = pack(cpp_kernels(program), name=program.name, program=program_json)
        return (
            f"# kernelscope {__version__} · target {self.name} · program {program.name}\n"
            f"from kernelscope.targets.interpreter.target import boot\n\n"
            f'boot(globals(), """\n{payload}\n""")\n'
        )


def boot(namespace: dict[str, Any], payload: str) -> None:
    """Defines ``call`` in ``namespace``; the first call looks constants up there, where PyTorch has put them."""
    kernels, texts = unpack(payload)
    namespace["PROGRAM_JSON"] = texts["program"]
    install_kernels(namespace, kernels)
    program = from_json(texts["program"])

    @functools.cache
    def machine() -> Machine:
        constants = {constant.name: namespace[constant.name] for constant in program.constants}
        return Machine(program, namespace, constants)

    namespace["call"] = lambda args: machine().call(args)


def _load(program: Program) -> Callable[[list[Any]], Any]:
    namespace: dict[str, Any] = {}
    install_kernels(namespace, cpp_kernels(program))
    return Machine(program, namespace, constant_tensors(program)).call
