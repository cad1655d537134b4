def sort_rows(keys, M, N):
    keys.sort(axis=1)
