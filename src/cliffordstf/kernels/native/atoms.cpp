#include "attention.h"
#include "export.h"
#include "gate.h"
#include "linear.h"
#include "muon.h"
#include "node.h"

extern "C" int32_t CSTF_NAME(lanes)() { return cstf::Simd<CSTF_NUMBER>::lanes; }

CSTF_EXPORT_POOLED(node_forward, NodeArgs, NodeOperator, forward)
CSTF_EXPORT_POOLED(node_backward, NodeArgs, NodeOperator, backward)
CSTF_EXPORT_POOLED(node_second, NodeArgs, NodeOperator, second)
CSTF_EXPORT(gate_forward, GateArgs, ScalarGate<CSTF_NUMBER>(*a).forward())
CSTF_EXPORT(gate_backward, GateArgs, ScalarGate<CSTF_NUMBER>(*a).backward())
CSTF_EXPORT(gate_second, GateArgs, ScalarGate<CSTF_NUMBER>(*a).second())
CSTF_EXPORT(attention_forward, AttentionArgs, Attention<CSTF_NUMBER>(*a).forward())
CSTF_EXPORT(muon_update, MuonArgs, MuonUpdate<CSTF_NUMBER>(*a).run())

extern "C" void CSTF_NAME(linear_forward)(const cstf::LinearArgs* a, int64_t n) {
    for (int64_t i = 0; i < n; ++i) cstf::TrackLinear<CSTF_NUMBER>(a[i]).forward();
}

extern "C" void CSTF_NAME(linear_backward)(const cstf::LinearArgs* a, int64_t n) {
    for (int64_t i = 0; i < n; ++i) cstf::TrackLinear<CSTF_NUMBER>(a[i]).backward();
}
