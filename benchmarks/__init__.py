"""Speed and memory, measured side by side in one process; `make bench` runs all."""
