"""Two local Ray nodes with two NPUs each answer while a replica is killed. Prints JSON."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import Any

import numpy as np
import ray
from ray import serve
from ray.cluster_utils import Cluster

from ascendrt.serving.ray import application, ask

REQUESTS, AT_ONCE = 2000, 64


@ray.remote(num_cpus=0, resources={"NPU": 1})
class Worker:
    def sees(self) -> tuple[int, int, str, int]:
        import acl

        count = acl.rt.get_device_count()[0]
        acl.init()
        code = acl.rt.set_device(0)
        return count, code, os.environ["ASCEND_RT_VISIBLE_DEVICES"], acl.rt.set_device(1)


def workers() -> list[Any]:
    made = [Worker.remote() for _ in range(4)]
    seen = ray.get([worker.sees.remote() for worker in made], timeout=120)
    for worker in made:
        ray.kill(worker)
    return seen


async def load(handle: Any, rows: np.ndarray) -> tuple[list[Any], bool]:
    """Ask for each row; half-way, end one replica's process."""
    places = asyncio.Semaphore(AT_ONCE)
    done, killed = 0, False

    async def one(number: int) -> Any:
        nonlocal done, killed
        async with places:
            if done >= REQUESTS // 2 and not killed:
                killed = True
                await asyncio.to_thread(kill_one)
            (scores,) = await ask(handle, "digits", rows[number % len(rows)])
            done += 1
            return scores.argmax()

    return await asyncio.gather(*(one(n) for n in range(REQUESTS))), killed


def kill_one() -> None:
    from ray.util.state import list_actors

    alive = [a for a in list_actors(filters=[("state", "=", "ALIVE")])
             if a.class_name.startswith("ServeReplica") and "ascendrt" in a.class_name]  # fmt: skip
    os.kill(alive[0].pid, 9)


def main() -> None:
    om, held = sys.argv[1:]
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 4})
    cluster.add_node(num_cpus=4)
    ray.init(address=cluster.address, log_to_driver=False)
    cluster.wait_for_nodes()
    npus = ray.cluster_resources().get("NPU", 0)
    seen = workers()
    pixels = np.load(held)["pixels"].astype(np.float32).reshape(-1, 1, 8, 8) / 16
    serve.start(proxy_location="Disabled")  # requests come by handle; a proxy is slow to start
    handle = serve.run(application({"digits": om}, replicas=4, max_delay_ms=2))
    begin = time.monotonic()
    answers, killed = asyncio.run(load(handle, pixels))
    seconds = time.monotonic() - begin
    serve.shutdown()
    ray.shutdown()
    cluster.shutdown()
    print(json.dumps({
        "npus": npus, "seen": seen, "killed": killed, "seconds": seconds,
        "answers": [int(answer) for answer in answers],
    }))  # fmt: skip


if __name__ == "__main__":
    main()
