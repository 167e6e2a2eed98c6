"""The process that fuzzes: one target under atheris and libFuzzer, started by :mod:`fuzz.engine`.

The modules of kproxy are instrumented, and so are the decoders that they generate from declarations: each
layout counts as code of its own. What is generated for a selection of fields, or for a filter, is not: there is no end
to it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from random import Random
from types import CodeType
from typing import Any

import atheris
from atheris.instrument_bytecode import patch_code

from fuzz.cases import Cases, guarded
from fuzz.target import FOUND, Target, kept, load

_BY_LIBFUZZER = 0.3
_GENERATOR = "dissectors.codegen"


def main(arguments: list[str]) -> None:
    """Fuzz; the arguments are a target and the options of libFuzzer. Does not return: libFuzzer ends the process."""
    name, index, *options = arguments
    with atheris.instrument_imports(include=["dissectors", "captures", "kproxy"]):
        target = load(name)
        # shadows the builtin in that module alone
        import_module(_GENERATOR).__dict__["compile"] = _compiled
        cases = Cases(Path(index), FOUND / name)
        for path in cases.warm(target):
            print(f"Test unit written to {path}", flush=True)
        cases.forget_mended(target)
        run = guarded(target)

        def one(data: bytes) -> None:
            try:
                run(data)
            except Exception as error:  # whatever it is, it is the case; libFuzzer would end here
                if path := cases.take(data, error):
                    print(f"{type(error).__name__}: {error}"[:300])
                    print(f"Test unit written to {path}", flush=True)

        setup: dict[str, Any] = {}
        if target.mutate is not None:
            setup["custom_mutator"] = mutator(target, [path.read_bytes() for path in kept(name)])
        # libFuzzer joins this and its options to a command where it starts itself again, as for --merge
        atheris.Setup([f"{sys.executable} -m fuzz.child {name} {index}", *options], one, **setup)
        atheris.Fuzz()  # inside: what is imported only when it is needed is instrumented too


def mutator(target: Target, others: list[bytes]) -> Callable[[bytes, int, int], bytes]:
    """Return what libFuzzer is to change inputs with: what the target knows of them, and at times what it does itself.

    :param others: inputs of which pieces may be taken
    """
    mutate = target.mutate
    assert mutate is not None

    def changed(data: bytes, most: int, seed: int) -> bytes:
        rng = Random(seed)
        if rng.random() < _BY_LIBFUZZER:
            return bytes(atheris.Mutate(data, most))
        return mutate(bytes(data), rng.choice(others), rng)[:most]

    return changed


def _compiled(source: str, name: str, mode: str) -> Any:
    code = compile(source, name, mode)
    assert isinstance(code, CodeType)
    return patch_code(code, trace_dataflow=True)


if __name__ == "__main__":
    main(sys.argv[1:])
