// tpm2-tss: the Enhanced System API, the loader of transmission interfaces, marshalling, and the texts of result codes.
#pragma once
#include <tss2/tss2_esys.h>
#include <tss2/tss2_mu.h>
#include <tss2/tss2_rc.h>
#include <tss2/tss2_tctildr.h>
