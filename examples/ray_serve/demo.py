"""Ray Serve on two local nodes with two NPUs each, while one of its four replicas is killed:

    pip install ascendrt[ray]
    ascendrt om convert examples/digits/digits.onnx -o digits.om
    ASCENDRT_DEVICES=2 python examples/ray_serve/demo.py digits.om

Owns the whole path: a cluster, actors that see one device each, an application of one replica per
device, 2,000 requests by its handle. Prints what came back as JSON; exits with 1 when a request is
lost or too many answers are wrong. Nothing of Ray is changed, nor is Ray told of the emulator: it
asks `acl` on every node. Without `pip install ascendrt`, PYTHONPATH must name its folder, as
workers import it too.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import ray
from ray import serve
from ray.cluster_utils import Cluster

from ascendrt.serving.ray import application, ask

HELD_OUT = Path(__file__).resolve().parents[1] / "digits" / "heldout.npz"
NODES, NPUS_EACH = 2, 2
REQUESTS, AT_ONCE = 2000, 64
MIN_ACCURACY = 0.97


@ray.remote(num_cpus=0, resources={"NPU": 1})
class Worker:
    """An actor that asks for one device."""

    def sees(self) -> tuple[int, int, str, int]:
        """Return the number of devices, the code of device 0, what Ray gave, that of device 1."""
        import acl

        count = acl.rt.get_device_count()[0]
        acl.init()
        code = acl.rt.set_device(0)
        return count, code, os.environ["ASCEND_RT_VISIBLE_DEVICES"], acl.rt.set_device(1)


def workers() -> list[Any]:
    """Start as many actors as there are devices and ask what each sees."""
    made = [Worker.remote() for _ in range(NODES * NPUS_EACH)]
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
    """End the process of one replica, as a crash would."""
    from ray.util.state import list_actors

    alive = [a for a in list_actors(filters=[("state", "=", "ALIVE")])
             if a.class_name.startswith("ServeReplica") and "ascendrt" in a.class_name]  # fmt: skip
    os.kill(alive[0].pid, 9)


def main() -> int:
    """Start, ask, stop; then tell."""
    if len(sys.argv) != 2:
        sys.exit("usage: python examples/ray_serve/demo.py digits.om")
    om = Path(sys.argv[1]).resolve()  # replicas have another working folder
    held = np.load(HELD_OUT)
    pixels = held["pixels"].astype(np.float32).reshape(-1, 1, 8, 8) / 16
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 4})
    for _ in range(NODES - 1):
        cluster.add_node(num_cpus=4)
    ray.init(address=cluster.address, log_to_driver=False)
    cluster.wait_for_nodes()
    npus = ray.cluster_resources().get("NPU", 0)
    seen = workers()
    serve.start(proxy_location="Disabled")  # requests come by handle; a proxy is slow to start
    handle = serve.run(application({"digits": str(om)}, replicas=NODES * NPUS_EACH, max_delay_ms=2))
    begin = time.monotonic()
    answers, killed = asyncio.run(load(handle, pixels))
    seconds = time.monotonic() - begin
    serve.shutdown()
    ray.shutdown()
    cluster.shutdown()
    labels = np.resize(held["labels"], REQUESTS)
    accuracy = float(np.mean(labels == answers))
    told = {"npus": npus, "seen": seen, "killed": killed, "seconds": seconds}
    print(json.dumps({**told, "answers": len(answers), "accuracy": accuracy}))
    return 0 if killed and len(answers) == REQUESTS and accuracy >= MIN_ACCURACY else 1


if __name__ == "__main__":
    sys.exit(main())
