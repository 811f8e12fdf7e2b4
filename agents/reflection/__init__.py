"""What a round taught: a diagnosis from verdicts and profiles, and a model's critique on top."""
