#include "edge.h"
#include "export.h"

CSTF_EXPORT(edge_forward, EdgeArgs, EdgeOperator<CSTF_NUMBER>(*a).forward())
CSTF_EXPORT(edge_backward, EdgeArgs, EdgeOperator<CSTF_NUMBER>(*a).backward())
