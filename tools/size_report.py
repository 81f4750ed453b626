"""Prints how large files and functions are: medians, ninth deciles, and the five longest functions."""

import ast
import statistics
from pathlib import Path

ROOT = Path(__file__).parent.parent / "src"


def main() -> None:
    files, bodies = [], []
    for path in sorted(ROOT.rglob("*.py")):
        text = path.read_text()
        files.append(len(text.splitlines()))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                length = (node.end_lineno or 0) - node.body[0].lineno + 1
                bodies.append((length, f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"))
    lengths = [length for length, _ in bodies]
    for name, values in (("file", files), ("body", lengths)):
        print(
            f"{name}: median {statistics.median(values):.0f}, ninth decile {statistics.quantiles(values, n=10)[8]:.0f}"
        )
    for length, where in sorted(bodies, reverse=True)[:5]:
        print(f"{length:5d}  {where}")


if __name__ == "__main__":
    main()
