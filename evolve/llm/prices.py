"""What tokens cost. List prices are data, with their date and source; a user's own win."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files

from evolve.llm.answer import Usage
from evolve.llm.errors import MissingPriceError
from evolve.llm.settings import ModelName, PriceSettings

_MILLION = 1e6


@dataclass(frozen=True)
class Price:
    """US dollars per million tokens."""

    input: float
    output: float
    cached_input: float
    cache_write: float

    def cost(self, usage: Usage) -> float:
        """US dollars."""
        dollars = (
            usage.input * self.input
            + usage.cached_input * self.cached_input
            + usage.cache_write * self.cache_write
            + usage.output * self.output
        )
        return dollars / _MILLION

    def worst(self, usage: Usage) -> float:
        """The most that a usage can cost, whatever the provider's cache does with its input."""
        dearest = max(self.input, self.cached_input, self.cache_write)
        return ((usage.total - usage.output) * dearest + usage.output * self.output) / _MILLION


class PriceList:
    """Prices by model."""

    def __init__(self, prices: Mapping[ModelName, Price]) -> None:
        self._prices = dict(prices)

    @classmethod
    def load(cls, own: Mapping[str, PriceSettings]) -> PriceList:
        """The data file of this package, overridden by a user's own prices."""
        table = tomllib.loads(files("evolve.llm").joinpath("prices.toml").read_text("utf-8"))
        known = {name: PriceSettings.model_validate(entry["usd"]) for name, entry in table["models"].items()}
        return cls({ModelName.parse(name): _price(p) for name, p in {**known, **own}.items()})

    def of(self, model: ModelName) -> Price | None:
        """A model's price; ``None`` when unknown, which is never taken for zero."""
        return self._prices.get(model)

    def require(self, models: Iterable[ModelName]) -> None:
        """Refuse to start under a dollar cap while a price is missing.

        Raises:
            MissingPriceError: names the models and what to write.
        """
        unknown = sorted(str(m) for m in models if m not in self._prices)
        if unknown:
            raise MissingPriceError(
                f"a cap in dollars needs the price of {', '.join(unknown)}: add "
                f'[llm.prices."{unknown[0]}"] with input = … and output = … (USD per million tokens), or drop the cap'
            )


def _price(settings: PriceSettings) -> Price:
    own = settings.input
    return Price(
        input=own,
        output=settings.output,
        cached_input=own if settings.cached_input is None else settings.cached_input,
        cache_write=own if settings.cache_write is None else settings.cache_write,
    )
