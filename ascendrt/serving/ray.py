"""Ray Serve: a replica that owns one NPU, its models and its batches (extra `ascendrt[ray]`).

Owns: the class of the replica, and the call that repeats a request whose replica died. Scheduling,
placement and the choice of the device are Ray's: a replica asks for `NPU: 1` and sees one device
(ASCEND_RT_VISIBLE_DEVICES). Must never import ray before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ascendrt.model import Source

_TRIES = 5


class Replica:
    """Answers requests of one row for several models, in batches, on the one device it sees.

    Made by Ray Serve in a process of its own. `batching` goes to DynamicBatcher.of_model, such as
    `max_delay_ms`. Raises: OSError when a model's file is not on this node; AclError.
    """

    def __init__(self, sources: Mapping[str, Source], batching: Mapping[str, Any] | None = None):
        import ascendrt

        self._device = ascendrt.Device(0)
        self._pool = ascendrt.ModelPool()
        self._batchers: dict[str, ascendrt.DynamicBatcher[Any, Any]] = {}
        self._leases = []
        for name, source in sources.items():
            self._pool.add(name, source)
            lease = self._pool.lease(name)
            model = lease.__enter__()
            self._leases.append(lease)
            self._batchers[name] = ascendrt.DynamicBatcher.of_model(model, **(batching or {}))

    async def __call__(self, name: str, row: Any) -> list[np.ndarray[Any, Any]]:
        """Return the outputs of a model for one row. Raises: KeyError for no such model."""
        answer: list[np.ndarray[Any, Any]] = await self._batchers[name].infer(row)
        return answer

    def where(self) -> tuple[int, str]:
        """Return how many devices this replica sees and what it was given."""
        import os

        import ascendrt

        return ascendrt.device_count(), os.environ.get("ASCEND_RT_VISIBLE_DEVICES", "")

    def __del__(self) -> None:
        for batcher in getattr(self, "_batchers", {}).values():
            batcher.close(cancel=True)
        for lease in getattr(self, "_leases", ()):
            lease.__exit__(None, None, None)
        if hasattr(self, "_pool"):
            self._pool.close()
            self._device.close()


def application(
    sources: Mapping[str, Source], *, replicas: int = 1, requests: int = 64, **batching: Any
) -> Any:
    """Return a Ray Serve application of so many replicas with one NPU each.

    `requests` may be under way in one replica at a time: more than its largest batch.
    """
    from ray import serve

    deployment: Any = serve.deployment(
        name="ascendrt",
        num_replicas=replicas,
        max_ongoing_requests=requests,
        ray_actor_options={"num_cpus": 0, "resources": {"NPU": 1}},
    )
    return deployment(Replica).bind(dict(sources), batching)


async def ask(handle: Any, name: str, row: Any, *, tries: int = _TRIES) -> Any:
    """Send one request; one whose replica died goes to another. Models answer the same again.

    Raises: what the replica raised; ray's error when `tries` replicas in a row died.
    """
    from ray.exceptions import RayActorError

    for left in reversed(range(tries)):
        try:
            return await handle.remote(name, row)
        except RayActorError:
            if left == 0:
                raise
    raise ValueError(f"tries={tries}: at least 1")
