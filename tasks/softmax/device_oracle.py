"""The oracle of ``reference.py`` on the device, for torch tensors."""


def oracle(inputs, rows=None):
    """``out`` in float64."""
    x = (inputs["x"] if rows is None else inputs["x"][rows]).double()
    terms = (x - x.max(dim=1, keepdim=True).values).exp()
    return {"out": terms / terms.sum(dim=1, keepdim=True)}
