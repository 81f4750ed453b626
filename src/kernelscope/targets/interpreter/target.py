"""The interpreter as a target, so that ``torch.compile`` can run through it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from kernelscope.ir.program import Program
from kernelscope.ir.serialize import from_json, without_constants
from kernelscope.ir.text import print_program
from kernelscope.runtime.boot import KernelSet, install_kernels, pack, run_source, unpack
from kernelscope.runtime.switch import Call, Loaded, Probe, register
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

    def observed(self, program: Program, loaded: Loaded, probe: Probe) -> Call:
        """A program with probes, over the kernels and constants of a loaded one."""
        return Machine(program, loaded.namespace, _constants(program, loaded.namespace), probe).call


def boot(namespace: dict[str, Any], payload: str) -> None:
    """Defines ``call`` in ``namespace``; the first call looks constants up there, where PyTorch has put them."""
    kernels, texts = unpack(payload)
    namespace["PROGRAM_JSON"] = texts["program"]
    install_kernels(namespace, kernels)
    _define(namespace, from_json(texts["program"]), lambda: texts["program"], kernels)


_CALL = """
def call(args):
    return machine().call(args)
"""


def _define(namespace: dict[str, Any], program: Program, text: Callable[[], str], kernels: KernelSet) -> None:
    namespace["machine"] = functools.cache(lambda: Machine(program, namespace, _constants(program, namespace)))
    run_source(namespace, _CALL, program.name)
    register(Loaded(target=InterpreterTarget.name, text=text, namespace=namespace, kernels=kernels))


def _constants(program: Program, namespace: dict[str, Any]) -> dict[str, Any]:
    return {constant.name: namespace[constant.name] for constant in program.constants}


def _load(program: Program) -> Call:
    namespace: dict[str, Any] = constant_tensors(program)
    kernels = cpp_kernels(program)
    install_kernels(namespace, kernels)
    _define(namespace, program, functools.partial(without_constants, program), kernels)
    return namespace["call"]  # type: ignore[no-any-return]
