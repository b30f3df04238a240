"""A pool of models by name: loaded ahead, exchanged under load, thrown out when memory runs short.

Owns: the models, and who is using them. Must never close a model that somebody uses, or take one
away before its successor is ready.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ascendrt.clocks import Clock, clock, thread_id
from ascendrt.closing import Closing, close_all
from ascendrt.device import Scope
from ascendrt.errors import AscendrtError, OutOfMemoryError
from ascendrt.model import Model, Source, required_memory
from ascendrt.numbers import whole


class UnknownModelError(AscendrtError, KeyError):
    """The pool has no model of this name."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True)
class PooledModel:
    """What a pool knows of one of its models."""

    name: str
    loaded: bool
    users: int
    version: int  # counts exchanges
    runs: int
    size_bytes: int  # work and weight memory


class _Loaded:
    """A model in use; the pool's lock guards the numbers."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.threads: list[int] = []  # one for each user
        self.retired = False

    @property
    def users(self) -> int:
        return len(self.threads)

    def is_others(self) -> bool:
        """True while only other threads use it."""
        return bool(self.threads) and thread_id() not in self.threads


class _Entry:
    def __init__(self, name: str, source: Source, order: int) -> None:
        self.name = name
        self.source = source
        self.size_bytes = _size_of(source)
        self.current: _Loaded | None = None
        self.loading = False
        self.version = 1
        self.runs = 0
        self.used = order


class ModelPool(Closing):
    """Models by name on the current device.

    `budget_bytes` bounds what the loaded models need together; beyond it, and when the device has
    no room, the ones that were not used for longest are unloaded, and loaded again when they are
    asked for. Models in use stay.

    A model is found as it was when the request began: an exchange lets running requests end on the
    old model, and unloads it with the last of them.
    """

    def __init__(
        self,
        *,
        budget_bytes: int | None = None,
        load: Callable[[Source], Model] = Model,
        clock: Clock | None = None,
    ) -> None:
        if budget_bytes is not None:
            budget_bytes = whole(budget_bytes, "budget_bytes", 0)
        self._budget_bytes = budget_bytes
        self._load_model = load
        self._scope = Scope()
        self._changed = (clock or _the_clock()).condition()
        self._entries: dict[str, _Entry] = {}
        self._order = 0
        self._evictions = 0
        self._closed = False

    def __repr__(self) -> str:
        return "ModelPool(closed)" if self._closed else f"ModelPool({', '.join(self._entries)})"

    # ---- what is in the pool

    def add(self, name: str, source: Source, *, preload: bool = True) -> None:
        """Take a model in, and load it now unless told otherwise.

        Raises: ValueError for a name that is taken; as Model and OutOfMemoryError when preloading.
        """
        if not isinstance(name, str):
            raise TypeError(f"the name of a model is a text, not {name!r}")
        with self._changed:
            self._require_open()
            if name in self._entries:
                raise ValueError(f"the pool has a model {name!r}; exchange it with swap()")
            self._order += 1
            self._entries[name] = _Entry(name, source, self._order)
        if preload:
            try:
                with self.lease(name), self._changed:
                    self._entries[name].runs -= 1  # it is none
            except BaseException:
                with self._changed:
                    self._entries.pop(name, None)
                raise

    def swap(self, name: str, source: Source) -> None:
        """Exchange a model: requests that begin after this run on the new one.

        The new model is loaded before the old one goes, so both need room for a moment. When it
        cannot be loaded the old one stays. Raises: UnknownModelError, also when it was taken out
        meanwhile; ValueError when the pool was closed meanwhile; as Model.
        """
        with self._changed:
            entry = self._entry(name)
        model = self._load(source, keep=entry, size_bytes=_size_of(source))
        with self._changed:
            late = self._entries.get(name) is not entry or self._closed
            if late:
                old: _Loaded | None = _Loaded(model)
            else:
                old, entry.current = entry.current, _Loaded(model)
                entry.source, entry.size_bytes = source, _size_of(source)
                entry.version += 1
                self._changed.notify_all()
            closing = self._retire(old)
        _close(closing)
        if late:
            with self._changed:
                self._require_open()
                raise UnknownModelError(f"model {name!r} was taken out of the pool meanwhile")

    def remove(self, name: str) -> None:
        """Take a model out; requests that run on it end first. Raises: UnknownModelError."""
        with self._changed:
            entry = self._entry(name)
            del self._entries[name]
            closing = self._retire(entry.current)
            entry.current = None
        _close(closing)

    def models(self) -> list[PooledModel]:
        """Return what is in the pool, in the order in which it was added."""
        with self._changed:
            return [
                PooledModel(
                    entry.name, entry.current is not None,
                    entry.current.users if entry.current else 0, entry.version, entry.runs,
                    entry.size_bytes,
                )
                for entry in self._entries.values()
            ]  # fmt: skip

    @property
    def evictions(self) -> int:
        """How often a model was unloaded to make room."""
        return self._evictions

    # ---- requests

    @contextmanager
    def lease(self, name: str) -> Iterator[Model]:
        """Use a model: `with pool.lease(name) as model`. It stays loaded until the block ends.

        Raises: UnknownModelError; as Model when it has to be loaded.
        """
        user = thread_id()
        loaded = self._begin(name)
        try:
            yield loaded.model
        finally:
            with self._changed:
                loaded.threads.remove(user)
                closing = loaded.model if loaded.retired and not loaded.users else None
                self._changed.notify_all()
            _close(closing)
            self._keep_budget(keep=self._entries.get(name))

    def __call__(
        self, name: str, /, *arrays: npt.ArrayLike, **named: npt.ArrayLike
    ) -> list[np.ndarray[Any, Any]]:
        """Run a model once; as Model. Raises: UnknownModelError; as Model."""
        with self.lease(name) as model:
            return model(*arrays, **named)

    def close(self) -> None:
        """Unload everything; waits for requests that run on other threads.

        A model that the calling thread uses goes at the end of that use, and so do all in the
        function of a signal that came in the midst of another call.
        """
        if self._changed.is_parents:
            return  # and its threads close it
        waits = not self._changed.is_held
        with self._changed:
            self._closed = True
            entries, self._entries = list(self._entries.values()), {}
            loaded = [entry.current for entry in entries if entry.current is not None]
            closing = [model for each in loaded if (model := self._retire(each)) is not None]
            if waits:
                self._changed.wait_for(lambda: not any(each.is_others() for each in loaded))
        close_all(closing)

    # ---- loading

    def _begin(self, name: str) -> _Loaded:
        """Count a user of the model, which is loaded when it is not."""
        with self._changed:
            entry = self._entry(name)
            self._changed.wait_for(lambda: entry.current is not None or not entry.loading)
            while (current := entry.current) is not None:
                self._use(entry, current)
                if not current.model.closed:
                    return current
                current.threads.remove(thread_id())  # a signal's function exchanged it meanwhile
                entry = self._entry(name)
            entry.loading = True
        loaded = None
        try:
            loaded = _Loaded(self._load(entry.source, keep=entry, size_bytes=entry.size_bytes))
        finally:
            with self._changed:
                entry.loading = False
                if loaded is not None:
                    loaded.retired = self._entries.get(name) is not entry
                    if entry.current is None and not loaded.retired:
                        entry.current = loaded
                    else:
                        loaded.retired = True  # somebody exchanged it meanwhile
                    self._use(entry, loaded)
                self._changed.notify_all()
        return loaded

    def _use(self, entry: _Entry, loaded: _Loaded) -> None:
        self._order += 1
        entry.used = self._order
        entry.runs += 1
        loaded.threads.append(thread_id())

    def _load(self, source: Source, *, keep: _Entry, size_bytes: int) -> Model:
        if self._budget_bytes is not None and size_bytes > self._budget_bytes:
            raise ValueError(
                f"model {keep.name!r} needs {size_bytes} bytes, more than the whole budget of "
                f"{self._budget_bytes}"
            )
        self._keep_budget(size_bytes, keep)
        with self._scope:
            while True:
                try:
                    return self._load_model(source)
                except OutOfMemoryError:
                    if not self._evict(keep):
                        raise

    def _keep_budget(self, more_bytes: int = 0, keep: _Entry | None = None) -> None:
        """Unload what nobody uses, but `keep`, while there is more than the budget.

        With `more_bytes` they are for a model that is to take the place of that of `keep`.
        """
        while self._over_budget(more_bytes, keep) and self._evict(keep):
            pass

    def _over_budget(self, more_bytes: int, keep: _Entry | None) -> bool:
        if self._budget_bytes is None:
            return False
        with self._changed:
            held = sum(
                entry.size_bytes
                for entry in self._entries.values()
                if entry.current is not None and (entry is not keep or not more_bytes)
            )
        return held + more_bytes > self._budget_bytes

    def _evict(self, keep: _Entry | None) -> bool:
        """Unload the model that was not used for longest; False when there is none to unload."""
        with self._changed:
            idle = [
                entry
                for entry in self._entries.values()
                if entry is not keep and entry.current is not None and not entry.current.users
            ]
            if not idle:
                return False
            entry = min(idle, key=lambda each: each.used)
            closing = self._retire(entry.current)
            entry.current = None
            self._evictions += 1
        _close(closing)
        return True

    @staticmethod
    def _retire(loaded: _Loaded | None) -> Model | None:
        """Let a model go with its last user; returns it when there is none."""
        if loaded is None:
            return None
        loaded.retired = True
        return None if loaded.users else loaded.model

    def _entry(self, name: str) -> _Entry:
        self._require_open()
        if name not in self._entries:
            known = ", ".join(map(str, self._entries)) or "none"
            raise UnknownModelError(f"the pool has no model {name!r}; it has: {known}")
        return self._entries[name]

    def _require_open(self) -> None:
        if self._closed:
            raise ValueError("this ModelPool is closed")


def _close(model: Model | None) -> None:
    if model is not None:
        model.close()


def _size_of(source: Source) -> int:
    return sum(required_memory(source))


def _the_clock() -> Clock:
    return clock()
