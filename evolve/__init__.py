"""The search: it proposes programs, the judge (:mod:`evaluators`) decides, and a database remembers."""

__version__ = "0.1.0"
