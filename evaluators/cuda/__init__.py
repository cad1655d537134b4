"""The judge on NVIDIA GPUs: device memory, rounds, floors. The driver is called by ctypes; no torch here."""
