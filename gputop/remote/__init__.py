"""Sent to servers: Python 3.6+, standard library and pynvml only; imports nothing from the rest of gputop."""
