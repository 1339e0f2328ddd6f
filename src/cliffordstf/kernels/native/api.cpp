// C entry points; the first letter of each name says the precision. Only plain C types cross this border, so that the
// library depends on no release of PyTorch.
#include "edge.h"
#include "gate.h"
#include "linear.h"
#include "muon.h"
#include "node.h"
#include "radial.h"

using namespace cstf;

#define CSTF_EXPORT(prefix, T)                                                                       \
    int32_t prefix##_lanes() { return Simd<T>::lanes; }                                              \
    void prefix##_edge_forward(const EdgeArgs* a) { EdgeOperator<T>(*a).forward(); }                 \
    void prefix##_edge_backward(const EdgeArgs* a) { EdgeOperator<T>(*a).backward(); }               \
    void prefix##_edge_second(const EdgeArgs* a) { EdgeOperator<T>(*a).second(); }                   \
    void prefix##_node_forward(const NodeArgs* a) { NodeOperator<T>(*a).forward(); }                 \
    void prefix##_node_backward(const NodeArgs* a) { NodeOperator<T>(*a).backward(); }               \
    void prefix##_node_second(const NodeArgs* a) { NodeOperator<T>(*a).second(); }                   \
    void prefix##_gate_forward(const GateArgs* a) { ScalarGate<T>(*a).forward(); }                   \
    void prefix##_gate_backward(const GateArgs* a) { ScalarGate<T>(*a).backward(); }                 \
    void prefix##_gate_second(const GateArgs* a) { ScalarGate<T>(*a).second(); }                     \
    void prefix##_radial_forward(const RadialArgs* a) { RadialFunctions<T>(*a).forward(); }          \
    void prefix##_muon_update(const MuonArgs* a) { MuonUpdate<T>(*a).run(); }                        \
    void prefix##_linear_forward(const LinearArgs* a, int64_t n) {                                   \
        for (int64_t i = 0; i < n; ++i) TrackLinear<T>(a[i]).forward();                              \
    }                                                                                                \
    void prefix##_linear_backward(const LinearArgs* a, int64_t n) {                                  \
        for (int64_t i = 0; i < n; ++i) TrackLinear<T>(a[i]).backward();                             \
    }

extern "C" {
#ifdef CSTF_DOUBLE
CSTF_EXPORT(d, double)
#else
CSTF_EXPORT(s, float)
#endif
}
