"""What each PTX operation does to one lane, and to one warp."""
