"""Prints docs/environment.md from the settings' own record."""

import dataclasses

from kernelscope.config import Config
from kernelscope.watch import PRINTER_FILTER, PRINTER_LEVEL


def page() -> str:
    """The page's text."""
    rows = []
    for field in dataclasses.fields(Config):
        choices = ", ".join(f"`{choice}`" for choice in field.metadata["choices"]) or field.metadata["values"]
        default = field.metadata["default_text"] or f"`{field.default}`"
        rows.append(
            f"| `{field.metadata['variable']}` | `{field.name}` | {choices} | {default} | {field.metadata['doc']} |"
        )
    return "\n".join(
        [
            "# Environment",
            "",
            "Made by `make docs` from `kernelscope/config.py`. An unknown `KERNELSCOPE_*` name is an error.",
            'The same settings can be given in a scope: `with kernelscope.config.override(target="interpreter"): ...`;',
            "`target` and `on_unsupported` also as `torch.compile(..., options={...})`, which wins over both.",
            "",
            "| variable | setting | values | default | meaning |",
            "|---|---|---|---|---|",
            *rows,
            "",
            "PyTorch's own variables of its printer are obeyed too, once per process; a `ks.scope` that is open wins:",
            "",
            "| variable | meaning |",
            "|---|---|",
            f"| `{PRINTER_LEVEL}` | 0 nothing, 1 saves tensors to `kernelscope-tensors/`, 2 prints values, 3 names |",
            f"| `{PRINTER_FILTER}` | names of kernels and operators with commas between them; globs too |",
            "",
        ]
    )


if __name__ == "__main__":
    print(page(), end="")
