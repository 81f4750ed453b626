"""The command line, as a person uses it: what each command prints, and its exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import pytest

from kernelscope.cli.main import COMMANDS, main, parser

MODEL = "import torch\n\ndef make():\n    return lambda x: (x @ x).relu(), (torch.ones(3, 3),)\n"


@pytest.fixture
def written(tmp_path):
    """Writes a Python file; gives its path."""

    def write(name: str, text: str) -> str:
        path = tmp_path / name
        path.write_text(textwrap.dedent(text))
        return str(path)

    return write


@pytest.fixture
def model(written):
    return written("model.py", MODEL)


def command(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "kernelscope.cli.main", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def test_help_does_not_load_torch():
    code = textwrap.dedent(
        """
        import sys
        from kernelscope.cli.main import main
        try:
            main(["--help"])
        except SystemExit:
            assert "torch" not in sys.modules
            assert "rich" not in sys.modules
        """
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "kernelscope run train.py" in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_explains_itself_with_an_example(name, capsys):
    with pytest.raises(SystemExit) as caught:
        main([name, "--help"])
    assert caught.value.code == 0
    assert f"\n  kernelscope {name}" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["sho"], ["show"], ["run", "--on-unsupported", "maybe", "x.py"]])
def test_usage_errors(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: kernelscope" in capsys.readouterr().err


def test_a_script_has_its_own_options():
    options = parser().parse_args(["run", "--target", "python", "train.py", "--target", "other", "-o"])
    assert (options.target, options.script, options.args) == ("python", "train.py", ["--target", "other", "-o"])


def test_show(model, tmp_path, capsys):
    saved = str(tmp_path / "p.json")
    assert main(["show", model, "--save", saved]) == 0
    text = capsys.readouterr().out
    assert text.startswith('program "inference_')
    assert main(["show", saved]) == 0
    assert capsys.readouterr().out == text
    assert main(["show", saved, "--target", "python", "-o", str(tmp_path / "p.py")]) == 0
    assert "def call(args):" in (tmp_path / "p.py").read_text()
    assert main(["show", saved, "--summary", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kernel_calls"] == 1
    assert main(["show", saved, "--summary"]) == 0
    assert "max live bytes" in capsys.readouterr().out
    assert main(["show", saved, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["text"].rstrip("\n") == text.rstrip("\n")
    assert main(["show", saved, "--memory"]) == 0
    assert "peak bytes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "nowhere.json"], "there is no file"),
        (["run", "nowhere.py"], "there is no script"),
        (["show", __file__], "does not define make()"),
        (["show", "{model}", "--target", "fortran"], "unknown target"),
        (["show", "{model}", "-o", "{model}/x"], "cannot write"),
    ],
)
def test_wrong_use_is_explained(arguments, message, model, capsys):
    assert main([argument.format(model=model) for argument in arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message", "traceback"),
    [
        ("def make():\n    return [][1]\n", "fails: IndexError", "return [][1]"),
        ("import no_such_module\n", "fails: ModuleNotFoundError", "import no_such_module"),
        ("def make(:\n", "fails: SyntaxError", "def make(:"),
        ("def make():\n    return 1\n", "make() gives int", ""),
        ("import torch\ndef make():\n    return torch.sin, torch.ones(2)\n", "make() gives tuple", ""),
        (
            "import torch\ndef make():\n    return lambda x: x @ torch.ones(5), (torch.ones(3),)\n",
            "cannot be compiled",
            "return lambda x: x @ torch.ones(5)",
        ),
    ],
)
def test_errors_in_a_model_file_are_the_users(text, message, traceback, written, capsys):
    assert main(["show", written("mine.py", text)]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert traceback in err
    assert "cli/models.py" not in err


def test_a_model_file_may_import_its_neighbours(written, capsys):
    written("neighbour_of_random.py", "import torch\nX = torch.ones(3, 3)\n")
    path = written("random.py", "import neighbour_of_random as n\ndef make():\n    return lambda x: x.sin(), (n.X,)\n")
    assert main(["show", path, "--summary"]) == 0
    assert __import__("random").random() < 1


def test_an_internal_error_leaves_a_report(monkeypatch, capsys):
    monkeypatch.setattr("kernelscope.cli.doctor._CHECKS", (("broken", lambda: 1 / 0),))
    assert main(["doctor"]) == 70
    message, hint = capsys.readouterr().err.splitlines()
    assert "internal error: ZeroDivisionError" in message
    with open(hint.split()[-1]) as report:
        assert "lambda: 1 / 0" in report.read()
    os.unlink(hint.split()[-1])


def test_a_failing_compiler_is_an_external_tool(written, tmp_path):
    # The function is one that no test has built before.
    path = written("script.py", "import torch\nprint(torch.compile(lambda x: x.sin() - 0.8125)(torch.ones(7)))\n")
    done = command("run", path, KERNELSCOPE_CXX="/bin/false", KERNELSCOPE_CACHE_DIR=str(tmp_path / "cache"))
    assert done.returncode == 3, done.stderr
    assert "C++ compiler failed" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_that_had_enough_is_no_error(model):
    done = subprocess.run(
        f"{sys.executable} -m kernelscope.cli.main show {model} | true",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    # A CUDA build of PyTorch may log that it found no GPU.
    assert done.returncode == 0
    assert "kernelscope:" not in done.stderr
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def test_doctor(capsys):
    assert main(["doctor", "--json"]) == 0
    findings = {finding["name"]: finding for finding in json.loads(capsys.readouterr().out)}
    assert findings["c++ compiler"]["state"] == "ok"
    assert findings["pytorch"]["state"] == "ok"
    assert "MiB" in findings["kernel cache"]["text"] or "not there" in findings["kernel cache"]["text"]


def test_doctor_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setenv("KERNELSCOPE_CXX", "no-such-compiler")
    assert main(["doctor"]) == 1
    assert "apt-get install" in capsys.readouterr().out


def test_doctor_without_pytorch():
    code = textwrap.dedent(
        """
        import importlib.util, sys
        find = importlib.util.find_spec
        importlib.util.find_spec = lambda name, *rest: None if name == "torch" else find(name, *rest)
        from kernelscope.cli.main import main
        code = main(["doctor"])
        assert "torch" not in sys.modules
        sys.exit(code)
        """
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert 'pip install "torch' in done.stdout


def test_demo(capsys):
    assert main(["demo", "--lines", "3"]) == 0
    out = capsys.readouterr().out
    assert "cpp_fused" in out
    assert "= allocate f32" in out
    assert "Peak " in out
