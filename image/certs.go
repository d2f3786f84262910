package main

import (
	"bytes"
	"encoding/pem"
	"fmt"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// certificates is Mozilla's list of authorities, in PEM, from the pinned Go module: the same on every machine that
// builds. Roots that are trusted under a condition only are left out, since PEM cannot say conditions.
func certificates() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		// Writing to memory does not fail.
		if err := pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			panic(fmt.Sprintf("encode a certificate: %v", err))
		}
	}
	return out.Bytes()
}
