/* Whether a fuzzer runs while allocations fail (run_corpus_faults.c): an error's own memory may be what is missing. */
#ifndef TRN_FUZZ_FAULTS_H
#define TRN_FUZZ_FAULTS_H
#ifdef TRN_FUZZ_FAULTS
#define TRN_FUZZ_IS_SHORT true
#else
#define TRN_FUZZ_IS_SHORT false
#endif
#endif
