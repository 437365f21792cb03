// The cipher between a client and the service: Diffie-Hellman, HMAC-SHA256 and AES. SHA-256 for names.
#pragma once
#include <openssl/bn.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
