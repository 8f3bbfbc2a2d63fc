"""What an engine demands of its arguments before it loads anything: told from the profile, without a start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from console.domain.profile import ArgValue


@dataclass(frozen=True, slots=True)
class Demand:
    """One thing that the arguments do not hold."""

    flag: str
    """As the profile spells it."""
    text: str
    hint: str = ""
    fatal: bool = True
    """Whether the launch would end with it; otherwise something has no effect, or goes unchecked."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What the model's `config.json` says; `None` for what it does not."""

    architecture: str = ""
    heads: int | None = None
    kv_heads: int | None = None
    experts: int | None = None
    positions: int | None = None
    """Longest context, scaling of the positions included."""
    quantization: str | None = None
    read: bool = False
    """Whether the file was read at all: without it nothing is concluded from what is missing."""


def model_facts(said: Mapping[str, object] | None) -> ModelFacts:
    """Return the facts of a model from what the host said of its folder."""
    if not said or said.get("fault"):
        return ModelFacts()
    architectures = said.get("architectures")
    scaling = said.get("rope_scaling")
    positions = _whole(said.get("max_position_embeddings"))
    if isinstance(scaling, Mapping) and positions is not None:
        original, factor = _whole(scaling.get("original_max_position_embeddings")), scaling.get("factor")
        if isinstance(factor, (int, float)) and not isinstance(factor, bool) and factor > 1:
            positions = max(positions, int((original or positions) * factor))
    quantization = said.get("quantization")
    return ModelFacts(
        str(architectures[0]) if isinstance(architectures, list) and architectures else "",
        _whole(said.get("num_attention_heads")),
        _whole(said.get("num_key_value_heads")),
        _whole(said.get("experts")),
        positions,
        quantization if isinstance(quantization, str) else None,
        read=True,
    )


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


class Asked:
    """The arguments of a profile by the one name of each flag."""

    def __init__(self, args: Mapping[str, ArgValue], same: Mapping[str, str]) -> None:
        self._args = {same.get(name, name): (name, value) for name, value in args.items() if value is not False}

    def __contains__(self, name: str) -> bool:
        return name in self._args

    def __iter__(self) -> Iterator[str]:
        return iter(self._args)

    def spelled(self, name: str) -> str:
        """Return a flag as the profile spells it."""
        return self._args[name][0] if name in self._args else name

    def value(self, name: str) -> ArgValue | None:
        """Return the value of a flag; `None` when it is not given."""
        return self._args[name][1] if name in self._args else None

    def number(self, name: str) -> float | None:
        """Return the number that a flag is given; `None` when it is not given, or no number."""
        value = self.value(name)
        if isinstance(value, str):
            try:
                return float(value)
            except ValueError:
                return None
        return None if value is None or isinstance(value, (bool, tuple, Mapping)) else float(value)

    def count(self, name: str, default: int = 1) -> int:
        """Return a whole number of at least one, the default where the flag gives none."""
        value = self.number(name)
        return int(value) if value is not None and value >= 1 else default

    def text(self, name: str) -> str | None:
        """Return the text that a flag is given."""
        value = self.value(name)
        return value if isinstance(value, str) else None


Range = tuple[float | None, bool, float | None, bool, str]
"""Lowest, whether it belongs to the range, highest, whether it does, and what the engine does otherwise."""


def out_of_range(asked: Asked, ranges: Mapping[str, Range]) -> list[Demand]:
    """Return the flags whose number is outside of what can work."""
    found = []
    for name, (low, low_in, high, high_in, why) in ranges.items():
        value = asked.number(name)
        if value is None:
            continue
        below = low is not None and (value < low or (value == low and not low_in))
        above = high is not None and (value > high or (value == high and not high_in))
        if below or above:
            bounds = [f"{'at least' if low_in else 'above'} {low:g}"] if low is not None else []
            bounds += [f"{'at most' if high_in else 'below'} {high:g}"] if high is not None else []
            said = f"is {asked.value(name)}; it must be {' and '.join(bounds)}"
            found.append(Demand(asked.spelled(name), said + (f" ({why})" if why else "")))
    return found


def shared_heads(asked: Asked, flag: str, share: int, model: ModelFacts, what: str) -> list[Demand]:
    """Return whether attention heads can be shared out evenly."""
    if share <= 1 or not model.heads:
        return []
    if model.heads % share:
        said = f"is {asked.value(flag)}: {model.heads} attention heads are not divisible by {share} ({what})"
        return [Demand(asked.spelled(flag), said)]
    return []


def longer_than_model(
    asked: Asked, flag: str, model: ModelFacts, unless: str, env: Mapping[str, object]
) -> list[Demand]:
    """Return whether a context is asked for that the model does not have."""
    length = asked.number(flag)
    if length is None or not model.positions or length <= model.positions or str(env.get(unless, "")) in ("1", "true"):
        return []
    said = f"is {length:.0f}; the model's config.json allows {model.positions}"
    return [Demand(asked.spelled(flag), said, f'{unless} = "1" under [launch.env] lets it pass')]


def opposites(asked: Asked) -> list[Demand]:
    """Return the flags that are given together with their opposite."""
    found = []
    for name in asked:
        for opposite in (f"no-{name}", name.replace("enable-", "disable-", 1) if name.startswith("enable-") else ""):
            if opposite and opposite != name and opposite in asked:
                found.append(Demand(asked.spelled(name), f"and {asked.spelled(opposite)} say the opposite", "keep one"))
    return found
