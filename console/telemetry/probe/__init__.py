"""The part that is sent to a host to read its GPUs: NVML at up to 10 Hz, else a streamed `nvidia-smi`.

It prints one JSON object a line and lives no longer than its standard input. Standard library and
`pynvml` only, any Python from 3.9 on; it imports nothing of ours outside this folder.
"""
