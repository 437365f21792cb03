// tpm2-tss: the Enhanced System API, the loader of transmission interfaces, marshalling, and the texts of result codes.
// And the calls that take templates, which are written as C writes them.
#pragma once
#include <tss2/tss2_esys.h>
#include <tss2/tss2_mu.h>
#include <tss2/tss2_rc.h>
#include <tss2/tss2_tctildr.h>

static const TPM2B_DATA tpm_no_data = {0};
static const TPML_PCR_SELECTION tpm_no_registers = {0};

// The storage root key that the TPM derives from its seed, the same every time.
static inline TSS2_RC tpm_make_storage_root_key(ESYS_CONTEXT *tpm, ESYS_TR *key) {
    const TPM2B_SENSITIVE_CREATE sensitive = {0};
    const TPM2B_PUBLIC template = {.publicArea = {
        .type = TPM2_ALG_ECC,
        .nameAlg = TPM2_ALG_SHA256,
        .objectAttributes = TPMA_OBJECT_FIXEDTPM | TPMA_OBJECT_FIXEDPARENT | TPMA_OBJECT_SENSITIVEDATAORIGIN |
            TPMA_OBJECT_USERWITHAUTH | TPMA_OBJECT_NODA | TPMA_OBJECT_RESTRICTED | TPMA_OBJECT_DECRYPT,
        .parameters.eccDetail = {
            .symmetric = {.algorithm = TPM2_ALG_AES, .keyBits.aes = 128, .mode.aes = TPM2_ALG_CFB},
            .scheme.scheme = TPM2_ALG_NULL,
            .curveID = TPM2_ECC_NIST_P256,
            .kdf.scheme = TPM2_ALG_NULL}}};
    return Esys_CreatePrimary(tpm, ESYS_TR_RH_OWNER, ESYS_TR_PASSWORD, ESYS_TR_NONE, ESYS_TR_NONE, &sensitive, &template,
        &tpm_no_data, &tpm_no_registers, key, NULL, NULL, NULL, NULL);
}

// A session that authorizes, and encrypts the first parameter of commands and answers. Its key is agreed on with `key`, so
// that it is not on the bus.
static inline TSS2_RC tpm_start_session(ESYS_CONTEXT *tpm, ESYS_TR key, ESYS_TR *session) {
    const TPMT_SYM_DEF cipher = {.algorithm = TPM2_ALG_AES, .keyBits.aes = 128, .mode.aes = TPM2_ALG_CFB};
    TSS2_RC code = Esys_StartAuthSession(tpm, key, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE, NULL,
        TPM2_SE_HMAC, &cipher, TPM2_ALG_SHA256, session);
    if (code != 0) return code;
    code = Esys_TRSess_SetAttributes(tpm, *session,
        TPMA_SESSION_CONTINUESESSION | TPMA_SESSION_DECRYPT | TPMA_SESSION_ENCRYPT, 0xff);
    if (code != 0) Esys_FlushContext(tpm, *session);
    return code;
}

// Seals a secret under `parent`. The TPM is to check its authorization, and to count wrong ones, unless it is empty.
static inline TSS2_RC tpm_seal(ESYS_CONTEXT *tpm, ESYS_TR parent, ESYS_TR session, const TPM2B_SENSITIVE_CREATE *secret,
    TPM2B_PUBLIC **public_area, TPM2B_PRIVATE **private_area) {
    const TPM2B_PUBLIC template = {.publicArea = {
        .type = TPM2_ALG_KEYEDHASH,
        .nameAlg = TPM2_ALG_SHA256,
        .objectAttributes = TPMA_OBJECT_FIXEDTPM | TPMA_OBJECT_FIXEDPARENT | TPMA_OBJECT_USERWITHAUTH |
            (secret->sensitive.userAuth.size == 0 ? TPMA_OBJECT_NODA : 0),
        .parameters.keyedHashDetail.scheme.scheme = TPM2_ALG_NULL}};
    return Esys_Create(tpm, parent, session, ESYS_TR_NONE, ESYS_TR_NONE, secret, &template, &tpm_no_data,
        &tpm_no_registers, private_area, public_area, NULL, NULL, NULL);
}

// tpm2-tss keeps a copy of the last call's secret. This call overwrites it. It fails before it reaches the TPM, because there
// is no such parent.
static inline void tpm_forget_sealed(ESYS_CONTEXT *tpm) {
    const TPM2B_SENSITIVE_CREATE sensitive = {0};
    const TPM2B_PUBLIC template = {0};
    Esys_Create_Async(tpm, 0x7fffffff, ESYS_TR_PASSWORD, ESYS_TR_NONE, ESYS_TR_NONE, &sensitive, &template, &tpm_no_data,
        &tpm_no_registers);
}

// tpm2-tss decrypts answers in its buffer. A long answer overwrites the one with the secret.
static inline void tpm_forget_answer(ESYS_CONTEXT *tpm, ESYS_TR key) {
    TPM2B_PUBLIC *area = NULL;
    Esys_ReadPublic(tpm, key, ESYS_TR_NONE, ESYS_TR_NONE, ESYS_TR_NONE, &area, NULL, NULL);
    Esys_Free(area);
}
