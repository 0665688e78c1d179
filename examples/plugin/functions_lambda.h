/* The functions with lambda arguments of the sample plugin. */
#ifndef SAMPLE_FUNCTIONS_LAMBDA_H
#define SAMPLE_FUNCTIONS_LAMBDA_H
#include <trunnion/function.h>

enum { SAMPLE_LAMBDAS = 2 };
extern const trn_lambda_function *const sample_lambdas[SAMPLE_LAMBDAS];
#endif
