"""Serving: pools of devices and models, a pipeline, a batcher.

Built on the objects alone; time and waiting come from one clock (ascendrt/clocks.py), so that all
of it runs in virtual time as well. What spreads them over machines (a Ray adapter, say) uses the
same public classes: each is made from plain values inside the process that is to run it.
"""

from ascendrt.serving.batcher import BatchMetrics, DynamicBatcher, QueueFullError
from ascendrt.serving.devices import DevicePool, Worker
from ascendrt.serving.models import ModelPool, UnknownModelError
from ascendrt.serving.pipeline import Pipeline

__all__ = [
    "BatchMetrics",
    "DevicePool",
    "DynamicBatcher",
    "ModelPool",
    "Pipeline",
    "QueueFullError",
    "UnknownModelError",
    "Worker",
]
