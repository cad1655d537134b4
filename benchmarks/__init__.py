"""Programs behind the figures in README and docs, and what they recorded."""
