"""How Kernelscope sits in PyTorch: caches, recompiles, modes, threads, processes, wrong use."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest
import torch

import kernelscope as ks
from kernelscope import config
from kernelscope.backend import observing
from kernelscope.errors import CallError, OptionError, UnsupportedError, VersionError
from tests.e2e.harness import same
from tests.threads import in_threads

pytestmark = pytest.mark.usefixtures("clean_compiler")


def model(x, w):
    return (torch.relu(x @ w) + x.sum(-1, keepdim=True)).softmax(-1)


def inputs(rows=4, columns=4):
    generator = torch.Generator().manual_seed(rows)
    return torch.randn(rows, 4, generator=generator), torch.randn(4, columns, generator=generator)


def programs_of(call):
    done = []
    with observing(done.append):
        call()
    return [compiled.program for compiled in done]


def plain(*args, **kwargs):
    torch._dynamo.reset()
    return torch.compile(model, **kwargs)(*args)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune-no-cudagraphs"])
def test_modes(mode):
    expected = plain(*inputs(), mode=mode)
    torch._dynamo.reset()
    assert same(expected, torch.compile(model, backend="kernelscope", mode=mode)(*inputs()))


@pytest.mark.parametrize("dynamic", [True, None, False])
def test_sizes_change(dynamic):
    compiled = torch.compile(model, backend="kernelscope", dynamic=dynamic)
    found = programs_of(lambda: [compiled(*inputs(rows)) for rows in (5, 7, 9)])
    assert len(found) == {True: 1, None: 2, False: 3}[dynamic]
    reference = torch.compile(model, backend="inductor", dynamic=dynamic)
    torch._dynamo.reset()
    expected = [reference(*inputs(rows)) for rows in (5, 7, 9)]
    torch._dynamo.reset()
    assert all(same(a, compiled(*inputs(rows))) for a, rows in zip(expected, (5, 7, 9), strict=True))


def test_graph_break_gives_two_programs():
    def broken(x, w):
        y = model(x, w)
        torch._dynamo.graph_break()
        return y * 2

    compiled = torch.compile(broken, backend="kernelscope")
    assert len(programs_of(lambda: compiled(*inputs()))) == 2


def test_autocast():
    def cast(x, w):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(x, w)

    expected = torch.compile(cast)(*inputs())
    torch._dynamo.reset()
    found = torch.compile(cast, backend="kernelscope", fullgraph=True)(*inputs())
    assert same(expected, found)


def test_gradients_and_no_grad():
    x, w = inputs()
    compiled = torch.compile(model, backend="kernelscope")
    with torch.no_grad():
        assert not compiled(x, w.requires_grad_()).requires_grad
    found = programs_of(lambda: compiled(x, w).sum().backward())
    assert [program.phase for program in found] == ["forward", "backward"]
    assert w.grad is not None


def test_threads_share_a_compiled_function():
    # Not dynamic=False: in PyTorch 2.11 threads that call such a function leave the setting behind in the process.
    compiled = torch.compile(model, backend="kernelscope")
    expected = compiled(*inputs())
    wrong = []

    def call():
        for _ in range(50):
            if not same(expected, compiled(*inputs())):
                wrong.append(1)

    in_threads(8, call)
    assert wrong == []


SCRIPT = textwrap.dedent(
    """
    import sys, time, torch
    from kernelscope.backend import observing
    from kernelscope.runtime import compiler
    ran = []
    original = compiler.run
    compiler.run = lambda command, kept: (ran.append(command), original(command, kept=kept))
    torch.manual_seed(0)
    x, w = torch.randn(4, 4), torch.randn(4, 4)
    done = []
    with observing(done.append):
        y = torch.compile(lambda x, w: torch.relu(x @ w).softmax(-1) * 3, backend="kernelscope", dynamic=False)(x, w)
    print(len(ran), len(done), y.sum().item())
    """
)


def _start(folder):
    env = {
        **os.environ,
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "KERNELSCOPE_CACHE_DIR": str(folder / "kernels"),
    }
    return subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, text=True, env=env)


def _answer(process):
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 0
    return out.split()


def test_two_processes_start_cold_at_once_and_a_third_is_warm(tmp_path):
    first, second = _start(tmp_path), _start(tmp_path)
    cold = [_answer(first), _answer(second)]
    warm = _answer(_start(tmp_path))
    assert warm[:2] == ["0", "0"], "a warm process compiles neither kernels nor graphs"
    assert len({answer[2] for answer in (*cold, warm)}) == 1


def test_unknown_option():
    with pytest.raises(Exception, match="unknown option 'tarrget'") as caught:
        torch.compile(model, backend="kernelscope", options={"tarrget": "python"})(*inputs())
    assert isinstance(caught.value.inner_exception, OptionError)


def test_unknown_target():
    with pytest.raises(Exception, match="unknown target 'fortran'"):
        torch.compile(model, backend="kernelscope", options={"target": "fortran"})(*inputs())


def test_wrong_value_of_an_option():
    with pytest.raises(Exception, match="cannot be 'maybe'"):
        torch.compile(model, backend="kernelscope", options={"on_unsupported": "maybe"})(*inputs())


def test_options_of_inductor_are_taken():
    compiled = torch.compile(model, backend="kernelscope", options={"size_asserts": False})
    assert same(plain(*inputs()), compiled(*inputs()))


@pytest.mark.parametrize("version", ["2.10.1", "2.16.0", "1.13.0"])
def test_unsupported_pytorch(version):
    from kernelscope.capture.inductor.versions import check_version

    with pytest.raises(VersionError, match="not supported"):
        check_version(version)


@pytest.fixture
def unsupported(monkeypatch):
    from kernelscope.capture.inductor import operators

    def refuse(node):
        raise UnsupportedError("operator mm is refused by this test", where="aten.mm")

    monkeypatch.setattr(operators, "operator_of", refuse)


def test_unsupported_fails_by_name(unsupported):
    with pytest.raises(Exception, match="operator mm is refused"):
        torch.compile(model, backend="kernelscope")(*inputs())


def test_unsupported_falls_back_when_asked(unsupported):
    compiled = torch.compile(model, backend="kernelscope", options={"on_unsupported": "inductor"})
    with pytest.warns(UserWarning, match="plain Inductor"):
        found = compiled(*inputs())
    assert same(plain(*inputs()), found)


@pytest.mark.parametrize("name", ["python", "interpreter"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda args: args[:1], "takes 2 inputs"),
        (lambda args: [args[0].double(), args[1]], "float64"),
        (lambda args: [args[0][:2], args[1]], "size"),
        (lambda args: [args[0].t(), args[1]], "stride"),
        (lambda args: [args[0].to("meta"), args[1]], "meta"),
        (lambda args: ["x", args[1]], "a str"),
    ],
)
def test_wrong_inputs_are_refused(name, change, message):
    call = ks.capture(model, *inputs()).emit(name).load()
    with torch.no_grad(), pytest.raises(CallError, match=message):
        call(change(list(inputs())))


def test_capture_and_save(tmp_path):
    program = ks.capture(model, *inputs())
    program.save(tmp_path / "p.json")
    again = ks.Program.load(tmp_path / "p.json")
    assert again == program
    assert str(again) == str(program)
    with torch.no_grad():
        (found,) = again.emit("python").load()([*inputs()])
    torch._dynamo.reset()
    assert same(plain(*inputs(), dynamic=False), found)


def test_capture_training():
    x, w = inputs()
    forward, backward = ks.capture_training(model, x, w.requires_grad_())
    assert (forward.phase, backward.phase) == ("forward", "backward")
    assert w.grad is None


def test_capture_refuses_several_graphs():
    def broken(x):
        torch._dynamo.graph_break()
        return x + 1

    with pytest.raises(UnsupportedError, match="not one graph"):
        ks.capture(broken, inputs()[0])


def test_plain_inductor_is_not_touched():
    torch.compile(model, backend="kernelscope")(*inputs())
    torch._dynamo.reset()
    assert programs_of(lambda: plain(*inputs())) == []


def test_settings_choose_the_target():
    with config.override(target="interpreter"):
        done = []
        with observing(done.append):
            torch.compile(model, backend="kernelscope")(*inputs())
    assert [compiled.target for compiled in done] == ["interpreter"]
