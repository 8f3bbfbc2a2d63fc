"""The part that is sent to a host to make load: raw HTTP and server-sent events over asyncio streams.

It takes its plan as one JSON line on standard input, prints progress and a result as JSON lines, and
ends, dropping what is in flight, when its standard input does. Standard library only, any Python from
3.9 on; it imports nothing of ours outside this folder.
"""
