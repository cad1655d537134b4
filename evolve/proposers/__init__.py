"""What makes programs out of programs. Each module holds one :class:`~evolve.types.Proposer`."""
