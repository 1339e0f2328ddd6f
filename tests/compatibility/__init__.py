"""Files of every format that was ever written; they stay, and must load for ever."""
