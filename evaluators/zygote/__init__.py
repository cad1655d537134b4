"""The process that forks runners and builders into the sandbox, and the judge's handle on it."""
