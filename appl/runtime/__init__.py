"""Programs run: futures, fibers, the I/O thread with the scheduler, frames and their addresses."""
