"""`python -m sglang.launch_server`: comes up, serves and ends as the real one does, faults by `--mode`."""

from __future__ import annotations

import argparse
import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

parser = argparse.ArgumentParser(prog="launch_server.py")
parser.add_argument("--model-path", default="")
parser.add_argument("--mode", default="")
parser.add_argument("--gate", default="", help="a file: readiness waits until it is there")
parser.add_argument("--tp-size", type=int, default=1)
parser.add_argument("--port", type=int)
args = parser.parse_args()


def say(text: str, ranks: str = "") -> None:
    """Print one line of the log."""
    print(f"[{time.strftime('%Y-%m-%d %H:%M:%S')}{ranks}] {text}", flush=True)


def end(number: int) -> None:
    """End as SGLang does after draining: the whole tree with SIGKILL."""
    for child in children:
        child.kill()
    os.kill(os.getpid(), number)


say(f"server_args=ServerArgs(model_path={args.model_path!r}, tp_size={args.tp_size}, port={args.port})")
print("token is", "set" if os.environ.get("HF_TOKEN") else "unset", flush=True)
children = [
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=args.mode == "strays")
    for _ in range(args.tp_size)
]
say("Init torch distributed begin.", " TP0")
say("Init torch distributed ends. elapsed=0.1 s, mem usage=0.09 GB", " TP0")
say("Load weight begin. avail mem=139.13 GB", " TP0")
for done in range(5):
    sys.stderr.write(
        f"\rLoading safetensors checkpoint shards: {done * 25:3}% Completed | {done}/4 [00:00<00:00, 3.40it/s]"
    )
sys.stderr.write("\n")
sys.stderr.flush()
if args.mode == "oom":
    say(
        "Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "x.py", line 1, in f\n    g()\n'
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 5.62 GiB. GPU 0 has a total capacity of "
        "139.80 GiB of which 5.23 GiB is free.\n",
        " TP0",
    )
    say("Received sigquit from a child process. It usually means the child failed.")
    end(signal.SIGKILL)
if args.mode == "exit":
    sys.exit(5)
say("Load weight end. elapsed=1.14 s, type=X, avail mem=135.06 GB, mem usage=4.06 GB.", " TP0")
say("KV Cache is allocated. #tokens: 5335322, K size: 61.06 GB, V size: 61.06 GB", " TP0")
say("Running FlashInfer autotune...", " TP0")
say("FlashInfer autotune completed.", " TP0")
say("max_total_num_tokens=5335322, chunked_prefill_size=8192, max_running_requests=4096, context_len=32768", " TP0")
while args.gate and not Path(args.gate).exists():
    time.sleep(0.02)

REPLIES = {
    "/model_info": {"model_path": args.model_path},
    "/server_info": {"model_path": args.model_path, "tp_size": args.tp_size, "internal_states": []},
    "/v1/loads": {"loads": [{"num_running_reqs": 3, "num_waiting_reqs": 1}]},
    "/abort_request": {},
}


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers what the console asks."""

    def do_GET(self) -> None:
        body = REPLIES.get(self.path)
        self.send_response(404 if body is None else 200)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    do_POST = do_GET

    def log_message(self, format: str, *values: object) -> None:
        """Say nothing."""


try:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", args.port), Handler)
except OSError as error:
    say(
        f"ERROR:    [Errno {error.errno}] error while attempting to bind on address ('127.0.0.1', {args.port}): address already in use"
    )
    if args.mode == "waits":  # what has the port does not answer its warm-up
        time.sleep(600)
    say("The server is fired up and ready to roll!")
    end(signal.SIGKILL)
threading.Thread(target=server.serve_forever, daemon=True).start()
say(f"INFO:     Uvicorn running on http://127.0.0.1:{args.port} (Press CTRL+C to quit)")
say("The server is fired up and ready to roll!")


def drain(number: int, frame: object) -> None:
    """Take SIGTERM."""
    say("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
    if args.mode == "stubborn":
        say("Gracefully exiting... Remaining number of requests 2. Remaining requests remaining_rids=['a', 'b'].")
    else:
        say("Gracefully exiting... Remaining number of requests 0. Remaining requests remaining_rids=[].")
        end(signal.SIGKILL)


signal.signal(signal.SIGTERM, drain)
while True:
    time.sleep(0.2)
