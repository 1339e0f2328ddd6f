"""What happens past one machine and past its memory: screening, data sets larger than memory, several processes."""
