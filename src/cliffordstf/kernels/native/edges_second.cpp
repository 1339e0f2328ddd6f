#include "edge.h"
#include "export.h"

CSTF_EXPORT(edge_second, EdgeArgs, EdgeOperator<CSTF_NUMBER>(*a).second())
