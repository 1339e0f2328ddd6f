"""What the package needs from the operating system and the processor: memory, threads, denormal numbers, safe files.

Nothing here imports another part of the package, except for its errors.
"""
