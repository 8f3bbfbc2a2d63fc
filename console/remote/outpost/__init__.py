"""The part that is sent to a host: files, search, git, writes and processes behind framed requests.

It runs there from memory, under any Python from 3.9 on, with the standard library only, and lives
no longer than its standard input. It imports nothing of ours outside this folder.
"""
