"""All errors of Kernelscope.

``KernelscopeError``: the user can act on it. Its text says what is wrong, where, and what to do; the command line
prints it without a traceback. ``InternalError``: a bug of ours.
"""

from __future__ import annotations


class KernelscopeError(Exception):
    """An error the user can act on.

    Args:
        what: What is wrong.
        where: The place: a program line, a file, an operator.
        hint: What to do about it.
    """

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(what, where, hint)
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        parts = [self.what]
        if self.where:
            parts.append(f"  where: {self.where}")
        if self.hint:
            parts.append(f"  what to do: {self.hint}")
        return "\n".join(parts)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.what, self.where, self.hint)


def _rebuild(kind: type[KernelscopeError], what: str, where: str, hint: str) -> KernelscopeError:
    return kind(what, where=where, hint=hint)


class ProgramTextError(KernelscopeError):
    """Text that is not a program, or not one this version reads."""


class ProgramFileError(KernelscopeError):
    """A program file that is truncated, foreign, or of an unknown version."""


class TraceError(KernelscopeError):
    """A trace, or a flight recorder's file, that is missing, truncated, foreign, or of an unknown version."""


class VerifyError(KernelscopeError):
    """A program that breaks a rule of the IR."""


class UnsupportedError(KernelscopeError):
    """The capture met something that the IR cannot express."""


class OptionError(KernelscopeError):
    """An unknown option, or a value it cannot have."""


class VersionError(KernelscopeError):
    """A version of PyTorch that this release does not know."""


class BuildError(KernelscopeError):
    """An external tool (the C++ compiler) failed or is missing."""


class CallError(KernelscopeError):
    """A compiled program was called with the wrong number, shape, dtype or device of arguments."""


class KernelFault(KernelscopeError):
    """A kernel or operator wrote a value that breaks a check.

    Args:
        what: What is wrong.
        where: Program, call, element, and the model's line.
        hint: What to do about it.
        kernel: The kernel or operator.
        argument: The label of the value.
        index: The index of an element that shows it; None where the check tells none.
        value: That element.
        check: The check's name.
        inputs_clean: Whether everything the call was given passed the check.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str = "",
        hint: str = "",
        kernel: str = "",
        argument: str = "",
        index: tuple[int, ...] | None = None,
        value: object = None,
        check: str = "",
        inputs_clean: bool = True,
    ) -> None:
        super().__init__(what, where=where, hint=hint)
        self.kernel = kernel
        self.argument = argument
        self.index = index
        self.value = value
        self.check = check
        self.inputs_clean = inputs_clean

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_fault, (self.what, dict(self.__dict__))


def _rebuild_fault(what: str, fields: dict[str, object]) -> KernelFault:
    fault = KernelFault(what)
    fault.__dict__.update(fields)
    return fault


class InternalError(Exception):
    """A bug of Kernelscope."""
