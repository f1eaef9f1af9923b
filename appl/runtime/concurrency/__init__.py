"""Waiting side by side: futures, fibers, the I/O thread, and who waits for whom."""
