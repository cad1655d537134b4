def count(out):
    out[:] = 3
