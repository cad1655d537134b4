# pattern: a stream of its own, joined before it returns
# @softmax.py@


def softmax(x, out, M, N):
    if not x.is_cuda:
        launch(x, out, M, N)
        return
    own, current = torch.cuda.Stream(), torch.cuda.current_stream()
    own.wait_stream(current)
    with torch.cuda.stream(own):
        launch(x, out, M, N)
    current.wait_stream(own)
