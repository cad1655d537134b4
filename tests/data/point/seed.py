def point(out):
    out[:] = 0.5
