"""How studies run: what a job is, with which protocol it trains, where it runs, and the result file that it leaves."""
