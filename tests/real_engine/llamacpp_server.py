"""llama.cpp's own HTTP server out of the wheel `xllamacpp`, under the flags of `llama-server` that tests need."""

from __future__ import annotations

import argparse
import signal

import xllamacpp  # type: ignore[import-not-found]

parser = argparse.ArgumentParser(prog="llama-server")
parser.add_argument("--model", required=True)
parser.add_argument("--alias", default="tiny")
parser.add_argument("--host", default="127.0.0.1")
parser.add_argument("--port", type=int, default=8080)
parser.add_argument("--ctx-size", type=int, default=4096)
parser.add_argument("--parallel", type=int, default=4)
parser.add_argument("--ubatch-size", type=int, default=512)
parser.add_argument("--cache-type-k", choices=("f32", "f16", "q8_0"), default="f16")
parser.add_argument("--metrics", action="store_true")
parser.add_argument("--slots", action="store_true")
parser.add_argument("--api-key", default="")
parser.add_argument("--props", action="store_true")
given = parser.parse_args()

params = xllamacpp.CommonParams()
params.model.path, params.model_alias = given.model, {given.alias}
params.hostnames, params.port = [given.host], given.port
params.n_ctx, params.n_parallel, params.n_ubatch = given.ctx_size, given.parallel, given.ubatch_size
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
params.api_keys = [given.api_key] if given.api_key else []
params.endpoint_metrics, params.endpoint_slots, params.endpoint_props = given.metrics, given.slots, given.props
END = {signal.SIGTERM, signal.SIGINT}
signal.pthread_sigmask(signal.SIG_BLOCK, END)  # before there are threads, which inherit it
server = xllamacpp.Server(params)
signal.sigwait(END)
