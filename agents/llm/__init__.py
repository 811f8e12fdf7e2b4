"""Chat models: calls, retries, spend, replies, and the generator that asks them."""
