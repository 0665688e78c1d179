/* The functions that the sample plugin adds. */
#ifndef SAMPLE_FUNCTIONS_H
#define SAMPLE_FUNCTIONS_H
#include <trunnion/function.h>

extern const trn_function_library sample_functions;
#endif
