"""Where the graph finds the bench that ships."""

from cuda_llm.tools.judge.device_bench import DeviceBench, Slots, confirming, open_slots

__all__ = ["DeviceBench", "Slots", "confirming", "open_slots"]
