"""The noise study: how often duels are wrong, and what they see."""
