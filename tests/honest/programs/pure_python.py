# pattern: slow but right
# task: softmax_rows
import math


def softmax(x, out, M, N):
    for i, row in enumerate(x.tolist()):
        top = max(row)
        exponentials = [math.exp(value - top) for value in row]
        total = math.fsum(exponentials)
        out[i] = [value / total for value in exponentials]
