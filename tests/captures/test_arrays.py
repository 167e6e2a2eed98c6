"""Values in arrays: the same as found by numpy's own function."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from captures.arrays import distinct_values

_TYPES = st.sampled_from(("i2", "i4", "i8", "u1", "u2", "u4", "u8", ">u2"))


@given(arrays(_TYPES, st.integers(0, 40)))
def test_distinct_values_are_those_of_numpy(values: np.ndarray) -> None:
    found = distinct_values(values)
    assert found.tolist() == np.unique(values).tolist()
    assert found.dtype.newbyteorder("=") == values.dtype.newbyteorder("=")


def test_distances_beyond_the_signed_type_are_no_problem() -> None:
    values = np.arange(-32768, 32768, 3).astype(np.int16)
    assert distinct_values(np.tile(values, 2)).tolist() == values.tolist()


@pytest.mark.slow
def test_statistics_are_made_without_masked_arrays() -> None:
    code = """
import sys
from kproxy.cli import main
main(["stats", "--jobs", "1", "captures/samples/rebalance.pcap"], standalone_mode=False)
sys.exit("numpy.ma" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL).returncode == 0
