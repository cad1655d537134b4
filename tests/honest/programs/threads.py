# pattern: threads of its own, joined before it returns, and state kept between calls
import threading

import numpy as np

halves = {}


def work(x, out, part):
    np.multiply(np.sqrt(np.abs(x[part])), np.float32(2), out=out[part])


def double_it(x, out, N):
    if N not in halves:
        halves[N] = slice(0, N // 2), slice(N // 2, N)
        print(f"first call of {N}")
    threads = [threading.Thread(target=work, args=(x, out, part)) for part in halves[N]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
