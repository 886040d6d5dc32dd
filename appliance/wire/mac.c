/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The MAC of the handshake, by OpenSSL's provider interface: no algorithm of our own, and one that
 * a FIPS provider may replace. Twice per connection, so what OpenSSL allocates does not matter.
 */
#include "wire/mac.h"

#include <errno.h>
#include <string.h>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>

static void mac_freep(EVP_MAC **mac)
{
	EVP_MAC_free(*mac);
}

static void mac_ctx_freep(EVP_MAC_CTX **ctx)
{
	EVP_MAC_CTX_free(*ctx);	/* clears the key */
}

int mac_compute(const void *secret, size_t secret_len, const char *label,
		const struct iovec *parts, int n_parts, uint8_t mac[WIRE_MAC_SIZE])
{
	__attribute__((cleanup(mac_freep))) EVP_MAC *hmac = NULL;
	__attribute__((cleanup(mac_ctx_freep))) EVP_MAC_CTX *ctx = NULL;
	char digest[] = "SHA256";
	OSSL_PARAM params[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
		OSSL_PARAM_construct_end(),
	};
	size_t len = 0;

	hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
	if (!hmac)
		return -EIO;
	ctx = EVP_MAC_CTX_new(hmac);
	if (!ctx || !EVP_MAC_init(ctx, secret, secret_len, params))
		return -EIO;
	if (!EVP_MAC_update(ctx, (const unsigned char *)label, strlen(label)))
		return -EIO;
	for (int i = 0; i < n_parts; i++) {
		if (!EVP_MAC_update(ctx, parts[i].iov_base, parts[i].iov_len))
			return -EIO;
	}
	if (!EVP_MAC_final(ctx, mac, &len, WIRE_MAC_SIZE) || len != WIRE_MAC_SIZE)
		return -EIO;
	return 0;
}

int mac_equal(const uint8_t a[WIRE_MAC_SIZE], const uint8_t b[WIRE_MAC_SIZE])
{
	return CRYPTO_memcmp(a, b, WIRE_MAC_SIZE) == 0;
}
