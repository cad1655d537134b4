"""What stands between a candidate and the machine: each layer on its own, and the policy that combines them."""
