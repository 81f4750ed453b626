"""The command line, as a person uses it."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import pytest

from kernelscope.cli.main import main

MODEL = "import torch\n\ndef make():\n    return lambda x: (x @ x).relu(), (torch.ones(3, 3),)\n"


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return str(path)


def test_help_does_not_load_torch():
    code = textwrap.dedent(
        """
        import sys
        from kernelscope.cli.main import main
        try:
            main(["--help"])
        except SystemExit:
            assert "torch" not in sys.modules
        """
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "kernelscope run train.py" in done.stdout


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
    assert main(["show", saved, "--memory"]) == 0
    assert "peak bytes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "nowhere.json"], "there is no file"),
        (["run", "nowhere.py"], "there is no script"),
        (["show", __file__], "does not define make()"),
        (["show", "{model}", "--target", "fortran"], "unknown target"),
    ],
)
def test_wrong_use_is_explained(arguments, message, model, capsys):
    assert main([argument.format(model=model) for argument in arguments]) == 2
    assert message in capsys.readouterr().err


def test_run_sends_a_script_through_us(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys, torch

            @torch.compile
            def f(x):
                return x.sin() + 1

            model = torch.compile(torch.nn.Linear(2, 2), dynamic=False)
            print(f(torch.zeros(2)).tolist(), sys.argv[1:], __name__)
            model(torch.ones(1, 2))
            sys.exit(5)
            """
        )
    )
    done = subprocess.run(
        [sys.executable, "-m", "kernelscope.cli.main", "run", str(script), "a", "--b"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 5, done.stderr
    assert done.stdout.strip() == "[1.0, 1.0] ['a', '--b'] __main__"
    assert "kernelscope: 2 programs" in done.stderr


def test_doctor(capsys):
    assert main(["doctor", "--json"]) == 0
    findings = {finding["name"]: finding for finding in json.loads(capsys.readouterr().out)}
    assert findings["c++ compiler"]["state"] == "ok"
    assert findings["pytorch"]["state"] == "ok"
