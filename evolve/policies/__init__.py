"""Decisions of the search, as pure functions: no storage, no judge, randomness only through ``rng``."""
