"""Any server that speaks OpenAI's protocol, and llama.cpp's server, of which more is known."""
