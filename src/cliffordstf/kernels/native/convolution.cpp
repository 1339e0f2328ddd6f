#include "convolution.h"
#include "export.h"

CSTF_EXPORT_POOLED(convolution_forward, ConvolutionArgs, ConvolutionOperator, forward)
CSTF_EXPORT_POOLED(convolution_backward, ConvolutionArgs, ConvolutionOperator, backward)
CSTF_EXPORT_POOLED(convolution_second, ConvolutionArgs, ConvolutionOperator, second)
