"""How a model runs: plain autograd, schedules in C++, or a traced graph; one engine is picked, once, visibly."""
