"""The judge: everything that decides whether a candidate program is right and how fast it is.

Knows nothing of islands, language models or SQL. The search (``evolve``) talks to it through
:mod:`evaluators.client` only.
"""
