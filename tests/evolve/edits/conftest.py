"""Hypothesis without deadlines: a busy machine is no failure. What may take long has a test of its own."""

from hypothesis import settings

settings.register_profile("steady", deadline=None)
settings.load_profile("steady")
