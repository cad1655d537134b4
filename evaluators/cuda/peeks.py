"""Where a round's outputs are looked at after the reply: told to the device before the round."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evaluators.cuda.device import Gpu, Scratch, bytes_at

LEAST_PLACES = 1 << 13
Places = npt.NDArray[np.intp]


class Peeks:
    """A table of places in one runner's outputs that lies ready on the device.

    Looking there takes a kernel and its answer then, and nobody has to hand over a table first.
    """

    def __init__(self, gpu: Gpu, outputs: int) -> None:
        """``outputs`` is the address from which places count."""
        self._gpu, self._outputs = gpu, outputs
        self._places: Places | None = None
        self._table: Scratch | None = None

    def hold(self, places: Places) -> None:
        """Have these ready."""
        self._places = places
        if len(places) == 0:
            return
        values = places.astype(np.uint64)
        if self._table is not None and self._table.nbytes >= values.nbytes:
            self._gpu.upload(self._table.address, values)
            return
        self.close()
        self._table = Scratch(self._gpu, np.resize(values, max(len(values), LEAST_PLACES)))

    def look(self, places: Places) -> npt.NDArray[np.uint8]:
        """The bytes that lie there; the quicker where these places were made ready last."""
        if places is not self._places or self._table is None or len(places) == 0:
            return bytes_at(self._gpu, self._outputs, places)
        found = np.empty(len(places), np.uint8)
        target = self._gpu.room("gathered", found.nbytes)
        self._gpu.launch("gather", len(places), self._outputs, self._table.address, len(places), target)
        self._gpu.download(found, target)
        return found

    def close(self) -> None:
        """Give the table's memory back."""
        if self._table is not None:
            self._table.close()
            self._table = None
