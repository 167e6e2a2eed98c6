from __future__ import annotations

from ipaddress import IPv6Address, ip_address

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from captures.packets import AddressBook
from captures.packets.addresses import Interner

pytestmark = pytest.mark.slow


@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 9))))
def test_keys_are_numbered_in_the_order_they_are_met(batches: list[list[int]]) -> None:
    interner, expected = Interner(), dict[int, int]()
    for batch in batches:
        ids, fresh = interner.ids(np.array(batch, np.int64))
        new = [
            row
            for row, key in enumerate(batch)
            if expected.setdefault(key, len(expected)) == -1
            or (key not in batch[:row] and expected[key] >= len(interner) - len(fresh))
        ]
        assert ids.tolist() == [expected[key] for key in batch]
        assert fresh.tolist() == new
    assert len(interner) == len(expected)


@given(
    st.lists(
        st.tuples(st.ip_addresses() | st.just(ip_address("::1")), st.sampled_from([0, 9092, 65535])),
        min_size=1,
    )
)
def test_endpoints_keep_address_and_port(endpoints: list[tuple[object, int]]) -> None:
    book = AddressBook()
    addresses = [(ip_address(str(address)), port) for address, port in endpoints]
    ids = [book.intern(address.packed, port) for address, port in addresses]
    assert len(book) == len(set(addresses))
    for endpoint, (address, port) in zip(ids, addresses, strict=True):
        mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
        host = f"::ffff:{mapped}" if mapped is not None else str(address)
        assert (book.address(endpoint), book.host(endpoint), book.port(endpoint)) == (
            address.packed,
            host,
            port,
        )
        assert book.text(endpoint) == (f"[{host}]:{port}" if address.version == 6 else f"{host}:{port}")
    assert [book.intern(address.packed, port) for address, port in addresses] == ids
