#include "convolution.h"
#include "export.h"

CSTF_EXPORT(convolution_forward, ConvolutionArgs, ConvolutionOperator<CSTF_NUMBER>(*a).forward())
CSTF_EXPORT(convolution_backward, ConvolutionArgs, ConvolutionOperator<CSTF_NUMBER>(*a).backward())
CSTF_EXPORT(convolution_second, ConvolutionArgs, ConvolutionOperator<CSTF_NUMBER>(*a).second())
