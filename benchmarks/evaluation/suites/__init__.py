"""Suites: named lists of evaluations that go together, each on a fixed list of tasks.

A suite is a TOML file. `smoke` and `standard` need no data, `paper` follows the published protocols on real data,
`reference` is what the shipped leaderboard is made of.
"""
