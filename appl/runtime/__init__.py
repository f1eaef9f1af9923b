"""Programs run: futures, fibers, the I/O thread with the scheduler, frames and their addresses."""

from appl.base.lazy_names import names_of

__getattr__ = names_of(
    __name__,
    {
        "answers.call": "Call",
        "answers.models": "SAMPLING Route Spot",
        "answers.recorded_models": "models_from",
        "answers.samples": "Caches Samples",
        "answers.schema": "Checker",
        "answers.shape": "shape_of",
        "concurrency.future": "Future",
        "concurrency.fiber": "Hub Stack Strand hub_here hubs watchdog",
        "concurrency.idle_detection": "IdleDetection",
        "concurrency.loop_thread": "io_thread",
        "concurrency.serial": "SerialWaits",
    },
)
