"""Data sets in shards: parts that are read one at a time, on any machine, or structure by structure.

- `layout`: our own format, a folder of plain arrays;
- `writing`, `reading`: of that format;
- `pieces`: parts of files in any format;
- `stored`: frames that stay on disk and are read by index.
"""
