"""The Python target: a program as an artifact, and as the module that PyTorch caches."""

from __future__ import annotations

import functools
from typing import Any

from kernelscope.ir.program import Program
from kernelscope.ir.serialize import without_constants
from kernelscope.runtime.boot import install_kernels, pack, run_source
from kernelscope.runtime.switch import Call, Loaded, Probe, register
from kernelscope.targets.artifact import Artifact
from kernelscope.targets.kernel_set import constant_tensors, cpp_kernels
from kernelscope.targets.python.emitter import emit_source
from kernelscope.version import __version__


class PythonTarget:
    """Generates a readable Python module."""

    name = "python"

    def emit(self, program: Program) -> Artifact:
        """The program as Python source."""
        written = emit_source(program)
        source = written.text()
        return Artifact(
            target=self.name,
            source=source,
            files={f"kernels/{kernel.name}.cpp": kernel.text for kernel in cpp_kernels(program).sources},
            source_map=written.source_map,
            loader=functools.partial(_load, program, source),
        )

    def module(self, program: Program, program_json: str) -> str:
        """The text of a Python module that defines ``call`` and needs nothing but Kernelscope and PyTorch."""
        source = emit_source(program).text()
        payload = pack(cpp_kernels(program), source=source, name=program.name, program=program_json)
        return (
            f"# kernelscope {__version__} · target {self.name} · program {program.name}\n"
            f"from kernelscope.runtime.boot import boot\n\n"
            f'boot(globals(), """\n{payload}\n""")\n'
        )

    def observed(self, program: Program, loaded: Loaded, probe: Probe) -> Call:
        """A program with probes, over the kernels and constants of a loaded one."""
        namespace = {**loaded.namespace, "probe": probe}
        install_kernels(namespace, loaded.kernels)
        run_source(namespace, emit_source(program).text(), f"{program.name}, observed")
        return namespace["call"]  # type: ignore[no-any-return]


def _load(program: Program, source: str) -> Call:
    namespace: dict[str, Any] = {"__name__": f"kernelscope.generated.{program.name}", **constant_tensors(program)}
    kernels = cpp_kernels(program)
    install_kernels(namespace, kernels)
    run_source(namespace, source, program.name)
    text = functools.partial(without_constants, program)
    register(Loaded(target=PythonTarget.name, text=text, namespace=namespace, kernels=kernels))
    return namespace["call"]  # type: ignore[no-any-return]
