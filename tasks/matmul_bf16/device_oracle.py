"""The oracle of ``reference.py`` on the device, for torch tensors."""


def oracle(inputs, rows=None):
    """``out`` in float64."""
    x = inputs["x"] if rows is None else inputs["x"][rows]
    return {"out": x.double() @ inputs["w"].double().T}
