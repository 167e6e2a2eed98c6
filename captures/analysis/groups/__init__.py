"""Groups over time: their members, and the causes and costs of every rebalance."""
