"""Stand-ins for what a test cannot have: model servers that speak the providers' real wire formats, on loopback."""
