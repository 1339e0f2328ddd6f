"""`bench speed --against`: this code and another checkout of it, side by side in one run."""
