/* llvm_linked.c: the functions of an LLVM that the program is linked with. No library has it: a program that
 * is to run where there is no LLVM adds this object and LLVM's archives (tests/gpu/campaign_pack.sh). */
#define LLVM_ITSELF
#include "backends/cpu/llvm/llvm.h"

const LlvmFunctions llvm_linked = {
#define LLVM_FUNCTION(NAME) \
    .NAME \
    = LLVM##NAME \
    ,
#include "backends/cpu/llvm/llvm.def"
#undef LLVM_FUNCTION
};
