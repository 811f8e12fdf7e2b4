"""What the text of a kernel tells: its tokens, its parts, what it uses, what it equals."""
