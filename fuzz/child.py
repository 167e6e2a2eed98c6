"""The fuzzing process: one target under atheris and libFuzzer, started by :mod:`fuzz.engine`.

kproxy's modules are instrumented, and so are the decoders generated from declarations, so that each layout counts as
separate code. Decoders for a selection of fields or a filter are not instrumented, because their number is unlimited.
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
        # shadows the builtin only in that module
        import_module(_GENERATOR).__dict__["compile"] = _compiled
        cases = Cases(Path(index), FOUND / name)
        for path in cases.warm(target):
            print(f"Test unit written to {path}", flush=True)
        cases.forget_mended(target)
        run = guarded(target)

        def one(data: bytes) -> None:
            try:
                run(data)
            except Exception as error:  # any exception is a case; libFuzzer would exit here
                if path := cases.take(data, error):
                    print(f"{type(error).__name__}: {error}"[:300])
                    print(f"Test unit written to {path}", flush=True)

        setup: dict[str, Any] = {}
        if target.mutate is not None:
            setup["custom_mutator"] = mutator(target, [path.read_bytes() for path in kept(name)])
        # libFuzzer builds a command from this and its options to restart itself, for example for --merge
        atheris.Setup([f"{sys.executable} -m fuzz.child {name} {index}", *options], one, **setup)
        atheris.Fuzz()  # inside the block, so that modules imported on first use are instrumented too


def mutator(target: Target, others: list[bytes]) -> Callable[[bytes, int, int], bytes]:
    """Return the mutator for libFuzzer: that of the target, and sometimes libFuzzer's own.

    :param others: inputs whose pieces may be used
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
