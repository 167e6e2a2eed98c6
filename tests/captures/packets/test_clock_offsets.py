"""Clock offsets, against those with which the packets were made."""

import numpy as np
import pytest
from msgspec.structs import replace

from captures.arrays import Int64s
from captures.packets.clock_offsets import ClockOffset, offset_of

MS, US, SECOND = 1_000_000, 1_000, 1_000_000_000
BEGIN = 1_700_000_000 * SECOND
CLIENT, BROKER = 0, 1


def conversation(
    offset: Int64s | int,
    *,
    count: int = 4_000,
    seconds: float = 60.0,
    there: int = 80 * US,
    back: int = 120 * US,
    jitter: float = 300 * US,
    seed: int = 7,
    steps: int = 1,
) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """Packets both ways between two hosts that both capture; the broker's clock is ahead.

    :param there: the smallest delay from client to broker; the real ones are that and an exponential jitter
    :param steps: resolution of both clocks in ns
    :returns: what :func:`offset_of` takes
    """
    chance = np.random.default_rng(seed)
    sent = BEGIN + np.sort(chance.integers(0, int(seconds * SECOND), count))
    from_client = chance.random(count) < 0.5
    delay = np.where(from_client, there, back) + chance.exponential(jitter, count).astype(np.int64)
    arrived = sent + delay
    at_client = np.where(from_client, sent, arrived) // steps * steps
    at_broker = (np.where(from_client, arrived, sent) + offset) // steps * steps
    source = np.where(from_client, CLIENT, BROKER)
    return at_broker, at_broker - at_client, source, 1 - source


def drifting(per_second: float, seconds: float, count: int = 4_000, seed: int = 7) -> Int64s:
    """Offsets of a clock that gains, at the moments at which :func:`conversation` sends."""
    chance = np.random.default_rng(seed)
    since = np.sort(chance.integers(0, int(seconds * SECOND), count))
    return (3 * MS + since * per_second).astype(np.int64)


@pytest.mark.parametrize("offset", [0, 3_214_000, -3_214_000, 7_200 * SECOND + 1, -1_700_000_000 * SECOND])
@pytest.mark.parametrize("seed", range(5))
def test_a_constant_offset_is_found_within_its_uncertainty(offset: int, seed: int) -> None:
    found = offset_of(*conversation(offset, seed=seed))
    assert found.uncertainty is not None
    assert abs(found.offset - offset) <= found.uncertainty
    # half of both smallest delays, and what jitter leaves of them
    assert 100 * US <= found.uncertainty < 130 * US
    assert found.drift == 0.0
    assert not found.irregular


def test_delays_that_are_alike_cancel_out() -> None:
    found = offset_of(*conversation(5 * MS, there=100 * US, back=100 * US))
    assert abs(found.offset - 5 * MS) < 10 * US


def test_it_does_not_matter_which_host_has_which_number() -> None:
    time, difference, source, target = conversation(3 * MS)
    one, other = offset_of(time, difference, source, target), offset_of(time, difference, target, source)
    assert one.offset == other.offset


def test_seen_from_the_other_side_the_offset_is_the_opposite() -> None:
    time, difference, source, target = conversation(3 * MS)
    turned = offset_of(time - difference, -difference, source, target)
    assert abs(turned.offset + offset_of(time, difference, source, target).offset) <= 1


@pytest.mark.parametrize("drift", [50e-6, -200e-6])
def test_a_drift_is_found(drift: float) -> None:
    seconds = 120.0
    found = offset_of(*conversation(drifting(drift, seconds), seconds=seconds))
    assert found.drift == pytest.approx(drift, rel=0.05)
    assert found.uncertainty is not None
    truth = drifting(drift, seconds)
    wrong = np.abs(found.at(BEGIN + np.array([0, 120 * SECOND])) - truth[[0, -1]])
    assert wrong.max() < 2 * found.uncertainty
    assert found.uncertainty < 150 * US


def test_a_clock_that_was_set_is_followed() -> None:
    half = np.where(np.arange(4_000) < 2_000, 3 * MS, -40 * MS)
    time, difference, source, target = conversation(half)
    found = offset_of(time, difference, source, target)
    assert found.irregular
    wrong = np.abs(found.at(time) - half)
    # windows around the step are of both times
    assert np.mean(wrong < 300 * US) > 0.9


def test_captures_on_one_host_have_no_delay_between_them() -> None:
    found = offset_of(*conversation(0, there=0, back=0, jitter=0.4 * US))
    assert found.uncertainty is not None
    assert abs(found.offset) <= 1 * US
    assert found.uncertainty <= 1 * US


def test_clocks_that_count_microseconds() -> None:
    found = offset_of(*conversation(3_214_000, steps=1_000))
    assert found.uncertainty is not None
    assert abs(found.offset - 3_214_000) <= found.uncertainty + 1_000


def test_packets_that_were_held_up_do_not_matter() -> None:
    time, difference, source, target = conversation(3 * MS)
    late = np.arange(len(time)) % 3 == 0
    difference = difference + np.where(late & (source == CLIENT), 250 * MS, 0)
    difference = difference - np.where(late & (source == BROKER), 900 * MS, 0)
    found = offset_of(time, difference, source, target)
    assert abs(found.offset - 3 * MS) <= 130 * US


def test_one_direction_does_not_tell_offset_and_delay_apart() -> None:
    time, difference, source, target = (column[:5] for column in conversation(3 * MS))
    one = source == CLIENT
    found = offset_of(time[one], difference[one], source[one], target[one])
    assert found.uncertainty is None
    assert found.offset > 3 * MS


def test_two_packets_are_enough() -> None:
    found = offset_of(
        np.array([BEGIN, BEGIN + MS]), np.array([90 * US, -110 * US]), np.array([0, 1]), np.array([1, 0])
    )
    assert (found.offset, found.uncertainty) == (-10 * US, 100 * US)


def test_several_pairs_of_hosts_bound_the_offset_together() -> None:
    far = conversation(3 * MS, there=5 * MS, back=9 * MS, seed=1)
    near = conversation(3 * MS, there=50 * US, back=50 * US, seed=2)
    near = (near[0], near[1], near[2] + 2, near[3] + 2)
    both = [np.concatenate(columns) for columns in zip(far, near, strict=True)]
    found = offset_of(*both)
    assert abs(found.offset - 3 * MS) <= 60 * US
    assert found.uncertainty is not None
    assert found.uncertainty < 70 * US


def test_an_aligned_time_is_that_of_the_other_clock() -> None:
    found = ClockOffset(2, np.array([BEGIN]), np.array([3 * MS]), 1e-3, 0)
    times = BEGIN + np.array([0, SECOND])
    assert found.at(times).tolist() == [3 * MS, 4 * MS]
    irregular = replace(found, moments=times, offsets=np.array([0, 10 * MS]), drift=0.0)
    assert irregular.at(BEGIN + np.array([-SECOND, SECOND // 2, 9 * SECOND])).tolist() == [0, 5 * MS, 10 * MS]
