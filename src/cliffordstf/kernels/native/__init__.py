"""The compiled CPU kernels: C++ built with the system's compiler at first use, called through plain C."""
