"""The process that fuzzes: one target under atheris and libFuzzer, started by :mod:`fuzz.engine`.

The modules of kproxy are instrumented, and so are the decoders that they generate from declarations: each
layout counts as code of its own. What is generated for a selection of fields, or for a filter, is not: there is no end
to it.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import CodeType
from typing import Any

import atheris
from atheris.instrument_bytecode import patch_code

from fuzz.target import limited, load

_GENERATOR = "dissectors.codegen"


def main(arguments: list[str]) -> None:
    """Fuzz; the arguments are a target and the options of libFuzzer. Does not return: libFuzzer ends the process."""
    name, *options = arguments
    with atheris.instrument_imports(include=["dissectors", "captures", "kproxy"]):
        target = load(name)
        # shadows the builtin in that module alone
        import_module(_GENERATOR).__dict__["compile"] = _compiled
        for _, data in target.seeds():
            target.run(
                data
            )  # what is imported when it is first needed is not to count as the time of an input
        # libFuzzer joins this and its options to a command where it starts itself again, as for --merge
        atheris.Setup([f"{sys.executable} -m fuzz.child {name}", *options], limited(target))
        atheris.Fuzz()  # inside: what is imported only when it is needed is instrumented too


def _compiled(source: str, name: str, mode: str) -> Any:
    code = compile(source, name, mode)
    assert isinstance(code, CodeType)
    return patch_code(code, trace_dataflow=True)


if __name__ == "__main__":
    main(sys.argv[1:])
