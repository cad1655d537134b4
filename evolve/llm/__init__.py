"""Language models: clients of two wire formats, retries, money, and the choice of a model for an operator.

Nothing here imports a provider's SDK until a client is made.
"""
