"""Groups over time: who was a member when, what every rebalance came from, and what it cost."""
