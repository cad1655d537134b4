"""Outside coding agents and people taking part in a run: what they see, how they hand in, and steering it."""
