"""Who decides: generators, reflection, researchers."""
