"""Fuzzing: any bytes are fed to what reads bytes of others, and what must hold for all of them is checked.

``python -m fuzz TARGET`` runs one target under atheris, which looks for inputs that reach new code; without atheris
every input that is kept can still be run through its target (``python -m fuzz TARGET FILE...``, ``tests/fuzz``).

Rules of this package:

* A target is one module of :mod:`fuzz.targets`. Its docstring states what it feeds and what must hold.
* A target depends on nothing but its input: no clock, no random numbers, no state of earlier inputs.
* ``corpus/TARGET`` holds the inputs to begin with; ``python -m fuzz.seeds`` makes them anew.
* ``found/TARGET`` holds every input that ever broke a target. The defect is mended, the input stays.
"""
