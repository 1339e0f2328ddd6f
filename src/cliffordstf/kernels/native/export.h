// How the library's functions are named: their first letter says the precision. Only plain C types cross this border, so
// that the library depends on no release of PyTorch. What takes long to compile is spread over several files.
#pragma once

#ifdef CSTF_DOUBLE
#define CSTF_NUMBER double
#define CSTF_NAME(name) d_##name
#else
#define CSTF_NUMBER float
#define CSTF_NAME(name) s_##name
#endif

#define CSTF_EXPORT(name, Args, action) \
    extern "C" void CSTF_NAME(name)(const cstf::Args* a) { cstf::action; }

// The same for an operator that takes memory of a pool.
#define CSTF_EXPORT_POOLED(name, Args, Operator, pass)         \
    extern "C" void CSTF_NAME(name)(const cstf::Args* a) {     \
        cstf::Pool<CSTF_NUMBER> pool;                          \
        cstf::Operator<CSTF_NUMBER>(*a, pool).pass();          \
    }
