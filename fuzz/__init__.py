"""Fuzzing: arbitrary bytes are fed to all code that reads untrusted bytes, and invariants are checked.

``python -m fuzz TARGET`` runs a target under atheris, which searches for inputs that reach new code. Without atheris,
stored inputs can still be run through their target (``python -m fuzz TARGET FILE...``, ``tests/fuzz``).

Rules of this package:

* A target is a module of :mod:`fuzz.targets`. Its docstring states its input and its invariants.
* A target depends on its input alone: no clock, no random numbers, no state from earlier inputs.
* ``corpus/TARGET`` holds the seeds; ``python -m fuzz.seeds`` regenerates them.
* ``found/TARGET`` holds every input that ever broke a target. Defects are fixed; the inputs stay.
"""
