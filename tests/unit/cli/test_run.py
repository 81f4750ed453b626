"""``kernelscope run``: a script is what it is under Python, but for where its graphs go."""

from __future__ import annotations

import pytest


def test_every_default_compile_goes_through_us(run):
    done = run(
        """
        import sys, threading, torch

        @torch.compile
        def f(x):
            return x.sin() + 1

        @torch.compile(dynamic=False, fullgraph=True)
        def g(x):
            return x.cos() + 1

        class Model(torch.nn.Module):
            def forward(self, x):
                return x.exp() + 1

        model = Model()
        model.compile(backend="inductor")
        print(f(torch.zeros(2)).tolist(), g(torch.zeros(3)).tolist(), sys.argv[1:], __name__)
        model(torch.ones(1, 2))
        thread = threading.Thread(target=torch.compile(lambda x: x.tan() + 1), args=(torch.ones(4),))
        thread.start()
        thread.join()
        sys.exit(5)
        """,
        args=("a", "--b"),
    )
    assert done.returncode == 5, done.stderr
    assert done.stdout.strip() == "[1.0, 1.0] [2.0, 2.0, 2.0] ['a', '--b'] __main__"
    assert "kernelscope: 4 graphs through target python" in done.stderr


def test_target_and_options(run):
    done = run(
        """
        import torch
        compiled = torch.compile(lambda x: x.sin() * 3, options={"epilogue_fusion": False})
        print(torch.equal(compiled(torch.ones(5)), torch.ones(5).sin() * 3))
        """,
        "--target",
        "interpreter",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "True"
    assert "1 graph through target interpreter" in done.stderr


def test_other_backends_are_left_alone(run):
    done = run("import torch\ntorch.compile(lambda x: x + 1, backend='eager')(torch.ones(2))\n")
    assert (done.returncode, done.stderr.strip()) == (0, "kernelscope: nothing was compiled")


def test_the_users_traceback_is_kept(run):
    done = run("import torch\ndef mine():\n    raise ValueError('mine')\nmine()\n", "--quiet")
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback (most recent call last):\n  File ")
    assert done.stderr.endswith("ValueError: mine\n")
    assert "runpy" not in done.stderr
    assert done.stderr.count("  File ") == 2


def test_a_syntax_error_is_the_users(run):
    done = run("def f(:\n", "--quiet")
    assert done.returncode == 1
    assert "SyntaxError" in done.stderr
    assert "internal error" not in done.stderr


@pytest.mark.parametrize(("text", "code"), [("raise SystemExit", 0), ("import sys; sys.exit('why')", 1)])
def test_exit_codes(text, code, run):
    assert run(text).returncode == code


def test_an_error_of_ours_says_where_the_script_was(run):
    done = run("import torch\n\ntorch.compile(lambda x: x + 1)(torch.ones(2))\n", "--target", "fortran")
    assert done.returncode == 2
    assert "script.py:3" in done.stderr
    assert "kernelscope: unknown target 'fortran'" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_script_finds_its_neighbours_and_not_ours(run, tmp_path):
    (tmp_path / "beside.py").write_text("VALUE = 3\n")
    done = run("import beside, sys\nprint(beside.VALUE, sys.path[0])\n")
    assert done.stdout.split() == ["3", str(tmp_path)]
