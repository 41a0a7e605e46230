"""A named collection that entries add themselves to, once each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from umma_probe.errors import ConfigError, InternalError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")


class Registry(Generic[T]):
    """Insertion-ordered names to entries. A second entry under one name is a bug, an unknown name a usage error."""

    def __init__(self, what: str) -> None:
        self.what = what
        self._entries: dict[str, T] = {}

    def add(self, name: str, entry: T) -> T:
        """Register and return the entry.

        :raises InternalError: the name is taken.
        """
        if name in self._entries:
            raise InternalError(f"{self.what} '{name}' is registered twice")
        self._entries[name] = entry
        return entry

    def __getitem__(self, name: str) -> T:
        try:
            return self._entries[name]
        except KeyError:
            raise ConfigError(unknown_name(self.what, name, self._entries)) from None

    def get(self, name: str) -> T | None:
        """The entry, or None."""
        return self._entries.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def values(self) -> list[T]:
        """All entries in the order of registration."""
        return list(self._entries.values())

    def items(self) -> list[tuple[str, T]]:
        """All names with their entries in the order of registration."""
        return list(self._entries.items())
