"""One study a file: the jobs that answer its question, and the table of their results."""
