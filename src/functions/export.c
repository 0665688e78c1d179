/* The exported function has the name of a type in function.h, which C allows only where the typedef is not visible. */
#include <trunnion/export.h>

struct trn_function_library;
const struct trn_function_library *fn__library(void);
TRN_API const struct trn_function_library *trn_function_library(void);

const struct trn_function_library *trn_function_library(void) {
  return fn__library();
}
