"""From counts to times: the model and its explanation."""
